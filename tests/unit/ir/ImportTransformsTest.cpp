// SPDX-License-Identifier: Apache-2.0
//
// Transforms of imported weights against plain loops, read whole and in ranges
// that begin and end anywhere.
#include "compiler/ir/ImportTransforms.h"

#include <gtest/gtest.h>

#include <cstring>

namespace llmc {
namespace {

std::string bytesOf(const Weight &weight) {
  std::string all(weight.byteSize(), '\0');
  weight.read(0, llvm::MutableArrayRef<char>(all.data(), all.size()));
  return all;
}

/// Reads in pieces of `step` bytes.
std::string piecesOf(const Weight &weight, size_t step) {
  std::string all(weight.byteSize(), '\0');
  for (size_t at = 0; at < all.size(); at += step)
    weight.read(at, llvm::MutableArrayRef<char>(all.data() + at, std::min(step, all.size() - at)));
  return all;
}

template <typename T> std::string raw(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

const Weight *take(llvm::Expected<const Weight *> made) {
  if (made)
    return *made;
  ADD_FAILURE() << llvm::toString(made.takeError());
  return nullptr;
}

TEST(ImportTransforms, DequantizesPackedBlocksAlongEachAxis) {
  // 5 x 7 values of 4 bits, in blocks of 3.
  std::vector<uint8_t> values(35), packed(18);
  for (size_t i = 0; i < 35; ++i) {
    values[i] = uint8_t(i * 11 % 16);
    packed[i / 2] |= uint8_t(values[i] << (i % 2 * 4));
  }
  for (int64_t axis : {0, 1}) {
    std::vector<int64_t> blocks =
        axis == 0 ? std::vector<int64_t>{2, 7} : std::vector<int64_t>{5, 3};
    std::vector<float> scales(size_t(blocks[0] * blocks[1]));
    std::vector<uint8_t> zeros(scales.size());
    for (size_t i = 0; i < scales.size(); ++i) {
      scales[i] = 0.25f * float(i + 1);
      zeros[i] = uint8_t(i % 5);
    }
    WeightStore store;
    llvm::SmallVector<int64_t, 4> shape(blocks.begin(), blocks.end());
    const Weight *q = take(store.addOwned("q", {ElementType::U4, {5, 7}}, raw(packed)));
    const Weight *s = take(store.addOwned("s", {ElementType::F32, shape}, raw(scales)));
    const Weight *z = take(store.addOwned("z", {ElementType::U8, shape}, raw(zeros)));
    Dequantization parameters;
    parameters.input = q->type();
    parameters.scale = s->type();
    parameters.zero = z->type();
    parameters.result = {ElementType::F32, {5, 7}};
    parameters.axis = axis;
    parameters.block = 3;
    const Weight *made = take(store.addTransformed("w", dequantize(parameters), {q, s, z}));
    ASSERT_TRUE(made);
    std::vector<float> expected;
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 7; ++j) {
        int64_t at = axis == 0 ? i / 3 * 7 + j : i * 3 + j / 3;
        expected.push_back(float(values[size_t(i * 7 + j)] - zeros[size_t(at)]) *
                           scales[size_t(at)]);
      }
    EXPECT_EQ(bytesOf(*made), raw(expected));
    for (size_t step : {1, 3, 4, 27, 29})
      EXPECT_EQ(piecesOf(*made, step), raw(expected)) << "axis " << axis << ", step " << step;
  }
}

TEST(ImportTransforms, LeavesOutPaddingBehindTheLastBlock) {
  WeightStore store;
  std::vector<int8_t> values = {1, 2, 3, 4, -5, 6, 7, 8};
  const Weight *q = take(store.addOwned("q", {ElementType::I8, {2, 4}}, raw(values)));
  const Weight *s =
      take(store.addOwned("s", {ElementType::F32, {2, 2}}, raw(std::vector<float>{1, 2, 3, 4})));
  Dequantization parameters;
  parameters.input = q->type();
  parameters.scale = s->type();
  parameters.result = {ElementType::F32, {2, 3}};
  parameters.axis = 1;
  parameters.block = 2;
  const Weight *made = take(store.addTransformed("w", dequantize(parameters), {q, s}));
  ASSERT_TRUE(made);
  EXPECT_EQ(bytesOf(*made), raw(std::vector<float>{1, 2, 6, -15, 18, 28}));
}

TEST(ImportTransforms, RefusesShapesThatDontFit) {
  WeightStore store;
  const Weight *q =
      take(store.addOwned("q", {ElementType::I8, {2, 2}}, raw(std::vector<int8_t>{1, 2, 3, 4})));
  const Weight *s =
      take(store.addOwned("s", {ElementType::F32, {3}}, raw(std::vector<float>{1, 2, 3})));
  Dequantization parameters;
  parameters.input = q->type();
  parameters.scale = s->type();
  parameters.result = {ElementType::F32, {2, 4}};
  auto longer = store.addTransformed("w", dequantize(parameters), {q, s});
  EXPECT_FALSE(bool(longer));
  llvm::consumeError(longer.takeError());
  parameters.result = {ElementType::F32, {2, 2}};
  parameters.block = 2;
  auto ranks = store.addTransformed("w", dequantize(parameters), {q, s});
  EXPECT_FALSE(bool(ranks));
  llvm::consumeError(ranks.takeError());
}

TEST(ImportTransforms, ReadsEveryNarrowFloat) {
  EXPECT_EQ(numberFromBits(ElementType::F8E4M3FN, 0x7E), 448);
  EXPECT_EQ(numberFromBits(ElementType::F8E5M2, 0xFB), -57344);
  EXPECT_EQ(numberFromBits(ElementType::F4E2M1, 7), 6);
  EXPECT_EQ(numberFromBits(ElementType::F8E8M0, 130), 8);
  EXPECT_EQ(numberFromBits(ElementType::I4, 0xF), -1);
  EXPECT_EQ(numberFromBits(ElementType::U2, 3), 3);
}

TEST(ImportTransforms, RearrangesKernels) {
  // (2, 3, 2) with the middle dimension last, as a matrix.
  std::vector<uint16_t> values(12), expected;
  for (size_t i = 0; i < 12; ++i)
    values[i] = uint16_t(i);
  for (size_t o = 0; o < 2; ++o)
    for (size_t tap = 0; tap < 2; ++tap)
      for (size_t c = 0; c < 3; ++c)
        expected.push_back(uint16_t(o * 6 + c * 2 + tap));
  WeightStore store;
  const Weight *w = take(store.addOwned("w", {ElementType::U16, {2, 3, 2}}, raw(values)));
  const Weight *made = take(store.addTransformed("m", rearrange({0, 2, 1}, {2, 6}), {w}));
  ASSERT_TRUE(made);
  EXPECT_EQ(bytesOf(*made), raw(expected));
  EXPECT_EQ(piecesOf(*made, 3), raw(expected));
}

} // namespace
} // namespace llmc
