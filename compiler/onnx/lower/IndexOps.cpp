// SPDX-License-Identifier: Apache-2.0
//
// Rows of ops that read or write by index, and of those made of positions:
// Range, Trilu, EyeLike, OneHot, CumSum, TopK.
#include "compiler/onnx/Legalizer.h"
#include "compiler/onnx/OpTable.h"

#include <cmath>

using namespace mlir;
using llmc::llm::ElementKind;

namespace llmc::onnx {
namespace {

//===----------------------------------------------------------------------===//
// Gather and scatter
//===----------------------------------------------------------------------===//

LogicalResult gather(Lowering &l) {
  Tensor x = l.input(0), indices = l.input(1);
  if (!x || !indices)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 0), x.rank());
  return l.result(axis ? l.gather(x, indices, *axis) : Tensor());
}

LogicalResult gatherElements(Lowering &l) {
  Tensor x = l.input(0), indices = l.input(1);
  if (!x || !indices)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 0), x.rank());
  if (!axis)
    return failure();
  if (x.rank() != indices.rank())
    return l.result(l.fail(1204, "GatherElements needs indices of rank " + Twine(x.rank()) +
                                     ", not shape " + l.text(indices.dims())));
  return l.result(l.make<llm::GatherElementsOp>(indices.dims(), x.elementType(), l.value(x),
                                                l.value(indices), *axis));
}

/// The number of dimensions an index tuple names; nothing (reported) when it doesn't fit.
std::optional<int64_t> tupleLength(Lowering &l, Tensor x, Tensor indices, int64_t batch) {
  std::optional<int64_t> length =
      indices.rank() > 0 ? llm::constantOf(indices.dims().back()) : std::nullopt;
  if (length && *length >= 0 && batch >= 0 && *length <= x.rank() - batch && batch < indices.rank())
    return length;
  l.fail(1204, l.node.getOpType() + ": index tuples of shape " + l.text(indices.dims()) +
                   " don't fit data of shape " + l.text(x.dims()));
  return std::nullopt;
}

LogicalResult gatherNd(Lowering &l) {
  Tensor x = l.input(0), indices = l.input(1);
  if (!x || !indices)
    return failure();
  int64_t batch = l.intAttr("batch_dims", 0);
  std::optional<int64_t> length = tupleLength(l, x, indices, batch);
  if (!length)
    return failure();
  Sizes from = x.dims(), at = indices.dims();
  for (int64_t i = 0; i < batch; ++i)
    if (!l.agree(from[i], at[i], "a batch dimension of GatherND"))
      return failure();
  Sizes dims(at.begin(), at.end() - 1);
  dims.append(from.begin() + batch + *length, from.end());
  return l.result(
      l.make<llm::GatherNdOp>(dims, x.elementType(), l.value(x), l.value(indices), batch));
}

std::optional<llm::ScatterReduction> scatterReduction(Lowering &l) {
  StringRef name = l.stringAttr("reduction", "none");
  if (auto reduction = llm::symbolizeScatterReduction(name))
    return reduction;
  l.fail(1203, l.node.getOpType() + " has the unknown reduction '" + name + "'");
  return std::nullopt;
}

LogicalResult scatterElements(Lowering &l) {
  Tensor x = l.input(0), indices = l.input(1), updates = l.input(2);
  if (!x || !indices || !updates)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 0), x.rank());
  std::optional<llm::ScatterReduction> reduction = scatterReduction(l);
  if (!axis || !reduction)
    return failure();
  if (x.rank() != indices.rank() || x.elementType() != updates.elementType())
    return l.result(l.fail(1204, l.node.getOpType() + " of " + l.text(x.dims()) + " by indices " +
                                     l.text(indices.dims()) +
                                     " needs equal ranks and element types"));
  updates = l.withDims(updates, indices.dims(), "indices and updates of " + l.node.getOpType());
  if (!updates)
    return failure();
  return l.result(l.make<llm::ScatterElementsOp>(x.dims(), x.elementType(), l.value(x),
                                                 l.value(indices), l.value(updates), *reduction,
                                                 *axis));
}

LogicalResult scatterNd(Lowering &l) {
  Tensor x = l.input(0), indices = l.input(1), updates = l.input(2);
  if (!x || !indices || !updates)
    return failure();
  std::optional<llm::ScatterReduction> reduction = scatterReduction(l);
  std::optional<int64_t> length = tupleLength(l, x, indices, 0);
  if (!reduction || !length)
    return failure();
  if (x.elementType() != updates.elementType())
    return l.result(l.fail(1206, "ScatterND needs data and updates of one element type"));
  Sizes from = x.dims(), at = indices.dims();
  Sizes dims(at.begin(), at.end() - 1);
  dims.append(from.begin() + *length, from.end());
  updates = l.withDims(updates, dims, "updates of ScatterND");
  if (!updates)
    return failure();
  return l.result(l.make<llm::ScatterNdOp>(x.dims(), x.elementType(), l.value(x), l.value(indices),
                                           l.value(updates), *reduction));
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// A sequence of constants, with the rounding of repeated use of the element type's `+` and `*`.
Tensor constantRange(Lowering &l, double start, double limit, double delta, Type type) {
  double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count <= 1 << 24))
    return l.fail(1203,
                  "Range of " + Twine(uint64_t(std::min(count, 1e18))) + " elements is too long");
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < int64_t(count); ++i)
    values.push_back(FloatAttr::get(type, start + double(i) * delta));
  auto tensor = RankedTensorType::get({int64_t(count)}, type);
  return l.constant(DenseElementsAttr::get(tensor, values));
}

LogicalResult range(Lowering &l) {
  Tensor start = l.input(0), limit = l.input(1), delta = l.input(2);
  if (!start || !limit || !delta)
    return failure();
  Type type = start.elementType();
  if (isa<FloatType>(type)) {
    SmallVector<Element, 3> bounds;
    for (Tensor bound : {start, limit, delta})
      if (bound.content() && bound.content()->elements.size() == 1)
        bounds.push_back(bound.content()->elements[0]);
    auto whole = [](const Element &e) {
      return (e.size && e.divisor == 1) ||
             (e.real && *e.real == std::trunc(*e.real) && std::fabs(*e.real) < 0x1p24);
    };
    if (bounds.size() != 3 || !bounds[2].number() || *bounds[2].number() == 0.0)
      return l.result(l.fail(1205, "the bounds of Range must follow from constants and the inputs' "
                                   "sizes, and its delta must not be 0"));
    if (bounds[0].number() && bounds[1].number())
      return l.result(
          constantRange(l, *bounds[0].number(), *bounds[1].number(), *bounds[2].number(), type));
    if (!llvm::all_of(bounds, whole))
      return l.result(l.fail(1205, "the bounds of Range must be whole numbers when they depend on "
                                   "sizes"));
    start = l.cast(start, l.i64());
    limit = l.cast(limit, l.i64());
    delta = l.cast(delta, l.i64());
  }
  auto element = [&](Tensor t) {
    const Content *content = t.content();
    return content && content->elements.size() == 1 && content->elements[0].divisor == 1
               ? content->elements[0].size
               : AffineExpr();
  };
  AffineExpr from = element(start), to = element(limit), by = element(delta);
  if (!from || !to || !by || !llm::constantOf(by))
    return l.result(l.fail(1205, "the bounds of Range must follow from constants and the inputs' "
                                 "sizes, and its delta must be constant"));
  int64_t step = *llm::constantOf(by);
  if (step == 0)
    return l.result(l.fail(1203, "Range has a delta of 0"));
  AffineExpr span = step > 0 ? l.symbols.sub(to, from) : l.symbols.sub(from, to);
  int64_t width = step > 0 ? step : -step;
  AffineExpr count = l.symbols.floorDiv(
      l.symbols.add(l.symbols.max(span, l.size(0)), l.size(width - 1)), l.size(width));
  Type integer = isa<FloatType>(type) ? l.i64() : type;
  return l.result(l.cast(l.iota(from, step, count, integer), type));
}

/// `column - row` over the last two dimensions of `x`.
Tensor diagonalIndex(Lowering &l, AffineExpr rows, AffineExpr columns) {
  Tensor row = l.unsqueeze(l.iota(l.size(0), 1, rows, l.i64()), 1);
  return l.sub(l.iota(l.size(0), 1, columns, l.i64()), row);
}

LogicalResult trilu(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  if (x.rank() < 2)
    return l.result(l.fail(1204, "Trilu needs two dimensions, not shape " + l.text(x.dims())));
  bool upper = l.intAttr("upper", 1) != 0;
  Tensor k = l.scalar(0, l.i64());
  if (l.has(1) && !(k = l.reshape(l.cast(l.input(1), l.i64()), {})))
    return failure();
  const Content *content = k.content();
  std::optional<int64_t> diagonal = content ? content->elements[0].integer() : std::nullopt;
  if (diagonal)
    return l.result(l.make<llm::TriluOp>(x.dims(), x.elementType(), l.value(x), upper, *diagonal));
  Tensor index = diagonalIndex(l, x.dim(x.rank() - 2), x.dim(x.rank() - 1));
  Tensor keep = l.compare(upper ? ElementKind::GreaterEqual : ElementKind::LessEqual, index, k);
  return l.result(l.select(keep, x, l.scalar(0, x.elementType())));
}

LogicalResult eyeLike(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  if (x.rank() != 2)
    return l.result(l.fail(1204, "EyeLike needs a matrix, not shape " + l.text(x.dims())));
  Type type = x.elementType();
  if (l.attr("dtype") && !(type = l.elementTypeOf(l.intAttr("dtype", 0))))
    return failure();
  Tensor hit = l.compare(ElementKind::Equal, diagonalIndex(l, x.dim(0), x.dim(1)),
                         l.integer(l.size(l.intAttr("k", 0)), l.i64()));
  return l.result(l.cast(hit, type));
}

LogicalResult oneHot(Lowering &l) {
  Tensor indices = l.input(0), depthTensor = l.input(1), values = l.input(2);
  if (!indices || !depthTensor || !values)
    return failure();
  depthTensor = l.cast(depthTensor, l.i64());
  const Content *content = depthTensor.content();
  AffineExpr depth =
      content && content->elements.size() == 1 ? content->elements[0].size : AffineExpr();
  if (!depth)
    return l.result(l.fail(1205, "the depth of OneHot must follow from constants and the inputs' "
                                 "sizes, but depends on data"));
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", -1), indices.rank() + 1);
  if (!axis)
    return failure();
  // An index outside [-depth, depth) selects nothing.
  Tensor at = l.unsqueeze(l.cast(indices, l.i64()), *axis);
  if (!at)
    return failure();
  Tensor size = l.integer(depth, l.i64());
  Tensor fromEnd = l.compare(ElementKind::Less, at, l.scalar(0, l.i64()));
  at = l.select(fromEnd, l.add(at, size), at);
  Sizes line(indices.rank() + 1, l.size(1));
  line[*axis] = depth;
  Tensor hit =
      l.compare(ElementKind::Equal, at, l.reshape(l.iota(l.size(0), 1, depth, l.i64()), line));
  Tensor off = l.reshape(l.sliceAxis(values, 0, l.size(0), l.size(1)), {});
  Tensor on = l.reshape(l.sliceAxis(values, 0, l.size(1), l.size(1)), {});
  return l.result(l.select(hit, on, off));
}

LogicalResult cumSum(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<int64_t> given = x ? l.knownInt(1, "the axis") : std::nullopt;
  std::optional<int64_t> axis = given ? l.axisOf(*given, x.rank()) : std::nullopt;
  if (!axis)
    return failure();
  return l.result(l.make<llm::CumsumOp>(x.dims(), x.elementType(), l.value(x), *axis,
                                        l.intAttr("exclusive", 0) != 0,
                                        l.intAttr("reverse", 0) != 0));
}

LogicalResult topK(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  AffineExpr k = l.size(l.intAttr("k", 0));
  if (l.version() >= 10) {
    std::optional<Sizes> given = l.knownSizes(1, "k");
    if (!given)
      return failure();
    if (given->size() != 1)
      return l.result(l.fail(1203, "k of TopK must have one element"));
    k = given->front();
  }
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", -1), x.rank());
  if (!axis)
    return failure();
  AffineExpr whole = x.dim(*axis);
  std::optional<int64_t> count = llm::constantOf(k), most = llm::constantOf(whole);
  if (count && (*count < 0 || (most && *count > *most)))
    return l.result(l.fail(1204, "TopK takes " + l.symbols.text(k) + " of " +
                                     l.symbols.text(whole) + " elements"));
  l.symbols.requireAtMost(k, whole, "TopK takes at most all elements");
  Sizes dims = x.dims();
  dims[*axis] = k;
  // The order of an unsorted result is free, so sorting always is right.
  bool smallest = l.version() >= 11 && l.intAttr("largest", 1) == 0;
  auto op = llm::TopKOp::create(l.builder, l.loc, llm::tensorOf(dims, x.elementType()),
                                llm::tensorOf(dims, l.i64()), l.value(x), *axis, smallest);
  return l.results({l.wrap(op.getValues()), l.wrap(op.getIndices())});
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering
    {"", "CumSum",          11, cumSum},
    {"", "EyeLike",         9,  eyeLike},
    {"", "Gather",          1,  gather},
    {"", "GatherElements",  11, gatherElements},
    {"", "GatherND",        11, gatherNd},
    {"", "OneHot",          9,  oneHot},
    {"", "Range",           11, range, "bounds from constants and sizes"},
    {"", "Scatter",         9,  scatterElements},
    {"", "ScatterElements", 11, scatterElements},
    {"", "ScatterND",       11, scatterNd},
    {"", "TopK",            1,  topK, "k from constants and sizes"},
    {"", "Trilu",           14, trilu},
};
// clang-format on

} // namespace

ArrayRef<OpRow> indexRows() { return kRows; }

} // namespace llmc::onnx
