// SPDX-License-Identifier: Apache-2.0
//
// Size arithmetic against a table of exact results, and its errors.
#include "runtime/exec/Expressions.h"

#include "tests/unit/exec/ProgramBuilder.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

/// The value of `op(a, b)`, or the error of it.
struct Outcome {
  int64_t value = 0;
  std::string error;
};

Outcome evaluate(uint32_t op, int64_t a, int64_t b) {
  ProgramBuilder builder;
  uint32_t left = builder.symbol("left");
  uint32_t right = builder.symbol("right");
  builder.beginEntry("run");
  uint32_t l = builder.symbolExpr(left);
  uint32_t r = builder.symbolExpr(right);
  builder.expr(op, l, r);
  builder.input("x", Dtype::F32, {l, r});
  builder.bindInput(left, 0, 0);
  builder.bindInput(right, 0, 1);
  builder.endEntry();
  Result<std::shared_ptr<const Program>> program = builder.build();
  EXPECT_TRUE(program.isOk()) << program.status().message();
  std::span<const llmc_expr_record> exprs = (*program)->exprs((*program)->entries()[0]).first(3);
  std::vector<int64_t> values;
  Status status = evaluateExprs(**program, exprs, std::vector<int64_t>{a, b}, values);
  if (!status.isOk()) {
    EXPECT_EQ(status.code(), Code::InvalidArgument);
    EXPECT_EQ(values.size(), 2u);
    return {0, status.message()};
  }
  return {values.at(2), ""};
}

TEST(Expressions, ComputesExactly) {
  const struct {
    uint32_t op;
    int64_t a, b, expected;
  } cases[] = {
      {LLMC_EXPR_ADD, 2, 3, 5},        {LLMC_EXPR_ADD, INT64_MAX, INT64_MIN, -1},
      {LLMC_EXPR_MUL, -4, 3, -12},     {LLMC_EXPR_FLOORDIV, 7, 2, 3},
      {LLMC_EXPR_FLOORDIV, -7, 2, -4}, {LLMC_EXPR_FLOORDIV, 7, -2, -4},
      {LLMC_EXPR_FLOORDIV, -7, -2, 3}, {LLMC_EXPR_FLOORDIV, INT64_MIN, 1, INT64_MIN},
      {LLMC_EXPR_CEILDIV, 7, 2, 4},    {LLMC_EXPR_CEILDIV, -7, 2, -3},
      {LLMC_EXPR_CEILDIV, 8, 2, 4},    {LLMC_EXPR_CEILDIV, 0, 5, 0},
      {LLMC_EXPR_MOD, 7, 3, 1},        {LLMC_EXPR_MOD, -7, 3, 2},
      {LLMC_EXPR_MOD, 7, -3, -2},      {LLMC_EXPR_MOD, INT64_MIN, -1, 0},
      {LLMC_EXPR_MIN, -2, 5, -2},      {LLMC_EXPR_MAX, -2, 5, 5},
      {LLMC_EXPR_BROADCAST, 1, 7, 7},  {LLMC_EXPR_BROADCAST, 7, 1, 7},
      {LLMC_EXPR_BROADCAST, 7, 7, 7},  {LLMC_EXPR_BROADCAST, 1, 1, 1},
      {LLMC_EXPR_BROADCAST, 0, 1, 0},  {LLMC_EXPR_BROADCAST, 1, 0, 0},
  };
  for (const auto &test : cases) {
    Outcome outcome = evaluate(test.op, test.a, test.b);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.value, test.expected) << test.op << ": " << test.a << ", " << test.b;
  }
}

TEST(Expressions, RefusesWhatHasNoValue) {
  const struct {
    uint32_t op;
    int64_t a, b;
    const char *text;
  } cases[] = {
      {LLMC_EXPR_ADD, INT64_MAX, 1, "'left + right' does not fit in 64 bits"},
      {LLMC_EXPR_MUL, int64_t{1} << 32, int64_t{1} << 31, "'left * right' does not fit"},
      {LLMC_EXPR_FLOORDIV, 3, 0, "'left // right' divides by zero"},
      {LLMC_EXPR_FLOORDIV, INT64_MIN, -1, "does not fit"},
      {LLMC_EXPR_CEILDIV, 3, 0, "'ceildiv(left, right)' divides by zero"},
      {LLMC_EXPR_MOD, 3, 0, "'left % right' divides by zero"},
      {LLMC_EXPR_BROADCAST, 2, 3, "'left' is 2 and 'right' is 3, which cannot be broadcast"},
      {LLMC_EXPR_BROADCAST, 0, 3, "cannot be broadcast"},
  };
  for (const auto &test : cases) {
    Outcome outcome = evaluate(test.op, test.a, test.b);
    EXPECT_NE(outcome.error.find(test.text), std::string::npos) << outcome.error;
  }
}

TEST(Expressions, CutsTheTextOfDeepOnes) {
  ProgramBuilder builder;
  uint32_t symbol = builder.symbol("n");
  builder.beginEntry("run");
  uint32_t n = builder.symbolExpr(symbol);
  uint32_t last = builder.add(n, builder.constant(2));
  std::string shallow = "n + 2";
  for (int i = 0; i < 60; ++i) // 2^60 symbols if it were written out
    last = builder.mul(last, last);
  builder.input("x", Dtype::F32, {n});
  builder.bindInput(symbol, 0, 0);
  builder.endEntry();
  Result<std::shared_ptr<const Program>> program = builder.build();
  ASSERT_TRUE(program.isOk()) << program.status().message();
  std::span<const llmc_expr_record> exprs = (*program)->exprs((*program)->entries()[0]);
  EXPECT_EQ(exprText(**program, exprs, 2), shallow);
  EXPECT_LT(exprText(**program, exprs, last).size(), 400u);
}

} // namespace
} // namespace llmc
