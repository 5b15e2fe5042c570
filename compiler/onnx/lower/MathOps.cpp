// SPDX-License-Identifier: Apache-2.0
//
// Rows of contractions, reductions and softmax.
#include "compiler/onnx/Legalizer.h"
#include "compiler/onnx/OpTable.h"

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {
namespace {

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// Vectors count as a row on the left and as a column on the right.
LogicalResult matMul(Lowering &l) {
  Tensor a = l.input(0), b = l.input(1);
  if (!a || !b)
    return failure();
  if (a.rank() == 0 || b.rank() == 0)
    return l.result(l.fail(1204, "MatMul needs operands of rank 1 or more"));
  bool vectorLeft = a.rank() == 1, vectorRight = b.rank() == 1;
  if (vectorLeft)
    a = l.unsqueeze(a, 0);
  if (vectorRight)
    b = l.unsqueeze(b, 1);
  Tensor product = l.matmul(a, b);
  if (!product || (!vectorLeft && !vectorRight))
    return l.result(product);
  Sizes dims = product.dims();
  if (vectorRight)
    dims.pop_back();
  if (vectorLeft)
    dims.erase(dims.end() - (vectorRight ? 1 : 2));
  return l.result(l.reshape(product, dims));
}

LogicalResult gemm(Lowering &l) {
  Tensor a = l.input(0), b = l.input(1);
  if (!a || !b)
    return failure();
  if (a.rank() != 2 || b.rank() != 2)
    return l.result(l.fail(1204, "Gemm needs matrices, not shapes " + l.text(a.dims()) + " and " +
                                     l.text(b.dims())));
  if (l.intAttr("transA", 0))
    a = l.swapLast(a);
  Tensor result = l.matmul(a, b, l.intAttr("transB", 0) != 0);
  double alpha = l.floatAttr("alpha", 1.0), beta = l.floatAttr("beta", 1.0);
  if (alpha != 1.0)
    result = l.with(ElementKind::Mul, result, alpha);
  if (!l.has(2) || beta == 0.0)
    return l.result(result);
  Tensor c = l.input(2);
  if (beta != 1.0)
    c = l.with(ElementKind::Mul, c, beta);
  return l.result(l.add(result, c));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

template <ReduceKind kind, int axesInputSince> LogicalResult reduce(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  std::optional<SmallVector<int64_t>> axes = SmallVector<int64_t>();
  if (l.version() < axesInputSince)
    axes = l.intsAttr("axes").value_or(SmallVector<int64_t>());
  else if (l.has(1))
    axes = l.knownInts(1, "axes");
  if (!axes)
    return failure();
  axes = l.axesOf(*axes, x.rank());
  if (!axes)
    return failure();
  if (axes->empty()) {
    if (l.version() >= axesInputSince && l.intAttr("noop_with_empty_axes", 0)) {
      // Nothing is reduced, but what is done to each element still is.
      switch (kind) {
      case ReduceKind::L1:
      case ReduceKind::L2:
        return l.result(l.elementwise(ElementKind::Abs, {x}));
      case ReduceKind::SumSquare:
        return l.result(l.mul(x, x));
      case ReduceKind::LogSum:
        return l.result(l.elementwise(ElementKind::Log, {x}));
      default:
        return l.result(x);
      }
    }
    axes = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  }
  llvm::sort(*axes);
  return l.result(l.reduce(kind, x, *axes, l.intAttr("keepdims", 1) != 0));
}

template <ReduceKind kind> LogicalResult argReduce(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 0), x.rank());
  if (!axis)
    return failure();
  return l.result(l.reduce(kind, x, {*axis}, l.intAttr("keepdims", 1) != 0,
                           l.intAttr("select_last_index", 0) != 0));
}

template <bool log> LogicalResult softmax(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", -1), x.rank());
  return l.result(axis ? l.softmax(x, *axis, log) : Tensor());
}

/// Before opset 13 all dimensions from `axis` on are one.
template <bool log> LogicalResult softmaxFlat(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", 1), x.rank());
  if (!axis)
    return failure();
  Sizes dims = x.dims();
  MLIRContext *context = l.builder.getContext();
  Sizes flat{llm::productOf(ArrayRef(dims).take_front(*axis), context),
             llm::productOf(ArrayRef(dims).drop_front(*axis), context)};
  bool isLast = *axis == x.rank() - 1;
  if (isLast)
    return l.result(l.softmax(x, *axis, log));
  return l.result(l.reshape(l.softmax(l.reshape(x, flat), 1, log), dims));
}

/// 1 at the first maximum along the axis, 0 elsewhere.
LogicalResult hardmax(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("axis", l.version() < 13 ? 1 : -1), x.rank());
  if (!axis)
    return failure();
  Sizes dims = x.dims();
  Tensor flat = x;
  int64_t at = *axis;
  if (l.version() < 13) {
    MLIRContext *context = l.builder.getContext();
    flat = l.reshape(x, {llm::productOf(ArrayRef(dims).take_front(at), context),
                         llm::productOf(ArrayRef(dims).drop_front(at), context)});
    at = 1;
  }
  if (!flat)
    return failure();
  Tensor place = l.reduce(ReduceKind::ArgMax, flat, {at}, /*keepDims=*/true);
  Sizes line(flat.rank(), l.size(1));
  line[at] = flat.dim(at);
  Tensor positions = l.reshape(l.iota(l.size(0), 1, flat.dim(at), l.i64()), line);
  Tensor hit = l.cast(l.compare(ElementKind::Equal, place, positions), x.elementType());
  return l.result(l.reshape(hit, dims));
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering
    {"", "ArgMax",          1,  argReduce<ReduceKind::ArgMax>},
    {"", "ArgMin",          1,  argReduce<ReduceKind::ArgMin>},
    {"", "Gemm",            7,  gemm},
    {"", "Hardmax",         1,  hardmax},
    {"", "LogSoftmax",      1,  softmaxFlat<true>},
    {"", "LogSoftmax",      13, softmax<true>},
    {"", "MatMul",          1,  matMul},
    {"", "ReduceL1",        1,  reduce<ReduceKind::L1, 18>},
    {"", "ReduceL2",        1,  reduce<ReduceKind::L2, 18>},
    {"", "ReduceLogSum",    1,  reduce<ReduceKind::LogSum, 18>},
    {"", "ReduceLogSumExp", 1,  reduce<ReduceKind::LogSumExp, 18>},
    {"", "ReduceMax",       1,  reduce<ReduceKind::Max, 18>},
    {"", "ReduceMean",      1,  reduce<ReduceKind::Mean, 18>},
    {"", "ReduceMin",       1,  reduce<ReduceKind::Min, 18>},
    {"", "ReduceProd",      1,  reduce<ReduceKind::Prod, 18>},
    {"", "ReduceSum",       1,  reduce<ReduceKind::Sum, 13>},
    {"", "ReduceSumSquare", 1,  reduce<ReduceKind::SumSquare, 18>},
    {"", "Softmax",         1,  softmaxFlat<false>},
    {"", "Softmax",         13, softmax<false>},
};
// clang-format on

} // namespace

ArrayRef<OpRow> mathRows() { return kRows; }

} // namespace llmc::onnx
