// SPDX-License-Identifier: Apache-2.0
//
// Packed quantized weights against a reader that finds each value by the
// layout's definition, one at a time.
#include "codegen/cpu/QuantPacking.h"
#include "compiler/ir/CanonicalRows.h"

#include "llvm/ADT/APFloat.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace llmc;
using namespace llmc::cpu;

namespace {

constexpr const char *kFormats[] = {"int8",           "int4:g32",      "int4:g64",
                                    "int4:g128",      "int4:g32:asym", "int4:g64:asym",
                                    "int4:g128:asym", "int4x2:g32"};

/// Rows whose every value, scale and zero point is random.
std::string randomRows(const WeightFormat &format, uint64_t columns, uint64_t depth) {
  std::mt19937 random(unsigned(columns * 1000 + depth));
  CanonicalRow row(format, depth);
  std::string bytes(columns * row.bytes(), '\0');
  for (uint64_t n = 0; n < columns; ++n) {
    char *at = bytes.data() + n * row.bytes();
    float columnScale = float(random() % 4096 + 1) / 512;
    for (uint64_t g = 0; g < row.groups(); ++g) {
      for (uint64_t i = 0; i < row.count(g); ++i)
        at[row.valuesAt(g) + i] = format.kind == WeightFormat::Kind::Int8
                                      ? char(int(random() % 255) - 127)
                                      : char(random() % 16);
      // Small multiples of 2^-20: exact as f16, many of them subnormal.
      float scale = float(int(random() % 2047) - 1023) / (random() % 2 ? 1048576.0f : 64.0f);
      if (format.kind == WeightFormat::Kind::Int4x2) {
        at[row.multiplierAt(g)] = char(random() % 15 + 1);
        scale = columnScale * float(at[row.multiplierAt(g)]);
      }
      std::memcpy(at + row.scaleAt(g), &scale, 4);
      if (format.kind != WeightFormat::Kind::Int8)
        at[row.zeroAt(g)] = format.asymmetric ? char(random() % 16) : char(8);
    }
  }
  return bytes;
}

std::string readAll(const Weight &weight, size_t step) {
  std::string bytes(weight.byteSize(), '\x55');
  for (size_t at = 0; at < bytes.size(); at += step)
    weight.read(at, {bytes.data() + at, std::min(step, bytes.size() - at)});
  return bytes;
}

float halfAt(const uint8_t *bytes) {
  llvm::APFloat number(llvm::APFloat::IEEEhalf(),
                       llvm::APInt(16, uint64_t(bytes[0] | bytes[1] << 8)));
  bool loses;
  number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return number.convertToFloat();
}

float floatAt(const void *bytes) {
  float value;
  std::memcpy(&value, bytes, 4);
  return value;
}

/// A column's value at k, less what stands for zero, and its scale.
struct Element {
  int level;
  float scale;
  bool operator==(const Element &) const = default;
};

/// By the text of codegen/cpu/QuantLayout.h, with numbers written out.
Element elementOf(const std::string &format, const uint8_t *packed, uint64_t depth, uint64_t n,
                  uint64_t k) {
  uint64_t lane = n % 16;
  if (format == "int8") {
    uint64_t padded = (depth + 63) / 64 * 64;
    const uint8_t *block = packed + n / 16 * (padded * 16 + 64);
    return {int(block[k / 4 * 64 + lane * 4 + k % 4]) - 128,
            floatAt(block + padded * 16 + lane * 4)};
  }
  bool zeros = format.find("asym") != std::string::npos,
       twoLevel = format.find("x2") != std::string::npos;
  uint64_t group = format.find("g128") != std::string::npos  ? 128
                   : format.find("g64") != std::string::npos ? 64
                                                             : 32;
  uint64_t groups = (depth + group - 1) / group, groupBytes = group * 8 + (twoLevel ? 16
                                                                           : zeros  ? 48
                                                                                    : 32);
  const uint8_t *block = packed + n / 16 * (groups * groupBytes + (twoLevel ? 64 : 0));
  const uint8_t *unit = block + k / group * groupBytes, *tail = unit + group * 8;
  uint64_t inGroup = k % group;
  uint8_t byte = unit[inGroup / 8 * 64 + 4 * lane + inGroup % 4];
  int value = inGroup % 8 < 4 ? byte & 15 : byte >> 4;
  if (twoLevel)
    return {value - 8, floatAt(block + groups * groupBytes + lane * 4) * float(tail[lane])};
  return {value - (zeros ? int(tail[32 + lane]) : 8), halfAt(tail + lane * 2)};
}

TEST(QuantPacking, EveryValueIsWhereTheLayoutSays) {
  for (const char *name : kFormats) {
    WeightFormat format = *WeightFormat::parse(name);
    QuantLayout layout = quantLayoutFor(format);
    for (auto [columns, depth] : {std::pair<uint64_t, uint64_t>{16, 128},
                                  {1, 1},
                                  {17, 33},
                                  {300, 65},
                                  {15, 130},
                                  {40, 200}}) {
      WeightStore store;
      std::string rows = randomRows(format, columns, depth);
      CanonicalRow row(format, depth);
      auto source =
          store.addOwned("rows", {ElementType::U8, {int64_t(columns), int64_t(row.bytes())}}, rows);
      ASSERT_TRUE(bool(source));
      auto packed = store.addTransformed("packed", packQuantized(layout), {*source});
      ASSERT_TRUE(bool(packed));
      ASSERT_EQ((*packed)->byteSize(),
                uint64_t(layout.weightBytes(int64_t(depth), int64_t(columns))));
      std::string bytes = readAll(**packed, (*packed)->byteSize());
      for (size_t step : {61, 4096})
        EXPECT_EQ(readAll(**packed, step), bytes);
      const auto *at = reinterpret_cast<const uint8_t *>(bytes.data());
      uint64_t paddedDepth = uint64_t(layout.groups(int64_t(depth)) * layout.group);
      for (uint64_t n = 0; n < (columns + 15) / 16 * 16; ++n)
        for (uint64_t k = 0; k < paddedDepth; ++k) {
          Element got = elementOf(name, at, depth, n, k);
          if (n >= columns) {
            EXPECT_EQ(got.scale, 0.0f);
            EXPECT_EQ(format.asymmetric ? 0 : got.level, 0);
            continue;
          }
          const char *from = rows.data() + n * row.bytes();
          uint64_t g = k / uint64_t(format.groupOf(int64_t(paddedDepth)));
          int level = 0;
          if (k < depth) {
            char stored =
                from[row.valuesAt(g) + k % uint64_t(format.groupOf(int64_t(paddedDepth)))];
            level = format.kind == WeightFormat::Kind::Int8
                        ? int8_t(stored)
                        : uint8_t(stored) - int(from[row.zeroAt(g)]);
          }
          ASSERT_EQ(got, (Element{level, floatAt(from + row.scaleAt(g))}))
              << name << " n " << n << " k " << k;
        }
    }
  }
}

TEST(QuantPacking, LayoutsAndFormatsCorrespond) {
  for (const char *name : kFormats) {
    QuantLayout layout = quantLayoutFor(*WeightFormat::parse(name));
    EXPECT_EQ(QuantLayout::parse(layout.str())->str(), layout.str());
  }
  EXPECT_EQ(quantLayoutFor(*WeightFormat::parse("int4:g64")).str(), "q4.64.16");
  EXPECT_EQ(quantLayoutFor(*WeightFormat::parse("int4:g32:asym")).str(), "q4.32.16.z");
}

TEST(QuantPacking, RefusesWhatAreNoRowsOfTheFormat) {
  WeightStore store;
  auto source = store.addOwned("w", {ElementType::U8, {2, 45}}, std::string(90, '\0'));
  auto packed =
      store.addTransformed("p", packQuantized(*QuantLayout::parse("q4.32.16")), {*source});
  ASSERT_FALSE(bool(packed));
  EXPECT_NE(toString(packed.takeError()).find("int4:g32"), std::string::npos);
}

} // namespace
