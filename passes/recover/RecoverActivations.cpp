// SPDX-License-Identifier: Apache-2.0
//
// GELU and SiLU from their arithmetic. Products are flattened and the argument
// of erf or tanh is read as a polynomial, so that one rule covers every order
// in which exporters multiply.
#include "passes/Passes.h"
#include "passes/recover/GraphMatch.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

namespace llmc {

#define GEN_PASS_DEF_RECOVERACTIVATIONS
#include "passes/Passes.h.inc"

using namespace mlir;
using llm::ElementKind;

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kTanhScale = 0.79788456080286535588; // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

bool near(double value, double wanted) { return std::fabs(value - wanted) <= 1e-3 * wanted; }

/// The erf or tanh in `1 + f(.)`.
llm::ElementwiseOp gateOf(Value value) {
  auto add = scalarOp(value, ElementKind::Add);
  if (!add)
    return {};
  for (unsigned i : {0, 1}) {
    if (!isAbout(add.getOperands_()[i], 1.0, 1e-6))
      continue;
    for (ElementKind kind : {ElementKind::Erf, ElementKind::Tanh})
      if (auto gate = scalarOp(add.getOperands_()[1 - i], kind))
        return gate;
  }
  return {};
}

/// `0.5 * x * (1 + erf(x / sqrt(2)))` or the tanh form.
bool matchGelu(llm::ElementwiseOp op, Value &x, ElementKind &kind, NearMiss &miss) {
  if (op.getKind() != ElementKind::Mul && op.getKind() != ElementKind::Div)
    return false;
  Product product = productOf(op.getResult());
  if (product.factors.size() != 2)
    return false;
  for (unsigned i : {0, 1}) {
    llm::ElementwiseOp gate = gateOf(product.factors[i]);
    if (!gate)
      continue;
    x = product.factors[1 - i];
    auto argument = polynomialIn(gate.getOperands_()[0], x);
    if (!argument)
      return miss.stop(gate, "its argument isn't a polynomial in what it multiplies");
    bool erf = gate.getKind() == ElementKind::Erf;
    kind = erf ? ElementKind::Gelu : ElementKind::GeluTanh;
    auto [c0, c1, c2, c3] = *argument;
    bool fits = c0 == 0 && c2 == 0 &&
                (erf ? near(c1, kSqrtHalf) && c3 == 0
                     : near(c1, kTanhScale) && near(c3, kTanhScale * kTanhCubic));
    if (!fits)
      return miss.stop(gate, "the constants inside are others");
    if (!near(product.constant, 0.5))
      return miss.stop(op,
                       "the factor is " + Twine(std::to_string(product.constant)) + ", not 0.5");
    if (x.getType() != op.getType())
      return miss.stop(op, "the result has another type than the input");
    return true;
  }
  return false;
}

struct FormGelu : OpRewritePattern<llm::ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ElementwiseOp op, PatternRewriter &rewriter) const override {
    Value x;
    ElementKind kind;
    NearMiss miss;
    if (!matchGelu(op, x, kind, miss))
      return failure();
    rewriter.replaceOpWithNewOp<llm::ElementwiseOp>(op, op.getType(), kind, ValueRange{x});
    return success();
  }
};

/// `x * sigmoid(x)`, or `x / (1 + exp(-x))`.
struct FormSilu : OpRewritePattern<llm::ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(llm::ElementwiseOp op, PatternRewriter &rewriter) const override {
    Value x;
    if (op.getKind() == ElementKind::Mul) {
      for (unsigned i : {0, 1})
        if (auto sigmoid = scalarOp(op.getOperands_()[i], ElementKind::Sigmoid);
            sigmoid && sigmoid.getOperands_()[0] == op.getOperands_()[1 - i])
          x = op.getOperands_()[1 - i];
    } else if (op.getKind() == ElementKind::Div) {
      auto sum = scalarOp(op.getOperands_()[1], ElementKind::Add);
      for (unsigned i : {0, 1}) {
        auto exp = sum && isAbout(sum.getOperands_()[1 - i], 1.0, 1e-6)
                       ? scalarOp(sum.getOperands_()[i], ElementKind::Exp)
                       : llm::ElementwiseOp();
        auto neg = exp ? scalarOp(exp.getOperands_()[0], ElementKind::Neg) : llm::ElementwiseOp();
        if (neg && neg.getOperands_()[0] == op.getOperands_()[0])
          x = op.getOperands_()[0];
      }
    }
    if (!x || x.getType() != op.getType())
      return failure();
    rewriter.replaceOpWithNewOp<llm::ElementwiseOp>(op, op.getType(), ElementKind::Silu,
                                                    ValueRange{x});
    return success();
  }
};

struct RecoverActivationsPass : impl::RecoverActivationsBase<RecoverActivationsPass> {
  using RecoverActivationsBase::RecoverActivationsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FormGelu, FormSilu>(&getContext());
    // Where the rewriter stops early, less is recovered.
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
    getOperation()->walk([&](llm::ElementwiseOp op) {
      ElementKind kind = op.getKind();
      numRecovered +=
          kind == ElementKind::Gelu || kind == ElementKind::GeluTanh || kind == ElementKind::Silu;
      Value x;
      NearMiss miss;
      if (remarks && !matchGelu(op, x, kind, miss))
        remark(miss, "a GELU");
    });
  }
};

} // namespace
} // namespace llmc
