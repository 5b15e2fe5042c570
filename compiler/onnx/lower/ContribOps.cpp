// SPDX-License-Identifier: Apache-2.0
//
// Rows of the operators that ONNX Runtime's tools put in place of several
// standard ones. Each is spelled out again in `llm` ops, so that the passes see
// one form of a norm or an activation whoever exported it.
#include "compiler/onnx/OpTable.h"
#include "compiler/onnx/lower/ConvParts.h"

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {
namespace {

constexpr const char *kMs = "com.microsoft";

/// Input `i`, or null when the node has none. Null after a failure too: then `l.failed()`.
Tensor optionalInput(Lowering &l, unsigned i) { return l.has(i) ? l.input(i) : Tensor(); }

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The smallest epsilon that the operators default to.
constexpr double kTinyEpsilon = 1e-12;

/// Layer norm, or RMS norm unless `centred`, of the last dimension.
template <bool centred>
Tensor normalized(Lowering &l, Tensor x, Tensor scale, Tensor bias, double epsilon) {
  if (!x || !scale || l.failed())
    return {};
  if (x.rank() == 0)
    return l.fail(1204, l.node.getOpType() + " needs an input of rank 1 or more");
  Sizes line{x.dims().back()};
  scale = l.withDims(scale, line, "scale and input of " + l.node.getOpType());
  if (bias)
    bias = l.withDims(bias, line, "bias and input of " + l.node.getOpType());
  if (!scale || l.failed())
    return {};
  int64_t axis = x.rank() - 1;
  if constexpr (centred)
    return l.make<llm::LayerNormOp>(x.dims(), x.elementType(), l.value(x), l.value(scale),
                                    bias ? l.value(bias) : Value(), axis, llvm::APFloat(epsilon));
  else
    return l.make<llm::RmsNormOp>(x.dims(), x.elementType(), l.value(x), l.value(scale), axis,
                                  llvm::APFloat(epsilon));
}

/// Normalises the sum of two tensors and a bias; output 3 is that sum.
template <bool centred> LogicalResult skipNorm(Lowering &l) {
  Tensor x = l.input(0), sum = l.add(x, l.input(1)), gamma = l.input(2);
  Tensor beta = centred ? optionalInput(l, 3) : Tensor();
  if (Tensor bias = optionalInput(l, centred ? 4 : 3))
    sum = l.add(sum, bias);
  if (!sum || l.failed())
    return failure();
  sum = l.withDims(sum, x.dims(), "input and skip of " + l.node.getOpType());
  Tensor y = normalized<centred>(l, sum, gamma, beta, l.floatAttr("epsilon", kTinyEpsilon));
  if (!y)
    return failure();
  if (l.wants(1) || l.wants(2))
    return l.result(l.fail(1209, "mean and deviation of " + l.node.getOpType() +
                                     " are outputs for training, which isn't supported"));
  return l.results({y, y, y, sum});
}

/// Sum of up to three embeddings, normalised.
LogicalResult embedNorm(Lowering &l) {
  Tensor ids = l.input(0), segments = optionalInput(l, 1), words = l.input(2), places = l.input(3);
  Tensor segmentTable = optionalInput(l, 4), gamma = l.input(5), beta = l.input(6);
  Tensor mask = optionalInput(l, 7), positions = optionalInput(l, 8);
  if (!ids || !words || !places || !gamma || !beta || l.failed())
    return failure();
  if (ids.rank() != 2 || words.rank() != 2 || places.rank() != 2)
    return l.result(l.fail(1204, "EmbedLayerNormalization needs ids and tables of two dimensions"));
  AffineExpr batch = ids.dim(0), sequence = ids.dim(1);
  Tensor sum = l.gather(words, ids, 0);
  if (!positions)
    positions = l.iota(l.size(0), 1, sequence, l.i64());
  sum = l.add(sum, l.gather(places, positions, 0));
  if (segments && segmentTable)
    sum = l.add(sum, l.gather(segmentTable, segments, 0));
  SmallVector<Tensor> results{
      normalized<true>(l, sum, gamma, beta, l.floatAttr("epsilon", kTinyEpsilon))};
  if (!results.front())
    return failure();
  // How many positions of each sequence count.
  Type i32 = l.builder.getI32Type();
  results.push_back(mask ? l.reduce(ReduceKind::Sum, l.cast(mask, i32), {1}, /*keepDims=*/false)
                         : l.filled({batch}, 0, i32));
  results.push_back(sum);
  return l.results(results);
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

template <ElementKind kind> LogicalResult biasActivation(Lowering &l) {
  Tensor x = l.input(0);
  if (l.has(1))
    x = l.add(x, l.input(1));
  return l.result(l.elementwise(kind, {x}));
}

LogicalResult quickGelu(Lowering &l) {
  Tensor x = l.input(0);
  Tensor scaled = l.with(ElementKind::Mul, x, l.floatAttr("alpha", 1.702));
  return l.result(l.mul(x, l.elementwise(ElementKind::Sigmoid, {scaled})));
}

LogicalResult biasAdd(Lowering &l) {
  return l.result(l.add(l.add(l.input(0), l.input(1)), l.input(2)));
}

/// The activation that an attribute of a fused op names; none when it is empty.
Tensor activated(Lowering &l, Tensor x) {
  StringRef name = l.stringAttr("activation", "");
  if (!x || name.empty())
    return x;
  if (name == "LeakyRelu") {
    Tensor low = l.with(ElementKind::Mul, x, l.floatAttr("activation_alpha", 0.01));
    return l.select(l.compare(ElementKind::Less, x, l.scalar(0, x.elementType())), low, x);
  }
  if (name == "HardSigmoid") {
    Tensor line = l.with(ElementKind::Mul, x, l.floatAttr("activation_alpha", 0.2));
    line = l.with(ElementKind::Add, line, l.floatAttr("activation_beta", 0.5));
    return l.with(ElementKind::Max, l.with(ElementKind::Min, line, 1), 0);
  }
  std::optional<ElementKind> kind = llvm::StringSwitch<std::optional<ElementKind>>(name)
                                        .Case("Relu", ElementKind::Relu)
                                        .Case("Sigmoid", ElementKind::Sigmoid)
                                        .Case("Tanh", ElementKind::Tanh)
                                        .Case("Erf", ElementKind::Erf)
                                        .Case("Abs", ElementKind::Abs)
                                        .Default(std::nullopt);
  if (!kind)
    return l.fail(1203, l.node.getOpType() + " has the unknown activation '" + name + "'");
  return l.elementwise(*kind, {x});
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// An operand of FusedMatMul as MatMul takes it. With `batchFirst` the rows (or, transposed, the
/// columns) stand before the batch dimensions.
Tensor fusedOperand(Lowering &l, Tensor x, bool transposed, bool batchFirst) {
  if (!x || x.rank() < 2)
    return x;
  if (batchFirst) {
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(1, x.rank() - 1));
    order.append({0, x.rank() - 1});
    x = l.transpose(x, order);
  }
  return transposed ? l.swapLast(x) : x;
}

LogicalResult fusedMatMul(Lowering &l) {
  Tensor a =
      fusedOperand(l, l.input(0), l.intAttr("transA", 0) != 0, l.intAttr("transBatchA", 0) != 0);
  Tensor b = fusedOperand(l, l.input(1), false, l.intAttr("transBatchB", 0) != 0);
  if (!a || !b)
    return failure();
  bool transposeRhs = l.intAttr("transB", 0) != 0 && b.rank() >= 2;
  if (a.rank() < 2 || b.rank() < 2)
    return l.result(l.fail(1204, "FusedMatMul needs two dimensions, not shapes " +
                                     l.text(a.dims()) + " and " + l.text(b.dims())));
  Tensor product = l.matmul(a, b, transposeRhs);
  double alpha = l.floatAttr("alpha", 1.0);
  return l.result(alpha == 1.0 ? product : l.with(ElementKind::Mul, product, alpha));
}

LogicalResult fusedGemm(Lowering &l) {
  Tensor a = l.input(0), b = l.input(1);
  if (!a || !b)
    return failure();
  if (a.rank() != 2 || b.rank() != 2)
    return l.result(l.fail(1204, "FusedGemm needs matrices, not shapes " + l.text(a.dims()) +
                                     " and " + l.text(b.dims())));
  if (l.intAttr("transA", 0))
    a = l.swapLast(a);
  Tensor y = l.matmul(a, b, l.intAttr("transB", 0) != 0);
  double alpha = l.floatAttr("alpha", 1.0), beta = l.floatAttr("beta", 1.0);
  if (alpha != 1.0)
    y = l.with(ElementKind::Mul, y, alpha);
  if (l.has(2) && beta != 0.0) {
    Tensor c = l.input(2);
    y = l.add(y, beta == 1.0 ? c : l.with(ElementKind::Mul, c, beta));
  }
  return l.result(activated(l, y));
}

LogicalResult fusedConv(Lowering &l) {
  Tensor bias = optionalInput(l, 2);
  Tensor y = l.failed() ? Tensor() : convolve(l, l.input(0), l.input(1), bias);
  if (l.has(3))
    y = l.add(y, l.input(3));
  return l.result(activated(l, y));
}

LogicalResult gemmFastGelu(Lowering &l) {
  Tensor y = l.matmul(l.input(0), l.input(1));
  if (l.has(2))
    y = l.add(y, l.input(2));
  return l.result(l.elementwise(ElementKind::GeluTanh, {y}));
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {kMs, "BiasAdd",                         1, biasAdd},
    {kMs, "BiasGelu",                        1, biasActivation<ElementKind::Gelu>},
    {kMs, "EmbedLayerNormalization",         1, embedNorm},
    {kMs, "FastGelu",                        1, biasActivation<ElementKind::GeluTanh>},
    {kMs, "FusedConv", 1, fusedConv},
    {kMs, "FusedGemm",                       1, fusedGemm},
    {kMs, "FusedMatMul",                     1, fusedMatMul},
    {kMs, "Gelu",                            1, biasActivation<ElementKind::Gelu>},
    {kMs, "GemmFastGelu",                    1, gemmFastGelu},
    {kMs, "QuickGelu",                       1, quickGelu},
    {kMs, "SkipLayerNormalization",          1, skipNorm<true>},
    {kMs, "SkipSimplifiedLayerNormalization", 1, skipNorm<false>},
};
// clang-format on

} // namespace

ArrayRef<OpRow> contribRows() { return kRows; }

} // namespace llmc::onnx
