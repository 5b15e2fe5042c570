// SPDX-License-Identifier: Apache-2.0
//
// Rows of convolution and pooling. With a constant weight and one group a
// convolution is a matrix product of what its taps see, so that it runs on the
// kernels of products; pooling goes one dimension after the other.
#include "compiler/onnx/OpTable.h"
#include "compiler/onnx/lower/ConvParts.h"

#include <limits>

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {
namespace {

/// More taps than these are not worth a copy of the input for each.
constexpr int64_t kMaxUnfoldedTaps = 64;

/// What a kernel sees of each spatial dimension.
struct Window {
  SmallVector<int64_t> kernel, strides, dilations;
  Sizes low, high; // padding
  Sizes out;       // sizes of the result

  size_t rank() const { return kernel.size(); }
  int64_t extent(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  /// The padded size that the windows reach.
  AffineExpr reach(Lowering &l, size_t i) const {
    return l.symbols.add(l.symbols.mul(l.symbols.sub(out[i], l.size(1)), l.size(strides[i])),
                         l.size(extent(i)));
  }
};

/// A list attribute with a number for each spatial dimension.
std::optional<SmallVector<int64_t>> numbers(Lowering &l, StringRef name, size_t count,
                                            int64_t otherwise, int64_t least) {
  SmallVector<int64_t> values = l.intsAttr(name).value_or(SmallVector<int64_t>(count, otherwise));
  if (values.size() == count && llvm::all_of(values, [&](int64_t v) { return v >= least; }))
    return values;
  l.fail(1203, name + " of " + l.node.getOpType() + " must be " + Twine(count) + " numbers from " +
                   Twine(least) + " on");
  return std::nullopt;
}

/// Reads strides, dilations and padding for an input of `dims` (without batch and channels).
std::optional<Window> windowOf(Lowering &l, ArrayRef<AffineExpr> dims, ArrayRef<int64_t> kernel) {
  size_t rank = kernel.size();
  auto strides = numbers(l, "strides", rank, 1, 1), dilations = numbers(l, "dilations", rank, 1, 1);
  auto pads = numbers(l, "pads", 2 * rank, 0, std::numeric_limits<int64_t>::min());
  if (!strides || !dilations || !pads)
    return std::nullopt;
  Window w{SmallVector<int64_t>(kernel), *strides, *dilations, {}, {}, {}};
  StringRef mode = l.stringAttr("auto_pad", "NOTSET");
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID") {
    l.fail(1203, l.node.getOpType() + " has the unknown auto_pad '" + mode + "'");
    return std::nullopt;
  }
  bool roundUp = l.intAttr("ceil_mode", 0) != 0;
  llm::Symbols &s = l.symbols;
  for (size_t i = 0; i < rank; ++i) {
    AffineExpr size = dims[i], step = l.size(w.strides[i]);
    if (same) {
      AffineExpr out = s.floorDiv(s.add(size, l.size(w.strides[i] - 1)), step);
      AffineExpr needed = s.add(s.mul(s.sub(out, l.size(1)), step), l.size(w.extent(i)));
      AffineExpr total = s.max(s.sub(needed, size), l.size(0)), half = s.floorDiv(total, l.size(2));
      w.low.push_back(mode == "SAME_UPPER" ? half : s.sub(total, half));
      w.high.push_back(s.sub(total, w.low.back()));
      w.out.push_back(out);
      continue;
    }
    bool none = mode == "VALID";
    w.low.push_back(l.size(none ? 0 : (*pads)[i]));
    w.high.push_back(l.size(none ? 0 : (*pads)[i + rank]));
    AffineExpr span = s.sub(s.add(size, s.add(w.low[i], w.high[i])), l.size(w.extent(i)));
    if (std::optional<int64_t> known = llm::constantOf(span); known && *known < 0) {
      l.fail(1204,
             l.node.getOpType() + " has a kernel that is larger than its input " + l.text(dims));
      return std::nullopt;
    }
    if (roundUp)
      span = s.add(span, l.size(w.strides[i] - 1));
    AffineExpr out = s.add(s.floorDiv(span, step), l.size(1));
    if (roundUp) // no window begins behind the input
      out = s.min(out, s.add(s.floorDiv(s.sub(s.add(size, w.low[i]), l.size(1)), step), l.size(1)));
    w.out.push_back(out);
  }
  return w;
}

/// `x` padded with `value` so that all windows of dimensions `first`, `first` + 1, … lie inside.
Tensor padded(Lowering &l, Tensor x, const Window &w, size_t first, double value) {
  Sizes dims = x.dims(), low(dims.size(), l.size(0));
  for (size_t i = 0; i < w.rank(); ++i) {
    low[first + i] = w.low[i];
    dims[first + i] = w.reach(l, i);
  }
  bool none = llvm::all_of(low, [](AffineExpr e) { return llm::isConstant(e, 0); });
  if (none && dims == x.dims())
    return x;
  Value filling = value == 0 ? Value() : l.value(l.scalar(value, x.elementType()));
  return l.make<llm::PadOp>(dims, x.elementType(), l.value(x), filling, llm::PadMode::Constant,
                            llm::DimsAttr::get(l.builder.getContext(), low));
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// (batch, positions, taps * channels) of what each position sees; the order of the last dimension
/// is that of `weightMatrix`. Null without an error when there are too many taps for it.
Tensor unfolded(Lowering &l, Tensor x, const Window &w, bool &channelsFirst) {
  size_t rank = w.rank();
  AffineExpr batch = x.dim(0), channels = x.dim(1);
  AffineExpr positions = llm::productOf(w.out, l.builder.getContext());
  int64_t taps = 1;
  bool patches = true; // windows that tile the input
  for (size_t i = 0; i < rank; ++i) {
    taps *= w.kernel[i];
    patches &= w.kernel[i] == w.strides[i] && (w.dilations[i] == 1 || w.kernel[i] == 1) &&
               llm::isConstant(w.low[i], 0) && llm::isConstant(w.high[i], 0);
  }
  AffineExpr depth = l.symbols.mul(channels, l.size(taps));
  channelsFirst = patches;
  if (patches) {
    Sizes dims{batch, channels};
    SmallVector<int64_t> order{0};
    for (size_t i = 0; i < rank; ++i) {
      x = l.sliceAxis(x, 2 + i, l.size(0), l.symbols.mul(w.out[i], l.size(w.kernel[i])));
      dims.append({w.out[i], l.size(w.kernel[i])});
      order.push_back(2 + 2 * i);
    }
    order.push_back(1);
    for (size_t i = 0; i < rank; ++i)
      order.push_back(3 + 2 * i);
    return l.reshape(l.transpose(l.reshape(x, dims), order), {batch, positions, depth});
  }
  if (taps > kMaxUnfoldedTaps)
    return {};
  SmallVector<int64_t> order{0};
  for (size_t i = 0; i < rank; ++i)
    order.push_back(2 + i);
  order.push_back(1);
  x = padded(l, l.transpose(x, order), w, 1, 0);
  SmallVector<Tensor> seen;
  SmallVector<int64_t> steps{1};
  steps.append(w.strides.begin(), w.strides.end());
  steps.push_back(1);
  Sizes dims{batch};
  dims.append(w.out.begin(), w.out.end());
  dims.push_back(channels);
  forEachIndex(w.kernel, [&](ArrayRef<int64_t> tap) {
    Sizes starts(rank + 2, l.size(0));
    for (size_t i = 0; i < rank; ++i)
      starts[1 + i] = l.size(tap[i] * w.dilations[i]);
    seen.push_back(l.slice(x, starts, steps, dims));
  });
  return l.reshape(l.concat(rank + 1, seen), {batch, positions, depth});
}

/// (outputs, taps * channels).
Tensor weightMatrix(Lowering &l, Tensor w, bool channelsFirst) {
  if (!channelsFirst) {
    SmallVector<int64_t> order{0};
    for (int64_t i = 2; i < w.rank(); ++i)
      order.push_back(i);
    order.push_back(1);
    w = l.transpose(w, order);
  }
  Sizes dims = w.dims();
  return l.reshape(w,
                   {dims[0], llm::productOf(ArrayRef(dims).drop_front(), l.builder.getContext())});
}

/// The kernel's sizes, which must be constants.
std::optional<SmallVector<int64_t>> kernelOf(Lowering &l, Tensor x, Tensor w) {
  if (!x || !w)
    return std::nullopt;
  if (x.rank() < 3 || w.rank() != x.rank()) {
    l.fail(1204, l.node.getOpType() +
                     " needs an input of rank 3 or more and a weight of the same, "
                     "not shapes " +
                     l.text(x.dims()) + " and " + l.text(w.dims()));
    return std::nullopt;
  }
  SmallVector<int64_t> kernel;
  for (AffineExpr dim : ArrayRef(w.dims()).drop_front(2)) {
    std::optional<int64_t> size = llm::constantOf(dim);
    if (!size || *size < 1) {
      l.fail(1205, "the kernel of " + l.node.getOpType() + " must have constant sizes");
      return std::nullopt;
    }
    kernel.push_back(*size);
  }
  return kernel;
}

Tensor withChannelBias(Lowering &l, Tensor y, Tensor bias) {
  if (!y || !bias)
    return y;
  Sizes dims(y.rank(), l.size(1));
  dims[1] = y.dim(1);
  return l.add(y, l.reshape(bias, dims));
}

} // namespace

Tensor convolve(Lowering &l, Tensor x, Tensor w, Tensor bias) {
  std::optional<SmallVector<int64_t>> kernel = kernelOf(l, x, w);
  if (!kernel)
    return {};
  Sizes dims = x.dims();
  std::optional<Window> window = windowOf(l, ArrayRef(dims).drop_front(2), *kernel);
  if (!window)
    return {};
  int64_t groups = l.intAttr("group", 1);
  std::optional<int64_t> outputs = llm::constantOf(w.dim(0));
  if (groups < 1 || (outputs && *outputs % groups != 0))
    return l.fail(1203, l.node.getOpType() + " has " + l.symbols.text(w.dim(0)) + " outputs for " +
                            Twine(groups) + " groups");
  if (!l.agree(dims[1], l.symbols.mul(w.dim(1), l.size(groups)),
               "the channels of input and weight of " + l.node.getOpType()))
    return {};
  if (groups == 1 && x.isFloat() && l.isStored(w)) {
    bool channelsFirst = false;
    if (Tensor seen = unfolded(l, x, *window, channelsFirst)) {
      Tensor y = l.matmul(seen, weightMatrix(l, w, channelsFirst), /*transposeRhs=*/true);
      if (bias)
        y = l.add(y, bias);
      Sizes result{dims[0], w.dim(0)};
      result.append(window->out.begin(), window->out.end());
      return y ? l.reshape(l.transpose(y, {0, 2, 1}), result) : Tensor();
    }
    if (l.failed())
      return {};
  }
  Sizes result{dims[0], w.dim(0)};
  result.append(window->out.begin(), window->out.end());
  Tensor y = l.make<llm::ConvOp>(result, x.elementType(), l.value(x), l.value(w), window->strides,
                                 window->dilations,
                                 llm::DimsAttr::get(l.builder.getContext(), window->low), groups);
  return withChannelBias(l, y, bias);
}

namespace {

LogicalResult conv(Lowering &l) {
  Tensor bias = l.has(2) ? l.input(2) : Tensor();
  return l.failed() ? failure() : l.result(convolve(l, l.input(0), l.input(1), bias));
}

/// A convolution of the input with zeros between its elements, by the mirrored weight.
LogicalResult convTranspose(Lowering &l) {
  Tensor x = l.input(0), w = l.input(1), bias = l.has(2) ? l.input(2) : Tensor();
  std::optional<SmallVector<int64_t>> kernel = kernelOf(l, x, w);
  if (!kernel || l.failed())
    return failure();
  size_t rank = kernel->size();
  auto strides = numbers(l, "strides", rank, 1, 1), dilations = numbers(l, "dilations", rank, 1, 1);
  auto pads = numbers(l, "pads", 2 * rank, 0, std::numeric_limits<int64_t>::min());
  auto extra = numbers(l, "output_padding", rank, 0, 0);
  int64_t groups = l.intAttr("group", 1);
  std::optional<int64_t> channels = llm::constantOf(w.dim(0)), perGroup = llm::constantOf(w.dim(1));
  if (!strides || !dilations || !pads || !extra)
    return failure();
  if (!channels || !perGroup || groups < 1 || *channels % groups != 0)
    return l.result(l.fail(1203, "ConvTranspose needs a weight of constant sizes whose inputs its "
                                 "groups divide, not shape " +
                                     l.text(w.dims())));
  if (!l.agree(x.dim(1), w.dim(0), "the channels of input and weight of ConvTranspose"))
    return failure();
  llm::Symbols &s = l.symbols;
  StringRef mode = l.stringAttr("auto_pad", "NOTSET");
  std::optional<SmallVector<int64_t>> shape = l.intsAttr("output_shape");
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  Sizes out, low;
  for (size_t i = 0; i < rank; ++i) {
    AffineExpr size = x.dim(2 + i), step = l.size((*strides)[i]);
    AffineExpr whole = s.add(s.mul(s.sub(size, l.size(1)), step),
                             l.size((*extra)[i] + ((*kernel)[i] - 1) * (*dilations)[i] + 1));
    if (shape || same) {
      size_t skipped = shape ? shape->size() - std::min(rank, shape->size()) : 0;
      AffineExpr wanted =
          shape && skipped + i < shape->size() ? l.size((*shape)[skipped + i]) : s.mul(size, step);
      AffineExpr total = s.max(s.sub(whole, wanted), l.size(0));
      AffineExpr half = s.floorDiv(total, l.size(2));
      low.push_back(mode == "SAME_UPPER" ? half : s.sub(total, half));
      out.push_back(wanted);
    } else {
      bool none = mode == "VALID";
      low.push_back(l.size(none ? 0 : (*pads)[i]));
      out.push_back(s.sub(whole, l.size(none ? 0 : (*pads)[i] + (*pads)[i + rank])));
    }
    low.back() = s.sub(l.size(((*kernel)[i] - 1) * (*dilations)[i]), low.back());
  }
  for (size_t i = 0; i < rank; ++i) {
    int64_t step = (*strides)[i];
    if (step == 1)
      continue;
    Sizes dims = x.dims(), flat = dims;
    dims.insert(dims.begin() + 3 + i, l.size(1));
    x = l.reshape(x, dims);
    dims[3 + i] = l.size(step);
    Sizes none(dims.size(), l.size(0));
    x = l.make<llm::PadOp>(dims, x.elementType(), l.value(x), Value(), llm::PadMode::Constant,
                           llm::DimsAttr::get(l.builder.getContext(), none));
    flat[2 + i] = s.mul(flat[2 + i], l.size(step));
    x = l.reshape(x, flat);
  }
  // (groups, inputs, outputs, taps…) to (groups * outputs, inputs, taps…), last tap first.
  Sizes starts(2 + rank, l.size(0)), dims = w.dims();
  SmallVector<int64_t> steps(2 + rank, 1), order{0, 2, 1};
  Sizes split{l.size(groups), l.size(*channels / groups), l.size(*perGroup)};
  Sizes merged{l.size(groups * *perGroup), l.size(*channels / groups)};
  for (size_t i = 0; i < rank; ++i) {
    starts[2 + i] = l.size((*kernel)[i] - 1);
    steps[2 + i] = -1;
    split.push_back(dims[2 + i]);
    merged.push_back(dims[2 + i]);
    order.push_back(3 + i);
  }
  w = l.slice(w, starts, steps, dims);
  w = l.reshape(l.transpose(l.reshape(w, split), order), merged);
  if (!w)
    return failure();
  Sizes result{x.dim(0), merged[0]};
  result.append(out.begin(), out.end());
  Tensor y = l.make<llm::ConvOp>(result, x.elementType(), l.value(x), l.value(w),
                                 SmallVector<int64_t>(rank, 1), *dilations,
                                 llm::DimsAttr::get(l.builder.getContext(), low), groups);
  return l.result(withChannelBias(l, y, bias));
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

/// `kind` over the windows of spatial dimension `i` of a padded `x`.
Tensor pooledAlong(Lowering &l, Tensor x, const Window &w, size_t i, size_t axis,
                   ElementKind kind) {
  Tensor all;
  Sizes dims = x.dims();
  dims[axis] = w.out[i];
  SmallVector<int64_t> steps(x.rank(), 1);
  steps[axis] = w.strides[i];
  for (int64_t k = 0; k < w.kernel[i]; ++k) {
    Sizes starts(x.rank(), l.size(0));
    starts[axis] = l.size(k * w.dilations[i]);
    Tensor part = l.slice(x, starts, steps, dims);
    all = all ? l.elementwise(kind, {all, part}) : part;
  }
  return all;
}

Tensor pooled(Lowering &l, Tensor x, const Window &w, ElementKind kind, double filling) {
  x = padded(l, x, w, 2, filling);
  for (size_t i = 0; x && i < w.rank(); ++i)
    x = pooledAlong(l, x, w, i, 2 + i, kind);
  return x;
}

std::optional<Window> poolWindow(Lowering &l, Tensor x) {
  if (!x)
    return std::nullopt;
  auto kernel = l.intsAttr("kernel_shape");
  if (x.rank() < 3 || !kernel || int64_t(kernel->size()) != x.rank() - 2 ||
      llvm::any_of(*kernel, [](int64_t k) { return k < 1 || k > 4096; })) {
    l.fail(1203, l.node.getOpType() + " needs a kernel_shape for the spatial dimensions of " +
                     l.text(x.dims()));
    return std::nullopt;
  }
  Sizes dims = x.dims();
  return windowOf(l, ArrayRef(dims).drop_front(2), *kernel);
}

LogicalResult maxPool(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Window> window = poolWindow(l, x);
  if (!window)
    return failure();
  if (l.wants(1))
    return l.result(l.fail(1209, "the indices of MaxPool aren't supported"));
  double lowest = -std::numeric_limits<double>::infinity();
  if (auto integer = dyn_cast<IntegerType>(x.elementType()))
    lowest =
        integer.isUnsigned() ? 0 : -double(int64_t(1) << (std::min(integer.getWidth(), 32u) - 1));
  return l.results({pooled(l, x, *window, ElementKind::Max, lowest)});
}

LogicalResult averagePool(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Window> window = poolWindow(l, x);
  if (!window)
    return failure();
  Tensor sum = pooled(l, x, *window, ElementKind::Add, 0);
  bool countPadding = l.intAttr("count_include_pad", 0) != 0;
  // How many elements each window has, one dimension after the other.
  for (size_t i = 0; sum && i < window->rank(); ++i) {
    AffineExpr size = x.dim(2 + i), low = countPadding ? l.size(0) : window->low[i];
    if (countPadding)
      size = l.symbols.add(size, l.symbols.add(window->low[i], window->high[i]));
    Tensor ones = l.filled({size}, 1, x.elementType());
    Sizes reach{window->reach(l, i)};
    ones =
        l.make<llm::PadOp>(reach, x.elementType(), l.value(ones), Value(), llm::PadMode::Constant,
                           llm::DimsAttr::get(l.builder.getContext(), {low}));
    Tensor count = pooledAlong(l, ones, *window, i, 0, ElementKind::Add);
    Sizes line(sum.rank(), l.size(1));
    line[2 + i] = window->out[i];
    sum = l.div(sum, l.reshape(count, line));
  }
  return l.result(sum);
}

LogicalResult lpPool(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Window> window = poolWindow(l, x);
  if (!window)
    return failure();
  double p = double(l.intAttr("p", 2));
  Tensor power = l.with(ElementKind::Pow, l.elementwise(ElementKind::Abs, {x}), p);
  return l.result(l.with(ElementKind::Pow, pooled(l, power, *window, ElementKind::Add, 0), 1 / p));
}

template <ReduceKind kind> LogicalResult globalPool(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  if (x.rank() < 3)
    return l.result(l.fail(1204, l.node.getOpType() + " needs an input of rank 3 or more"));
  return l.result(l.reduce(kind, x, llvm::to_vector(llvm::seq<int64_t>(2, x.rank())), true));
}

LogicalResult globalLpPool(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  double p = double(l.intAttr("p", 2));
  Tensor power = l.with(ElementKind::Pow, l.elementwise(ElementKind::Abs, {x}), p);
  Tensor sum =
      l.reduce(ReduceKind::Sum, power, llvm::to_vector(llvm::seq<int64_t>(2, x.rank())), true);
  return l.result(l.with(ElementKind::Pow, sum, 1 / p));
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {"", "AveragePool",       7,  averagePool},
    {"", "Conv",              1,  conv, "kernels of constant sizes"},
    {"", "ConvTranspose",     1,  convTranspose, "weights of constant sizes"},
    {"", "GlobalAveragePool", 1,  globalPool<ReduceKind::Mean>},
    {"", "GlobalLpPool",      2,  globalLpPool},
    {"", "GlobalMaxPool",     1,  globalPool<ReduceKind::Max>},
    {"", "LpPool",            2,  lpPool},
    {"", "MaxPool",           1,  maxPool, "without indices"},
};
// clang-format on

} // namespace

ArrayRef<OpRow> convRows() { return kRows; }

} // namespace llmc::onnx
