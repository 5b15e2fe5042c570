// SPDX-License-Identifier: Apache-2.0
//
// Polynomials as AffineExpr: a map from monomial (ascending symbol positions)
// to coefficient gives the normal form in which equality is identity.
#include "compiler/ir/llm/Dims.h"

#include <map>

using namespace mlir;

namespace llmc::llm {
namespace {

using Monomial = SmallVector<unsigned, 4>;

struct MonomialLess {
  bool operator()(const Monomial &a, const Monomial &b) const {
    // Longer products first, constants last, so that text reads `s0 * s1 + s0 + 1`.
    if (a.size() != b.size())
      return a.size() > b.size();
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};
using Polynomial = std::map<Monomial, int64_t, MonomialLess>;

void addTerm(Polynomial &to, const Monomial &monomial, int64_t coefficient) {
  int64_t &sum = to[monomial];
  sum = int64_t(uint64_t(sum) + uint64_t(coefficient));
  if (sum == 0)
    to.erase(monomial);
}

Polynomial polynomialOf(AffineExpr expr) {
  Polynomial result;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    addTerm(result, {}, constant.getValue());
    return result;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    addTerm(result, {symbol.getPosition()}, 1);
    return result;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Polynomial lhs = polynomialOf(binary.getLHS()), rhs = polynomialOf(binary.getRHS());
  if (binary.getKind() == AffineExprKind::Add) {
    for (auto &[monomial, coefficient] : rhs)
      addTerm(lhs, monomial, coefficient);
    return lhs;
  }
  assert(binary.getKind() == AffineExprKind::Mul && "division and remainder are symbols");
  for (auto &[a, ca] : lhs)
    for (auto &[b, cb] : rhs) {
      Monomial both(a);
      both.append(b.begin(), b.end());
      llvm::sort(both);
      addTerm(result, both, int64_t(uint64_t(ca) * uint64_t(cb)));
    }
  return result;
}

AffineExpr exprOf(const Polynomial &polynomial, MLIRContext *context) {
  AffineExpr sum;
  for (auto &[monomial, coefficient] : polynomial) {
    AffineExpr term;
    for (unsigned position : monomial) {
      AffineExpr symbol = getAffineSymbolExpr(position, context);
      term = term ? term * symbol : symbol;
    }
    term = term ? (coefficient == 1 ? term : term * coefficient)
                : getAffineConstantExpr(coefficient, context);
    sum = sum ? sum + term : term;
  }
  return sum ? sum : getAffineConstantExpr(0, context);
}

} // namespace

SmallVector<AffineExpr> dimsOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (auto dims = dyn_cast_or_null<DimsAttr>(tensor.getEncoding()))
    return SmallVector<AffineExpr>(dims.getExprs());
  SmallVector<AffineExpr> exprs;
  for (int64_t size : tensor.getShape())
    exprs.push_back(getAffineConstantExpr(size, type.getContext()));
  return exprs;
}

RankedTensorType tensorOf(ArrayRef<AffineExpr> dims, Type elementType) {
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> exprs;
  bool dynamic = false;
  for (AffineExpr dim : dims) {
    exprs.push_back(canonical(dim));
    std::optional<int64_t> size = constantOf(exprs.back());
    dynamic |= !size;
    shape.push_back(size.value_or(ShapedType::kDynamic));
  }
  Attribute encoding = dynamic ? DimsAttr::get(elementType.getContext(), exprs) : Attribute();
  return RankedTensorType::get(shape, elementType, encoding);
}

RankedTensorType tensorOf(ArrayRef<int64_t> dims, Type elementType) {
  return RankedTensorType::get(dims, elementType);
}

std::optional<int64_t> constantOf(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  return std::nullopt;
}

AffineExpr canonical(AffineExpr expr) {
  if (isa<AffineConstantExpr, AffineSymbolExpr>(expr))
    return expr;
  return exprOf(polynomialOf(expr), expr.getContext());
}

AffineExpr productOf(ArrayRef<AffineExpr> dims, MLIRContext *context) {
  AffineExpr product = getAffineConstantExpr(1, context);
  for (AffineExpr dim : dims)
    product = canonical(product * dim);
  return product;
}

std::optional<AffineExpr> exactQuotient(AffineExpr a, AffineExpr b) {
  // Long division by leading terms: the map's order is graded and respects products.
  Polynomial numerator = polynomialOf(a), denominator = polynomialOf(b), quotient;
  if (denominator.empty())
    return std::nullopt;
  const auto &[divisor, divisorCoefficient] = *denominator.begin();
  while (!numerator.empty()) {
    Monomial rest = numerator.begin()->first;
    int64_t coefficient = numerator.begin()->second;
    if (divisorCoefficient == -1 || coefficient % divisorCoefficient != 0)
      return std::nullopt;
    for (unsigned symbol : divisor) {
      auto *found = llvm::find(rest, symbol);
      if (found == rest.end())
        return std::nullopt;
      rest.erase(found);
    }
    int64_t factor = coefficient / divisorCoefficient;
    addTerm(quotient, rest, factor);
    for (auto &[monomial, inner] : denominator) {
      Monomial product(monomial);
      product.append(rest.begin(), rest.end());
      llvm::sort(product);
      addTerm(numerator, product, int64_t(0 - uint64_t(inner) * uint64_t(factor)));
    }
  }
  return exprOf(quotient, a.getContext());
}

bool provablyNonNegative(AffineExpr expr) {
  for (auto &[monomial, coefficient] : polynomialOf(expr))
    if (coefficient < 0)
      return false;
  return true;
}

void forEachTerm(AffineExpr expr,
                 llvm::function_ref<void(ArrayRef<unsigned> symbols, int64_t coefficient)> use) {
  for (auto &[monomial, coefficient] : polynomialOf(expr))
    use(monomial, coefficient);
}

SmallVector<unsigned> symbolsIn(AffineExpr expr) {
  SmallVector<unsigned> symbols;
  expr.walk([&](AffineExpr inner) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(inner))
      symbols.push_back(symbol.getPosition());
  });
  llvm::sort(symbols);
  symbols.erase(llvm::unique(symbols), symbols.end());
  return symbols;
}

AffineExpr substitute(AffineExpr expr, llvm::function_ref<AffineExpr(unsigned)> value) {
  if (isa<AffineConstantExpr>(expr))
    return expr;
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    AffineExpr replacement = value(symbol.getPosition());
    return replacement ? replacement : expr;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  AffineExpr lhs = substitute(binary.getLHS(), value), rhs = substitute(binary.getRHS(), value);
  return canonical(binary.getKind() == AffineExprKind::Mul ? lhs * rhs : lhs + rhs);
}

} // namespace llmc::llm
