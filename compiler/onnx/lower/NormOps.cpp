// SPDX-License-Identifier: Apache-2.0
//
// Rows of normalisations.
#include "compiler/onnx/Legalizer.h"
#include "compiler/onnx/OpTable.h"

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {
namespace {

/// Whether `scale` has exactly the dims of `x` from `axis` on.
bool isTrailing(Tensor x, Tensor scale, int64_t axis) {
  Sizes dims = x.dims();
  return scale.dims() == Sizes(ArrayRef(dims).drop_front(axis));
}

SmallVector<int64_t> axesFrom(int64_t axis, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(axis, rank));
}

LogicalResult layerNorm(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<int64_t> axis = x ? l.axisOf(l.intAttr("axis", -1), x.rank()) : std::nullopt;
  if (!axis)
    return failure();
  double epsilon = l.floatAttr("epsilon", 1e-5);
  Tensor scale = l.has(1) ? l.input(1) : Tensor(), bias = l.has(2) ? l.input(2) : Tensor();
  if ((l.has(1) && !scale) || (l.has(2) && !bias))
    return failure();
  // Scales of other shapes are applied by themselves.
  bool inside = (!scale || isTrailing(x, scale, *axis)) && (!bias || isTrailing(x, bias, *axis));
  Tensor y = l.make<llm::LayerNormOp>(
      x.dims(), x.elementType(), l.value(x), inside && scale ? l.value(scale) : Value(),
      inside && bias ? l.value(bias) : Value(), *axis, llvm::APFloat(epsilon));
  if (!inside && scale)
    y = l.mul(y, scale);
  if (!inside && bias)
    y = l.add(y, bias);
  if (!y || (!l.wants(1) && !l.wants(2)))
    return l.results({y});
  Type statistics = l.elementTypeOf(l.intAttr("stash_type", 1));
  if (!statistics)
    return failure();
  Tensor wide = l.cast(x, statistics);
  SmallVector<int64_t> axes = axesFrom(*axis, x.rank());
  Tensor mean = l.reduce(ReduceKind::Mean, wide, axes, /*keepDims=*/true);
  Tensor centred = l.sub(wide, mean);
  Tensor variance = l.reduce(ReduceKind::Mean, l.mul(centred, centred), axes, /*keepDims=*/true);
  Tensor inverse = l.elementwise(ElementKind::Rsqrt, {l.with(ElementKind::Add, variance, epsilon)});
  return l.results({y, mean, inverse});
}

LogicalResult rmsNorm(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<int64_t> axis = x ? l.axisOf(l.intAttr("axis", -1), x.rank()) : std::nullopt;
  if (!axis)
    return failure();
  Tensor scale = l.has(1) ? l.input(1) : Tensor();
  if (l.has(1) && !scale)
    return failure();
  bool inside = scale && isTrailing(x, scale, *axis) && scale.elementType() == x.elementType();
  Tensor y = l.make<llm::RmsNormOp>(x.dims(), x.elementType(), l.value(x),
                                    inside ? l.value(scale) : Value(), *axis,
                                    llvm::APFloat(l.floatAttr("epsilon", 1e-5)));
  if (scale && !inside)
    y = l.mul(l.cast(y, scale.elementType()), scale);
  return l.results({y});
}

LogicalResult lpNormalization(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<int64_t> axis = x ? l.axisOf(l.intAttr("axis", -1), x.rank()) : std::nullopt;
  if (!axis)
    return failure();
  int64_t p = l.intAttr("p", 2);
  if (p != 1 && p != 2)
    return l.result(l.fail(1203, "LpNormalization needs p = 1 or 2, not " + Twine(p)));
  Tensor norm = l.reduce(p == 1 ? ReduceKind::L1 : ReduceKind::L2, x, {*axis}, /*keepDims=*/true);
  Tensor zero = l.scalar(0, x.elementType());
  // A vector of zeros stays one.
  return l.result(l.select(l.compare(ElementKind::Equal, norm, zero), zero, l.div(x, norm)));
}

LogicalResult meanVarianceNormalization(Lowering &l) {
  Tensor x = l.input(0);
  std::optional<SmallVector<int64_t>> axes;
  if (x)
    axes = l.axesOf(l.intsAttr("axes").value_or(SmallVector<int64_t>{0, 2, 3}), x.rank());
  if (!axes)
    return failure();
  llvm::sort(*axes);
  Tensor centred = l.sub(x, l.reduce(ReduceKind::Mean, x, *axes, /*keepDims=*/true));
  Tensor variance = l.reduce(ReduceKind::Mean, l.mul(centred, centred), *axes, /*keepDims=*/true);
  Tensor deviation = l.elementwise(ElementKind::Sqrt, {variance});
  return l.result(l.div(centred, l.with(ElementKind::Add, deviation, 1e-9)));
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering
    {"", "LayerNormalization",           17, layerNorm},
    {"", "LpNormalization",              1,  lpNormalization},
    {"", "MeanVarianceNormalization",    9,  meanVarianceNormalization},
    {"", "RMSNormalization",             23, rmsNorm},
    {"", "SimplifiedLayerNormalization", 1,  rmsNorm, "not in ONNX; ONNX Runtime's tools write it"},
};
// clang-format on

} // namespace

ArrayRef<OpRow> normRows() { return kRows; }

} // namespace llmc::onnx
