// SPDX-License-Identifier: Apache-2.0
//
// Inputs made from tokens: every role with every element type it may have.
#include "runtime/llm/SequenceInputs.h"
#include "tests/unit/exec/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <cstring>

namespace llmc {
namespace {

template <typename T> std::vector<T> values(const ConstTensor &tensor) {
  auto bytes = tensorBytes(tensor.dtype, tensor.shape);
  std::vector<T> result(*bytes / sizeof(T));
  if (!result.empty())
    std::memcpy(result.data(), tensor.data, *bytes);
  return result;
}

struct Inputs {
  std::shared_ptr<const Program> program;
  std::optional<SequenceInputs> inputs;
};

/// A program whose inputs are `addInputs`', with symbols batch, sequence and past to hand.
Result<Inputs> makeInputs(void (*addInputs)(ProgramBuilder &, uint32_t b, uint32_t s, uint32_t t)) {
  ProgramBuilder p;
  uint32_t symbols[] = {p.symbol("batch"), p.symbol("sequence"), p.symbol("past")};
  p.beginEntry("run");
  uint32_t b = p.symbolExpr(symbols[0]), s = p.symbolExpr(symbols[1]), t = p.symbolExpr(symbols[2]);
  // Binds all symbols, so that each test names only what it is about.
  p.input("input_ids", Dtype::I64, {b, s}, {}, LLMC_ROLE_IDS);
  p.input("bind_past", Dtype::F32, {b, t}, {}, LLMC_ROLE_PAST, 1);
  p.bindInput(symbols[0], 0, 0);
  p.bindInput(symbols[1], 0, 1);
  p.bindInput(symbols[2], 1, 1);
  addInputs(p, b, s, t);
  p.endEntry();
  LLMC_TRY_ASSIGN(std::shared_ptr<const Program> program, p.build());
  LLMC_TRY_ASSIGN(SequenceInputs inputs, SequenceInputs::create(*program, 0));
  return Inputs{std::move(program), std::move(inputs)};
}

const std::vector<int32_t> kTokens = {7, 8, 9, 10, 11};

TEST(SequenceInputs, FillsEachRole) {
  auto made = makeInputs([](ProgramBuilder &p, uint32_t b, uint32_t s, uint32_t t) {
    p.input("mask", Dtype::I64, {b, p.add(t, s)}, {}, LLMC_ROLE_MASK);
    p.input("positions", Dtype::I64, {b, s}, {}, LLMC_ROLE_POSITIONS);
    p.input("cache_position", Dtype::I64, {s}, {}, LLMC_ROLE_CACHE_POSITION);
    p.input("use_cache", Dtype::Bool, {p.constant(1)}, {}, LLMC_ROLE_USE_CACHE);
  });
  ASSERT_TRUE(made.isOk()) << made.status().message();
  auto tensors = made->inputs->make(kTokens, 3);
  ASSERT_TRUE(tensors.isOk()) << tensors.status().message();
  EXPECT_EQ((*tensors)[0].shape, (Shape{1, 2}));
  EXPECT_EQ(values<int64_t>((*tensors)[0]), (std::vector<int64_t>{10, 11}));
  EXPECT_EQ((*tensors)[1].shape, (Shape{1, 3}));
  EXPECT_EQ((*tensors)[2].shape, (Shape{1, 5}));
  EXPECT_EQ(values<int64_t>((*tensors)[2]), (std::vector<int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(values<int64_t>((*tensors)[3]), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ((*tensors)[4].shape, (Shape{2}));
  EXPECT_EQ(values<int64_t>((*tensors)[4]), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(values<uint8_t>((*tensors)[5]), std::vector<uint8_t>{1});
  auto first = made->inputs->make(kTokens, 0);
  ASSERT_TRUE(first.isOk());
  EXPECT_EQ(values<uint8_t>((*first)[5]), std::vector<uint8_t>{0});
  EXPECT_EQ((*first)[1].shape, (Shape{1, 0}));
}

TEST(SequenceInputs, FillsEachType) {
  auto made = makeInputs([](ProgramBuilder &p, uint32_t b, uint32_t s, uint32_t t) {
    uint32_t total = p.add(t, s);
    for (Dtype dtype : {Dtype::I32, Dtype::Bool, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64,
                        Dtype::U8, Dtype::I8})
      p.input("mask " + std::string(dtypeName(dtype)), dtype, {b, total}, {}, LLMC_ROLE_MASK);
    p.input("positions", Dtype::I32, {p.constant(3), b, s}, {}, LLMC_ROLE_POSITIONS);
  });
  ASSERT_TRUE(made.isOk()) << made.status().message();
  auto tensors = made->inputs->make(kTokens, 4);
  ASSERT_TRUE(tensors.isOk()) << tensors.status().message();
  EXPECT_EQ(values<int32_t>((*tensors)[2]), std::vector<int32_t>(5, 1));
  EXPECT_EQ(values<uint8_t>((*tensors)[3]), std::vector<uint8_t>(5, 1));
  EXPECT_EQ(values<float>((*tensors)[4]), std::vector<float>(5, 1));
  EXPECT_EQ(values<uint16_t>((*tensors)[5]), std::vector<uint16_t>(5, 0x3C00));
  EXPECT_EQ(values<uint16_t>((*tensors)[6]), std::vector<uint16_t>(5, 0x3F80));
  EXPECT_EQ(values<double>((*tensors)[7]), std::vector<double>(5, 1));
  EXPECT_EQ(values<uint8_t>((*tensors)[8]), std::vector<uint8_t>(5, 1));
  EXPECT_EQ(values<uint8_t>((*tensors)[9]), std::vector<uint8_t>(5, 1));
  EXPECT_EQ((*tensors)[10].shape, (Shape{3, 1, 1}));
  EXPECT_EQ(values<int32_t>((*tensors)[10]), std::vector<int32_t>(3, 4));
}

TEST(SequenceInputs, CachesMayHaveABatchOfTheirOwnButNoOtherOpenSize) {
  auto own = makeInputs([](ProgramBuilder &p, uint32_t, uint32_t, uint32_t t) {
    uint32_t symbol = p.symbol("s17");
    uint32_t batch = p.symbolExpr(symbol);
    p.input("past", Dtype::F32, {p.constant(2), batch, t, p.constant(4)}, {}, LLMC_ROLE_PAST, 2);
    p.bindInput(symbol, 2, 1);
  });
  ASSERT_TRUE(own.isOk()) << own.status().message();
  auto tensors = own->inputs->make(kTokens, 3);
  ASSERT_TRUE(tensors.isOk());
  EXPECT_EQ((*tensors)[2].shape, (Shape{2, 1, 3, 4}));

  auto open = makeInputs([](ProgramBuilder &p, uint32_t b, uint32_t, uint32_t t) {
    uint32_t symbol = p.symbol("encoder_length");
    uint32_t length = p.symbolExpr(symbol);
    p.input("past", Dtype::F32, {b, length, t}, {"", "encoder_length", ""}, LLMC_ROLE_PAST, 2);
    p.bindInput(symbol, 2, 1);
  });
  ASSERT_FALSE(open.isOk());
  EXPECT_NE(open.status().message().find("'encoder_length' of the cache input 'past'"),
            std::string::npos)
      << open.status().message();

  auto opaque = makeInputs([](ProgramBuilder &p, uint32_t, uint32_t, uint32_t t) {
    uint32_t symbol = p.symbol("batch_size * num_heads");
    uint32_t rows = p.symbolExpr(symbol);
    p.input("past", Dtype::F32, {rows, t}, {"batch_size * num_heads"}, LLMC_ROLE_PAST, 1);
    p.bindInput(symbol, 2, 0);
  });
  EXPECT_FALSE(opaque.isOk());
}

TEST(SequenceInputs, RefusesTypesAndSizesThatOneSequenceCannotHave) {
  auto floats = makeInputs([](ProgramBuilder &p, uint32_t b, uint32_t s, uint32_t) {
    p.input("positions", Dtype::F32, {b, s}, {}, LLMC_ROLE_POSITIONS);
  });
  EXPECT_FALSE(floats.isOk());
  auto wide = makeInputs([](ProgramBuilder &p, uint32_t b, uint32_t s, uint32_t t) {
    p.input("mask", Dtype::F32, {b, p.constant(1), s, p.add(t, s)}, {}, LLMC_ROLE_MASK);
  });
  EXPECT_FALSE(wide.isOk());
  auto fixed = makeInputs([](ProgramBuilder &p, uint32_t b, uint32_t, uint32_t) {
    p.input("past", Dtype::F32, {b, p.constant(64)}, {}, LLMC_ROLE_PAST, 1);
  });
  ASSERT_FALSE(fixed.isOk());
  EXPECT_NE(fixed.status().message().find("fixed length of 64"), std::string::npos);
}

} // namespace
} // namespace llmc
