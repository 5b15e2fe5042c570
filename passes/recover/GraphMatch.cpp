// SPDX-License-Identifier: Apache-2.0
//
// Reading of constants, products and polynomials. Depth is bounded, so that a
// long chain costs no more than a short one.
#include "passes/recover/GraphMatch.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

#include <cmath>

using namespace mlir;
using llmc::llm::ElementKind;

namespace llmc {

namespace {
constexpr int kMaxDepth = 8;
} // namespace

Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

int64_t rankOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getRank(); }

std::optional<double> numberOf(Value value) {
  auto constant = stripShape(value).getDefiningOp<llm::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.isSplat() || elements.getNumElements() == 0)
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType())) {
    APFloat number = elements.getSplatValue<APFloat>();
    bool lossy;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return number.convertToDouble();
  }
  if (!elements.getElementType().isIntOrIndex())
    return std::nullopt;
  APInt number = elements.getSplatValue<APInt>();
  bool zeroExtended = elements.getElementType().isInteger(1);
  return zeroExtended ? double(number.getZExtValue()) : double(number.getSExtValue());
}

bool isAbout(Value value, double number, double relativeTolerance) {
  std::optional<double> actual = numberOf(value);
  return actual && std::fabs(*actual - number) <= relativeTolerance * std::fabs(number);
}

llm::ElementwiseOp scalarOp(Value value, ElementKind kind) {
  auto op = value.getDefiningOp<llm::ElementwiseOp>();
  return op && op.getKind() == kind ? op : llm::ElementwiseOp();
}

Value stripShape(Value value) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (auto broadcast = value.getDefiningOp<llm::BroadcastOp>()) {
      value = broadcast.getInput();
      continue;
    }
    auto reshape = value.getDefiningOp<llm::ReshapeOp>();
    if (!reshape)
      break;
    auto isUnit = [](AffineExpr dim) { return llm::isConstant(dim, 1); };
    SmallVector<AffineExpr> from = llm::dimsOf(reshape.getInput().getType()),
                            to = llm::dimsOf(reshape.getType());
    llvm::erase_if(from, isUnit);
    llvm::erase_if(to, isUnit);
    if (from != to)
      break;
    value = reshape.getInput();
  }
  return value;
}

static void collect(Value value, int depth, Product &product) {
  if (std::optional<double> number = numberOf(value)) {
    product.constant *= *number;
    return;
  }
  if (depth < kMaxDepth && product.factors.size() < 4) {
    if (auto mul = scalarOp(value, ElementKind::Mul)) {
      collect(mul.getOperands_()[0], depth + 1, product);
      collect(mul.getOperands_()[1], depth + 1, product);
      return;
    }
    if (auto div = scalarOp(value, ElementKind::Div))
      if (std::optional<double> number = numberOf(div.getOperands_()[1])) {
        product.constant /= *number;
        collect(div.getOperands_()[0], depth + 1, product);
        return;
      }
    if (auto neg = scalarOp(value, ElementKind::Neg)) {
      product.constant = -product.constant;
      collect(neg.getOperands_()[0], depth + 1, product);
      return;
    }
  }
  product.factors.push_back(value);
}

Product productOf(Value value) {
  Product product;
  collect(value, 0, product);
  return product;
}

using Coefficients = std::array<double, 4>;

static std::optional<Coefficients> times(const Coefficients &a, const Coefficients &b) {
  Coefficients result{};
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 4; ++j) {
      double term = a[i] * b[j];
      if (term == 0)
        continue;
      if (i + j >= 4)
        return std::nullopt;
      result[i + j] += term;
    }
  return result;
}

static std::optional<Coefficients> polynomialIn(Value value, Value x, int depth) {
  if (value == x)
    return Coefficients{0, 1, 0, 0};
  if (std::optional<double> number = numberOf(value))
    return Coefficients{*number, 0, 0, 0};
  auto op = value.getDefiningOp<llm::ElementwiseOp>();
  if (!op || depth == kMaxDepth)
    return std::nullopt;
  auto operand = [&](unsigned i) { return polynomialIn(op.getOperands_()[i], x, depth + 1); };
  switch (op.getKind()) {
  case ElementKind::Neg:
  case ElementKind::Add:
  case ElementKind::Sub: {
    std::optional<Coefficients> a = operand(0);
    std::optional<Coefficients> b = op.getOperands_().size() == 2 ? operand(1) : Coefficients{};
    if (!a || !b)
      return std::nullopt;
    for (size_t i = 0; i < 4; ++i)
      (*a)[i] = op.getKind() == ElementKind::Add   ? (*a)[i] + (*b)[i]
                : op.getKind() == ElementKind::Sub ? (*a)[i] - (*b)[i]
                                                   : -(*a)[i];
    return a;
  }
  case ElementKind::Mul: {
    std::optional<Coefficients> a = operand(0), b = a ? operand(1) : std::nullopt;
    return b ? times(*a, *b) : std::nullopt;
  }
  case ElementKind::Div: {
    std::optional<double> divisor = numberOf(op.getOperands_()[1]);
    std::optional<Coefficients> a = divisor && *divisor != 0 ? operand(0) : std::nullopt;
    return a ? times(*a, {1 / *divisor, 0, 0, 0}) : std::nullopt;
  }
  case ElementKind::Pow: {
    std::optional<double> exponent = numberOf(op.getOperands_()[1]);
    std::optional<Coefficients> base = operand(0), power = Coefficients{1, 0, 0, 0};
    if (!base || !exponent || *exponent < 0 || *exponent > 3 || *exponent != std::floor(*exponent))
      return std::nullopt;
    for (int i = 0; i < int(*exponent) && power; ++i)
      power = times(*power, *base);
    return power;
  }
  default:
    return std::nullopt;
  }
}

std::optional<Coefficients> polynomialIn(Value value, Value x) { return polynomialIn(value, x, 0); }

/// The name that the exporter gave the node.
static std::string nodeName(Location loc) {
  std::string name;
  loc->walk([&](Location inner) {
    auto named = dyn_cast<NameLoc>(inner);
    if (!named || !name.empty())
      return WalkResult::advance();
    name = named.getName().str();
    return WalkResult::interrupt();
  });
  return name;
}

void remark(const NearMiss &miss, StringRef pattern) {
  if (!miss.where)
    return;
  std::string name = nodeName(*miss.where);
  InFlightDiagnostic diagnostic = emitRemark(*miss.where) << "not " << pattern << ": " << miss.why;
  if (!name.empty())
    diagnostic << " (node '" << name << "')";
}

} // namespace llmc
