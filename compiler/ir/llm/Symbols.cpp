// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on run-time sizes that stays polynomial where it can, and names
// the result where it can't.
#include "compiler/ir/llm/Symbols.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace llmc::llm {

Symbols::Symbols(ModuleOp module) : module(module), ctx(module.getContext()) {
  if (auto attr = module->getAttrOfType<ArrayAttr>(kSymbolsAttr))
    llvm::append_range(symbols, attr.getAsRange<SymbolAttr>());
  if (auto attr = module->getAttrOfType<ArrayAttr>(kChecksAttr))
    llvm::append_range(conditions, attr.getAsRange<CheckAttr>());
}

void Symbols::store() {
  auto arrayOf = [&](auto &list) {
    return ArrayAttr::get(context(), SmallVector<Attribute>(list.begin(), list.end()));
  };
  if (!symbols.empty())
    module->setAttr(kSymbolsAttr, arrayOf(symbols));
  if (!conditions.empty())
    module->setAttr(kChecksAttr, arrayOf(conditions));
}

AffineExpr Symbols::named(StringRef name, SymbolKind kind) {
  for (auto [i, symbol] : llvm::enumerate(symbols))
    if (symbol.getName() == name && symbol.getKind() == kind)
      return getAffineSymbolExpr(i, context());
  symbols.push_back(SymbolAttr::get(context(), name, kind, DimsAttr()));
  return getAffineSymbolExpr(symbols.size() - 1, context());
}

AffineExpr Symbols::parse(StringRef text, bool onlyKnown) {
  // Sum of products; anything else (division, brackets, odd characters) is one opaque name.
  struct Term {
    int64_t coefficient = 1;
    SmallVector<StringRef, 2> names;
  };
  text = text.trim();
  SmallVector<Term> terms;
  bool regular = true, composite = false;
  SmallVector<StringRef> summands;
  text.split(summands, '+');
  composite |= summands.size() > 1;
  for (StringRef summand : summands) {
    SmallVector<StringRef> factors;
    summand.split(factors, '*');
    composite |= factors.size() > 1;
    Term &term = terms.emplace_back();
    for (StringRef factor : factors) {
      factor = factor.trim();
      int64_t number = 0;
      if (!factor.getAsInteger(10, number) && number >= 0 && number < (int64_t(1) << 31)) {
        term.coefficient *= number;
        continue;
      }
      bool identifier =
          !factor.empty() && (llvm::isAlpha(factor[0]) || factor[0] == '_') &&
          llvm::all_of(factor, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
      regular &= identifier && term.names.size() < 4;
      term.names.push_back(factor);
    }
  }
  if (regular && composite && onlyKnown)
    for (Term &term : terms)
      for (StringRef name : term.names)
        regular &=
            llvm::any_of(symbols, [&](SymbolAttr symbol) { return symbol.getName() == name; });
  if (!regular)
    return named(text);
  AffineExpr sum = constant(0);
  for (Term &term : terms) {
    AffineExpr product = constant(term.coefficient);
    for (StringRef name : term.names)
      product = product * named(name);
    sum = sum + product;
  }
  return canonical(sum);
}

AffineExpr Symbols::computed(SymbolKind kind, AffineExpr a, AffineExpr b) {
  DimsAttr operands = DimsAttr::get(context(), {canonical(a), canonical(b)});
  for (auto [i, symbol] : llvm::enumerate(symbols))
    if (symbol.getKind() == kind && symbol.getOperands() == operands)
      return getAffineSymbolExpr(i, context());
  std::string name = (stringifySymbolKind(kind) + "(" + text(operands.getExprs()[0]) + ", " +
                      text(operands.getExprs()[1]) + ")")
                         .str();
  symbols.push_back(SymbolAttr::get(context(), name, kind, operands));
  return getAffineSymbolExpr(symbols.size() - 1, context());
}

bool Symbols::nonNegativeSymbol(unsigned position, int depth) const {
  SymbolAttr symbol = symbols[position];
  switch (symbol.getKind()) {
  case SymbolKind::Input:
  case SymbolKind::SessionSeq:
  case SymbolKind::SessionPast:
  case SymbolKind::Broadcast:
    return true;
  default:
    break;
  }
  if (depth == 0)
    return false;
  AffineExpr a = symbol.getOperands().getExprs()[0], b = symbol.getOperands().getExprs()[1];
  switch (symbol.getKind()) {
  case SymbolKind::Mod:
    return nonNegative(b, depth - 1);
  case SymbolKind::Max:
    return nonNegative(a, depth - 1) || nonNegative(b, depth - 1);
  default: // FloorDiv, Min
    return nonNegative(a, depth - 1) && nonNegative(b, depth - 1);
  }
}

bool Symbols::nonNegative(AffineExpr expr, int depth) const {
  // Every term with a known sign; symbols of unknown sign spoil the terms they are in.
  bool evident = true;
  forEachTerm(expr, [&](ArrayRef<unsigned> term, int64_t coefficient) {
    evident &= coefficient > 0 && llvm::all_of(term, [&](unsigned position) {
                 return nonNegativeSymbol(position, depth);
               });
  });
  if (evident)
    return true;
  if (depth == 0)
    return false;
  // A computed symbol lies between its bounds: put in the one that makes `expr` smaller.
  for (unsigned position : symbolsIn(expr)) {
    SymbolAttr symbol = symbols[position];
    if (!symbol.getOperands())
      continue;
    bool rising = true, falling = true, linear = true;
    forEachTerm(expr, [&](ArrayRef<unsigned> term, int64_t coefficient) {
      int64_t power = llvm::count(term, position);
      if (power == 0)
        return;
      linear &= power == 1 && llvm::all_of(term, [&](unsigned other) {
                  return other == position || nonNegativeSymbol(other, depth - 1);
                });
      (coefficient > 0 ? falling : rising) = false;
    });
    if (!linear)
      continue;
    AffineExpr a = symbol.getOperands().getExprs()[0], b = symbol.getOperands().getExprs()[1];
    auto holdsWith = [&](AffineExpr bound) {
      return nonNegative(
          substitute(expr, [&](unsigned p) { return p == position ? bound : AffineExpr(); }),
          depth - 1);
    };
    switch (symbol.getKind()) {
    case SymbolKind::Min:
      if (falling ? holdsWith(a) || holdsWith(b) : holdsWith(a) && holdsWith(b))
        return true;
      break;
    case SymbolKind::Max:
      if (rising ? holdsWith(a) || holdsWith(b) : holdsWith(a) && holdsWith(b))
        return true;
      break;
    case SymbolKind::Broadcast:
      if (holdsWith(a) && holdsWith(b))
        return true;
      break;
    case SymbolKind::FloorDiv:
      if (falling && constantOf(b).value_or(0) > 0 && nonNegative(a, depth - 1) && holdsWith(a))
        return true;
      break;
    case SymbolKind::Mod:
      if (falling && constantOf(b).value_or(0) > 0 && holdsWith(canonical(b - 1)))
        return true;
      break;
    default:
      break;
    }
  }
  return false;
}

AffineExpr Symbols::isNegative(AffineExpr expr) {
  return canonical(min(max(expr, constant(-1)), constant(0)) * -1);
}

AffineExpr Symbols::floorDiv(AffineExpr a, AffineExpr b) {
  if (std::optional<AffineExpr> quotient = exactQuotient(a, b))
    return *quotient;
  auto ca = constantOf(a), cb = constantOf(b);
  if (ca && cb)
    return constant(llvm::divideFloorSigned(*ca, *cb));
  return computed(SymbolKind::FloorDiv, a, b);
}

AffineExpr Symbols::mod(AffineExpr a, AffineExpr b) {
  if (exactQuotient(a, b))
    return constant(0);
  auto ca = constantOf(a), cb = constantOf(b);
  if (ca && cb)
    return constant(*ca - llvm::divideFloorSigned(*ca, *cb) * *cb);
  return computed(SymbolKind::Mod, a, b);
}

AffineExpr Symbols::min(AffineExpr a, AffineExpr b) {
  if (nonNegative(sub(b, a)))
    return a;
  if (nonNegative(sub(a, b)))
    return b;
  return isa<AffineConstantExpr>(a) ? computed(SymbolKind::Min, b, a)
                                    : computed(SymbolKind::Min, a, b);
}

AffineExpr Symbols::max(AffineExpr a, AffineExpr b) {
  if (nonNegative(sub(a, b)))
    return a;
  if (nonNegative(sub(b, a)))
    return b;
  return isa<AffineConstantExpr>(a) ? computed(SymbolKind::Max, b, a)
                                    : computed(SymbolKind::Max, a, b);
}

AffineExpr Symbols::broadcast(AffineExpr a, AffineExpr b, StringRef what) {
  if (a == b || isConstant(b, 1))
    return a;
  if (isConstant(a, 1))
    return b;
  if (constantOf(a) && constantOf(b))
    return {};
  // A constant other than 1 decides: the other side is that, or 1.
  if (constantOf(a) || constantOf(b)) {
    AffineExpr fixed = constantOf(a) ? a : b, open = constantOf(a) ? b : a;
    require(CheckKind::Eq, computed(SymbolKind::Broadcast, open, fixed), fixed, what);
    return fixed;
  }
  // A table cut to a size, min(t, 1024), against that size: t must not exceed the table.
  for (auto [cut, whole] : {std::pair(a, b), std::pair(b, a)}) {
    SmallVector<SymbolAttr> limits;
    AffineExpr uncut = substitute(cut, [&](unsigned position) {
      SymbolAttr symbol = symbols[position];
      if (symbol.getKind() != SymbolKind::Min)
        return AffineExpr();
      if (constantOf(symbol.getOperands().getExprs()[1]).value_or(0) <= 1)
        return AffineExpr();
      limits.push_back(symbol);
      return symbol.getOperands().getExprs()[0];
    });
    if (limits.empty() || uncut != canonical(whole))
      continue;
    for (SymbolAttr symbol : llvm::reverse(limits)) {
      AffineExpr size = symbol.getOperands().getExprs()[0];
      AffineExpr limit = symbol.getOperands().getExprs()[1];
      requireAtMost(size, limit,
                    text(size) + " must be at most " + text(limit) +
                        ", the size of a table in the model");
    }
    return whole;
  }
  return computed(SymbolKind::Broadcast, a, b);
}

void Symbols::require(CheckKind kind, AffineExpr a, AffineExpr b, const Twine &message) {
  auto check = CheckAttr::get(
      context(), kind, DimsAttr::get(context(), {canonical(a), canonical(b)}), message.str());
  for (CheckAttr known : conditions)
    if (known.getKind() == kind && known.getSides() == check.getSides())
      return;
  conditions.push_back(check);
}

void Symbols::requireEqual(AffineExpr a, AffineExpr b, const Twine &message) {
  if (canonical(a) != canonical(b))
    require(CheckKind::Eq, a, b, message);
}

void Symbols::requireAtMost(AffineExpr a, AffineExpr b, const Twine &message) {
  if (nonNegative(sub(b, a)))
    return;
  for (CheckAttr check : conditions) {
    ArrayRef<AffineExpr> sides = check.getSides().getExprs();
    if (check.getKind() == CheckKind::Le && nonNegative(sub(sides[0], a)) &&
        nonNegative(sub(b, sides[1])))
      return;
  }
  require(CheckKind::Le, a, b, message);
}

AffineExpr Symbols::checked(AffineExpr expr) const {
  for (CheckAttr check : conditions) {
    ArrayRef<AffineExpr> sides = check.getSides().getExprs();
    if (check.getKind() == CheckKind::Eq && sides[0] == expr && constantOf(sides[1]))
      return sides[1];
    if (check.getKind() == CheckKind::Eq && sides[1] == expr && constantOf(sides[0]))
      return sides[0];
  }
  return expr;
}

AffineExpr Symbols::decided(unsigned position) const {
  SymbolAttr symbol = symbols[position];
  if (symbol.getKind() != SymbolKind::Min)
    return {};
  AffineExpr size = symbol.getOperands().getExprs()[0], limit = symbol.getOperands().getExprs()[1];
  for (CheckAttr check : conditions) {
    ArrayRef<AffineExpr> sides = check.getSides().getExprs();
    if (check.getKind() == CheckKind::Le && nonNegative(sub(sides[0], size)) &&
        nonNegative(sub(limit, sides[1])))
      return size;
  }
  return {};
}

std::string Symbols::text(AffineExpr expr) const {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return std::to_string(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()].getName().str();
  auto binary = cast<AffineBinaryOpExpr>(expr);
  StringRef sign = binary.getKind() == AffineExprKind::Mul ? " * " : " + ";
  return text(binary.getLHS()) + sign.str() + text(binary.getRHS());
}

} // namespace llmc::llm
