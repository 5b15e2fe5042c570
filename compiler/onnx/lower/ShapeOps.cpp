// SPDX-License-Identifier: Apache-2.0
//
// Rows of ops that only move elements, and of the sources Shape, Size and
// ConstantOfShape. Shapes given as tensors must be known at compile time.
#include "compiler/onnx/Legalizer.h"
#include "compiler/onnx/OpTable.h"

#include <limits>

using namespace mlir;

namespace llmc::onnx {
namespace {

//===----------------------------------------------------------------------===//
// Shape, Size, constants
//===----------------------------------------------------------------------===//

LogicalResult shape(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  int64_t rank = x.rank();
  auto clamped = [&](int64_t position) {
    return std::clamp(position < 0 ? position + rank : position, int64_t(0), rank);
  };
  int64_t start = clamped(l.intAttr("start", 0)), end = clamped(l.intAttr("end", rank));
  Sizes dims = x.dims();
  return l.result(l.sizes(ArrayRef(dims).slice(start, std::max<int64_t>(end - start, 0))));
}

LogicalResult size(Lowering &l) {
  Tensor x = l.input(0);
  return l.result(x ? l.integer(llm::productOf(x.dims(), l.builder.getContext()), l.i64())
                    : Tensor());
}

LogicalResult constantOfShape(Lowering &l) {
  std::optional<Sizes> dims = l.knownSizes(0, "the shape");
  if (!dims)
    return failure();
  Tensor value = l.scalar(0, l.builder.getF32Type());
  if (Attribute attr = l.attr("value")) {
    auto elements = dyn_cast<DenseElementsAttr>(attr);
    if (!elements || elements.getNumElements() != 1)
      return l.result(l.fail(1203, "ConstantOfShape needs a value of one element"));
    value = l.reshape(l.constant(elements), {});
  }
  return l.result(l.broadcast(value, *dims));
}

//===----------------------------------------------------------------------===//
// Reshape and friends
//===----------------------------------------------------------------------===//

LogicalResult reshape(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Sizes> wanted = x ? l.knownSizes(1, "the shape") : std::nullopt;
  if (!wanted)
    return failure();
  bool allowZero = l.intAttr("allowzero", 0) != 0;
  Sizes from = x.dims();
  std::optional<size_t> open;
  for (auto [i, dim] : llvm::enumerate(*wanted)) {
    if (llm::isConstant(dim, 0) && !allowZero) {
      if (i >= from.size())
        return l.result(l.fail(1204, "Reshape copies dimension " + Twine(i) + " of shape " +
                                         l.text(from) + ", which has none"));
      dim = from[i];
    } else if (llm::isConstant(dim, -1)) {
      if (open)
        return l.result(l.fail(1203, "Reshape to " + l.text(*wanted) + " has two sizes -1"));
      open = i;
    } else if (llm::constantOf(dim).value_or(0) < -1) {
      return l.result(l.fail(1203, "Reshape to negative size " + l.symbols.text(dim)));
    }
  }
  if (open) {
    // Equal sizes on both sides cancel, which also decides where they may be 0.
    Sizes rest = from, others;
    for (auto [i, dim] : llvm::enumerate(*wanted)) {
      if (i == *open)
        continue;
      if (auto *same = llvm::find(rest, dim); same != rest.end())
        rest.erase(same);
      else
        others.push_back(dim);
    }
    AffineExpr elements = llm::productOf(rest, l.builder.getContext());
    AffineExpr known = llm::productOf(others, l.builder.getContext());
    if (llm::isConstant(known, 0))
      return l.result(l.fail(1204, "Reshape of " + l.text(from) +
                                       " can't work out the size -1 in " + l.text(*wanted)));
    AffineExpr quotient = l.symbols.floorDiv(elements, known);
    if (llm::constantOf(elements) && llm::constantOf(known) &&
        l.symbols.mul(quotient, known) != elements)
      return l.result(l.fail(1204, "Reshape of " + l.text(from) + ": " + l.symbols.text(elements) +
                                       " elements aren't a multiple of " + l.symbols.text(known)));
    (*wanted)[*open] = quotient;
  }
  return l.result(l.reshape(x, *wanted));
}

LogicalResult flatten(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  int64_t axis = l.intAttr("axis", 1);
  if (axis < -x.rank() || axis > x.rank()) // the rank itself is allowed
    return l.result(
        l.fail(1203, "axis " + Twine(axis) + " of Flatten is outside rank " + Twine(x.rank())));
  if (axis < 0)
    axis += x.rank();
  Sizes dims = x.dims();
  MLIRContext *context = l.builder.getContext();
  return l.result(l.reshape(x, {llm::productOf(ArrayRef(dims).take_front(axis), context),
                                llm::productOf(ArrayRef(dims).drop_front(axis), context)}));
}

LogicalResult transpose(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  SmallVector<int64_t> reversed;
  for (int64_t i = x.rank(); i-- > 0;)
    reversed.push_back(i);
  std::optional<SmallVector<int64_t>> permutation =
      l.axesOf(l.intsAttr("perm").value_or(reversed), x.rank());
  if (!permutation)
    return failure();
  if (int64_t(permutation->size()) != x.rank())
    return l.result(l.fail(1203, "perm of Transpose has " + Twine(permutation->size()) +
                                     " entries for rank " + Twine(x.rank())));
  return l.result(l.transpose(x, *permutation));
}

/// The `axes` of Squeeze and Unsqueeze: an attribute before opset 13, then an input.
std::optional<SmallVector<int64_t>> axesOfSqueeze(Lowering &l, bool &given) {
  if (l.version() < 13) {
    auto axes = l.intsAttr("axes");
    given = axes.has_value();
    return axes.value_or(SmallVector<int64_t>());
  }
  given = l.has(1);
  return given ? l.knownInts(1, "axes") : SmallVector<int64_t>();
}

LogicalResult squeeze(Lowering &l) {
  Tensor x = l.input(0);
  bool given = false;
  std::optional<SmallVector<int64_t>> axes = axesOfSqueeze(l, given);
  if (!x || !axes || !(axes = l.axesOf(*axes, x.rank())))
    return failure();
  Sizes dims;
  for (auto [i, dim] : llvm::enumerate(x.dims())) {
    if (!given) {
      // Which dimensions go must not depend on the call.
      if (!llm::constantOf(dim))
        l.symbols.requireAtMost(l.size(2), dim,
                                "Squeeze without axes removes no dimension of varying size");
      if (!llm::isConstant(dim, 1))
        dims.push_back(dim);
      continue;
    }
    if (!llvm::is_contained(*axes, int64_t(i)))
      dims.push_back(dim);
    else if (!l.agree(dim, l.size(1), "a squeezed dimension and 1"))
      return failure();
  }
  return l.result(l.reshape(x, dims));
}

LogicalResult unsqueeze(Lowering &l) {
  Tensor x = l.input(0);
  bool given = false;
  std::optional<SmallVector<int64_t>> axes = axesOfSqueeze(l, given);
  if (!x || !axes)
    return failure();
  int64_t rank = x.rank() + axes->size();
  if (!(axes = l.axesOf(*axes, rank)))
    return failure();
  Sizes from = x.dims(), dims;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back(llvm::is_contained(*axes, i) ? l.size(1) : from[next++]);
  return l.result(l.reshape(x, dims));
}

/// (N, C, H, W) with blocks of channels moved into space, or back.
LogicalResult depthToSpace(Lowering &l) {
  Tensor x = l.input(0);
  int64_t b = l.intAttr("blocksize", 0);
  if (!x)
    return failure();
  if (x.rank() != 4 || b <= 0)
    return l.result(l.fail(1203, "DepthToSpace needs rank 4 and a positive blocksize"));
  AffineExpr n = x.dim(0), c = l.symbols.floorDiv(x.dim(1), l.size(b * b)), h = x.dim(2),
             w = x.dim(3);
  bool crd = l.stringAttr("mode", "DCR") == "CRD";
  Tensor split =
      crd ? l.transpose(l.reshape(x, {n, c, l.size(b), l.size(b), h, w}), {0, 1, 4, 2, 5, 3})
          : l.transpose(l.reshape(x, {n, l.size(b), l.size(b), c, h, w}), {0, 3, 4, 1, 5, 2});
  return l.result(l.reshape(split, {n, c, h * b, w * b}));
}

LogicalResult spaceToDepth(Lowering &l) {
  Tensor x = l.input(0);
  int64_t b = l.intAttr("blocksize", 0);
  if (!x)
    return failure();
  if (x.rank() != 4 || b <= 0)
    return l.result(l.fail(1203, "SpaceToDepth needs rank 4 and a positive blocksize"));
  AffineExpr n = x.dim(0), c = x.dim(1), h = l.symbols.floorDiv(x.dim(2), l.size(b)),
             w = l.symbols.floorDiv(x.dim(3), l.size(b));
  bool crd = l.stringAttr("mode", "DCR") == "CRD";
  Tensor split = l.reshape(x, {n, c, h, l.size(b), w, l.size(b)});
  return l.result(l.reshape(crd ? l.transpose(split, {0, 1, 3, 5, 2, 4})
                                : l.transpose(split, {0, 3, 5, 1, 2, 4}),
                            {n, c * (b * b), h, w}));
}

//===----------------------------------------------------------------------===//
// Concat, Split, Slice
//===----------------------------------------------------------------------===//

LogicalResult concat(Lowering &l) {
  SmallVector<Tensor> parts = l.inputs();
  if (parts.empty() || !parts.front())
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 1), parts.front().rank());
  return l.result(axis ? l.concat(*axis, parts) : Tensor());
}

LogicalResult split(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 0), x.rank());
  if (!axis)
    return failure();
  AffineExpr whole = x.dim(*axis);
  int64_t count = l.node.getOutputs().size();
  Sizes parts;
  if (l.version() >= 13 && l.has(1)) {
    std::optional<Sizes> sizes = l.knownSizes(1, "split");
    if (!sizes)
      return failure();
    parts = *sizes;
  } else if (auto sizes = l.intsAttr("split"); sizes && l.version() < 13) {
    for (int64_t size : *sizes)
      parts.push_back(l.size(size));
  } else {
    // Equal parts; since opset 18 the last one may be smaller.
    count = l.version() >= 18 ? l.intAttr("num_outputs", count) : count;
    if (count < 1 || count < int64_t(l.node.getOutputs().size()))
      return l.result(l.fail(1203, "Split into " + Twine(count) + " parts has " +
                                       Twine(l.node.getOutputs().size()) + " outputs"));
    bool exact = l.version() < 18;
    AffineExpr chunk =
        l.symbols.floorDiv(exact ? whole : l.symbols.add(whole, l.size(count - 1)), l.size(count));
    AffineExpr rest = whole;
    for (int64_t i = 0; i < count; ++i) {
      parts.push_back(exact ? chunk : l.symbols.min(chunk, rest));
      rest = l.symbols.sub(rest, parts.back());
    }
  }
  if (parts.size() != size_t(count))
    return l.result(l.fail(1203, "Split has " + Twine(parts.size()) + " sizes for " + Twine(count) +
                                     " outputs"));
  AffineExpr start = l.size(0);
  SmallVector<Tensor> results;
  for (AffineExpr part : parts) {
    if (llm::constantOf(part).value_or(0) < 0)
      return l.result(l.fail(1203, "Split has the negative size " + l.symbols.text(part)));
    results.push_back(l.sliceAxis(x, *axis, start, part));
    start = l.symbols.add(start, part);
  }
  if (!l.agree(start, whole, "the sizes of Split and the dimension"))
    return failure();
  results.resize(l.node.getOutputs().size());
  return l.results(results);
}

/// `position` in a dimension of `size`: negative counts from the end, then clamped to [low, high].
AffineExpr clampedPosition(Lowering &l, AffineExpr position, AffineExpr size, AffineExpr low,
                           AffineExpr high) {
  llm::Symbols &symbols = l.symbols;
  if (std::optional<int64_t> constant = llm::constantOf(position)) {
    // Sums with the ends of int64 would wrap.
    constexpr int64_t kFar = int64_t(1) << 62;
    if (*constant >= kFar)
      return high;
    if (*constant <= -kFar)
      return low;
  }
  if (!symbols.nonNegative(position)) {
    AffineExpr minusOne = symbols.sub(symbols.constant(-1), position);
    position = symbols.nonNegative(minusOne)
                   ? symbols.add(position, size)
                   : symbols.add(position, symbols.mul(symbols.isNegative(position), size));
  }
  return symbols.min(symbols.max(position, low), high);
}

LogicalResult sliceWith(Lowering &l, Tensor x, const Sizes &starts, const Sizes &ends,
                        ArrayRef<int64_t> axes, ArrayRef<int64_t> steps) {
  if (starts.size() != ends.size() || starts.size() != axes.size() || steps.size() != axes.size())
    return l.result(l.fail(1203, "Slice has " + Twine(starts.size()) + " starts, " +
                                     Twine(ends.size()) + " ends, " + Twine(axes.size()) +
                                     " axes and " + Twine(steps.size()) + " steps"));
  std::optional<SmallVector<int64_t>> positive = l.axesOf(axes, x.rank());
  if (!positive)
    return failure();
  llm::Symbols &symbols = l.symbols;
  Sizes dims = x.dims(), from(x.rank(), l.size(0));
  SmallVector<int64_t> by(x.rank(), 1);
  for (auto [axis, start, end, given] : llvm::zip_equal(*positive, starts, ends, steps)) {
    AffineExpr size = dims[axis], zero = l.size(0), last = symbols.sub(size, l.size(1));
    if (given == 0)
      return l.result(l.fail(1203, "Slice has a step of 0"));
    // Steps beyond any size act alike.
    int64_t step = std::clamp<int64_t>(given, -(int64_t(1) << 31), int64_t(1) << 31);
    by[axis] = step;
    AffineExpr count;
    if (step > 0) {
      from[axis] = clampedPosition(l, start, size, zero, size);
      AffineExpr stop = clampedPosition(l, end, size, zero, size);
      AffineExpr span = symbols.max(symbols.sub(stop, from[axis]), zero);
      count = symbols.floorDiv(symbols.add(span, l.size(step - 1)), l.size(step));
    } else {
      from[axis] = clampedPosition(l, start, size, zero, last);
      // `-1` after counting from the end means before the first element.
      AffineExpr stop = clampedPosition(l, end, size, l.size(-1), last);
      AffineExpr span = symbols.max(symbols.sub(from[axis], stop), zero);
      count = symbols.floorDiv(symbols.add(span, l.size(-step - 1)), l.size(-step));
    }
    dims[axis] = count;
  }
  return l.result(l.slice(x, from, by, dims));
}

LogicalResult sliceAttributes(Lowering &l) {
  Tensor x = l.input(0);
  auto starts = l.intsAttr("starts"), ends = l.intsAttr("ends"), axes = l.intsAttr("axes");
  if (!x)
    return failure();
  if (!starts || !ends)
    return l.result(l.fail(1203, "Slice needs starts and ends"));
  Sizes from, to;
  for (int64_t start : *starts)
    from.push_back(l.size(start));
  for (int64_t end : *ends)
    to.push_back(l.size(end));
  if (!axes)
    axes = llvm::to_vector(llvm::seq<int64_t>(0, starts->size()));
  return sliceWith(l, x, from, to, *axes, SmallVector<int64_t>(axes->size(), 1));
}

LogicalResult slice(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Sizes> starts, ends;
  if (!x || !(starts = l.knownSizes(1, "starts")) || !(ends = l.knownSizes(2, "ends")))
    return failure();
  std::optional<SmallVector<int64_t>> axes = llvm::to_vector(llvm::seq<int64_t>(0, starts->size()));
  std::optional<SmallVector<int64_t>> steps = SmallVector<int64_t>(starts->size(), 1);
  if (l.has(3))
    axes = l.knownInts(3, "axes");
  if (axes && l.has(4))
    steps = l.knownInts(4, "steps");
  if (!axes || !steps)
    return failure();
  return sliceWith(l, x, *starts, *ends, *axes, *steps);
}

//===----------------------------------------------------------------------===//
// Expand, Tile, Pad
//===----------------------------------------------------------------------===//

LogicalResult expand(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Sizes> shape = x ? l.knownSizes(1, "the shape") : std::nullopt;
  if (!shape)
    return failure();
  for (AffineExpr dim : *shape)
    if (llm::constantOf(dim).value_or(0) < 0)
      return l.result(l.fail(1203, "Expand to negative size " + l.symbols.text(dim)));
  std::optional<Sizes> dims = l.broadcastDims(x.dims(), *shape);
  return l.result(dims ? l.broadcast(x, *dims) : Tensor());
}

LogicalResult tile(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Sizes> repeats = x ? l.knownSizes(1, "repeats") : std::nullopt;
  if (!repeats)
    return failure();
  if (int64_t(repeats->size()) != x.rank())
    return l.result(l.fail(1203, "Tile has " + Twine(repeats->size()) + " repeats for rank " +
                                     Twine(x.rank())));
  return l.result(l.tile(x, *repeats));
}

LogicalResult padWith(Lowering &l, Tensor x, const Sizes &pads, ArrayRef<int64_t> axes,
                      Tensor value) {
  std::optional<llm::PadMode> mode = llm::symbolizePadMode(l.stringAttr("mode", "constant"));
  if (!mode)
    return l.result(l.fail(1203, "Pad has the unknown mode '" + l.stringAttr("mode", "") + "'"));
  std::optional<SmallVector<int64_t>> positive = l.axesOf(axes, x.rank());
  if (!positive)
    return failure();
  if (pads.size() != 2 * positive->size())
    return l.result(l.fail(1203, "Pad has " + Twine(pads.size()) + " pads for " +
                                     Twine(positive->size()) + " axes"));
  Sizes dims = x.dims(), low(x.rank(), l.size(0));
  for (auto [i, axis] : llvm::enumerate(*positive)) {
    AffineExpr before = pads[i], after = pads[i + positive->size()];
    low[axis] = before;
    AffineExpr padded = l.symbols.add(dims[axis], l.symbols.add(before, after));
    if (llm::constantOf(padded).value_or(0) < 0)
      return l.result(l.fail(1203, "Pad makes dimension " + Twine(axis) + " negative"));
    // Reflection and wrapping of less than one period only, as ONNX defines them.
    dims[axis] = padded;
  }
  if (llm::tensorOf(dims, x.elementType()) == x.type() &&
      llvm::all_of(low, [](AffineExpr e) { return llm::isConstant(e, 0); }))
    return l.result(x);
  Value filling;
  if (value && *mode == llm::PadMode::Constant)
    filling = l.value(l.cast(value, x.elementType()));
  return l.result(l.make<llm::PadOp>(dims, x.elementType(), l.value(x), filling, *mode,
                                     llm::DimsAttr::get(l.builder.getContext(), low)));
}

LogicalResult padAttributes(Lowering &l) {
  Tensor x = l.input(0);
  auto pads = l.intsAttr("pads");
  if (!x)
    return failure();
  if (!pads)
    return l.result(l.fail(1203, "Pad needs pads"));
  Sizes sizes;
  for (int64_t pad : *pads)
    sizes.push_back(l.size(pad));
  double value = l.floatAttr("value", 0);
  return padWith(l, x, sizes, llvm::to_vector(llvm::seq<int64_t>(0, x.rank())),
                 value == 0 ? Tensor() : l.scalar(value, x.elementType()));
}

LogicalResult pad(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<Sizes> pads = x ? l.knownSizes(1, "pads") : std::nullopt;
  if (!pads)
    return failure();
  Tensor value;
  if (l.has(2) && !(value = l.reshape(l.input(2), {})))
    return failure();
  std::optional<SmallVector<int64_t>> axes = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  if (l.has(3))
    axes = l.knownInts(3, "axes");
  return axes ? padWith(l, x, *pads, *axes, value) : failure();
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering
    {"", "Concat",          4,  concat},
    {"", "ConstantOfShape", 9,  constantOfShape},
    {"", "DepthToSpace",    1,  depthToSpace},
    {"", "Expand",          8,  expand},
    {"", "Flatten",         1,  flatten},
    {"", "Pad",             2,  padAttributes},
    {"", "Pad",             11, pad},
    {"", "Reshape",         5,  reshape},
    {"", "Shape",           1,  shape},
    {"", "Size",            1,  size},
    {"", "Slice",           1,  sliceAttributes},
    {"", "Slice",           10, slice},
    {"", "SpaceToDepth",    1,  spaceToDepth},
    {"", "Split",           2,  split},
    {"", "Squeeze",         1,  squeeze},
    {"", "Tile",            6,  tile},
    {"", "Transpose",       1,  transpose},
    {"", "Unsqueeze",       1,  unsqueeze},
};
// clang-format on

} // namespace

ArrayRef<OpRow> shapeRows() { return kRows; }

} // namespace llmc::onnx
