// SPDX-License-Identifier: Apache-2.0
//
// One switch for the arithmetic, one for the text.
#include "runtime/exec/Expressions.h"

#include <algorithm>

namespace llmc {

namespace {

/// Expressions share parts, so that their text can be exponentially longer than they are.
constexpr int kTextDepth = 4;

enum class Fault { None, Overflow, DivisionByZero, Broadcast };

/// Quotient towards minus infinity; the one overflow is INT64_MIN / -1.
Fault floorDivide(int64_t a, int64_t b, int64_t &quotient, int64_t &rest) {
  if (b == 0)
    return Fault::DivisionByZero;
  if (a == INT64_MIN && b == -1)
    return Fault::Overflow;
  quotient = a / b;
  rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return Fault::None;
}

Fault apply(uint32_t op, int64_t a, int64_t b, int64_t &value) {
  int64_t quotient = 0;
  int64_t rest = 0;
  switch (op) {
  case LLMC_EXPR_ADD:
    return __builtin_add_overflow(a, b, &value) ? Fault::Overflow : Fault::None;
  case LLMC_EXPR_MUL:
    return __builtin_mul_overflow(a, b, &value) ? Fault::Overflow : Fault::None;
  case LLMC_EXPR_FLOORDIV: {
    Fault fault = floorDivide(a, b, quotient, rest);
    value = quotient;
    return fault;
  }
  case LLMC_EXPR_CEILDIV: {
    Fault fault = floorDivide(a, b, quotient, rest);
    value = quotient + (rest != 0);
    return fault;
  }
  case LLMC_EXPR_MOD: {
    // x mod -1 is 0 also where the quotient overflows.
    Fault fault = b == -1 ? Fault::None : floorDivide(a, b, quotient, rest);
    value = rest;
    return fault;
  }
  case LLMC_EXPR_MIN:
    value = std::min(a, b);
    return Fault::None;
  case LLMC_EXPR_MAX:
    value = std::max(a, b);
    return Fault::None;
  case LLMC_EXPR_BROADCAST:
    value = a == 1 ? b : a;
    return a == b || a == 1 || b == 1 ? Fault::None : Fault::Broadcast;
  default:
    return Fault::Overflow; // Program::load knows no other operation
  }
}

std::string textOf(const Program &program, std::span<const llmc_expr_record> exprs, uint32_t index,
                   int depth, bool nested) {
  const llmc_expr_record &expr = exprs[index];
  if (expr.op == LLMC_EXPR_CONST)
    return std::to_string(expr.value);
  if (expr.op == LLMC_EXPR_SYMBOL)
    return std::string(program.string(program.symbols()[static_cast<size_t>(expr.value)].name));
  if (depth == 0)
    return "...";
  std::string a = textOf(program, exprs, expr.a, depth - 1, /*nested=*/true);
  std::string b = textOf(program, exprs, expr.b, depth - 1, /*nested=*/true);
  const char *infix = nullptr;
  const char *prefix = nullptr;
  switch (expr.op) {
  case LLMC_EXPR_ADD:
    infix = "+";
    break;
  case LLMC_EXPR_MUL:
    infix = "*";
    break;
  case LLMC_EXPR_FLOORDIV:
    infix = "//";
    break;
  case LLMC_EXPR_MOD:
    infix = "%";
    break;
  case LLMC_EXPR_CEILDIV:
    prefix = "ceildiv";
    break;
  case LLMC_EXPR_MIN:
    prefix = "min";
    break;
  case LLMC_EXPR_MAX:
    prefix = "max";
    break;
  default:
    prefix = "broadcast";
    break;
  }
  if (prefix)
    return fmt::format("{}({}, {})", prefix, a, b);
  return nested ? fmt::format("({} {} {})", a, infix, b) : fmt::format("{} {} {}", a, infix, b);
}

} // namespace

std::string exprText(const Program &program, std::span<const llmc_expr_record> exprs,
                     uint32_t index) {
  return textOf(program, exprs, index, kTextDepth, /*nested=*/false);
}

Status evaluateExprs(const Program &program, std::span<const llmc_expr_record> exprs,
                     std::span<const int64_t> symbols, std::vector<int64_t> &values) {
  values.clear();
  for (const llmc_expr_record &expr : exprs) {
    if (expr.op == LLMC_EXPR_CONST || expr.op == LLMC_EXPR_SYMBOL) {
      values.push_back(expr.op == LLMC_EXPR_CONST ? expr.value
                                                  : symbols[static_cast<size_t>(expr.value)]);
      continue;
    }
    int64_t a = values[expr.a];
    int64_t b = values[expr.b];
    int64_t value = 0;
    Fault fault = apply(expr.op, a, b, value);
    if (fault == Fault::None) {
      values.push_back(value);
      continue;
    }
    auto text = [&](uint32_t index) { return exprText(program, exprs, index); };
    if (fault == Fault::Broadcast)
      return Status::error(Code::InvalidArgument,
                           "cannot run: '{}' is {} and '{}' is {}, which cannot be broadcast",
                           text(expr.a), a, text(expr.b), b);
    return Status::error(Code::InvalidArgument, "cannot run: '{}' {}",
                         text(static_cast<uint32_t>(values.size())),
                         fault == Fault::Overflow ? "does not fit in 64 bits" : "divides by zero");
  }
  return Status::ok();
}

} // namespace llmc
