// SPDX-License-Identifier: Apache-2.0
//
// Canonical rows against what the format promises, in f64: values nearest to
// what they stand for, scales about as good as a long search finds, and an
// account of errors that is right.
#include "compiler/ir/CanonicalRows.h"
#include "compiler/ir/RowQuantizer.h"
#include "compiler/ir/WeightTransforms.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace llmc;

namespace {

using Kind = WeightFormat::Kind;

std::vector<WeightFormat> quantizedFormats() {
  std::vector<WeightFormat> formats;
  for (const char *name : {"int8", "int4:g32", "int4:g64", "int4:g128", "int4:g32:asym",
                           "int4:g64:asym", "int4:g128:asym", "int4x2:g32"})
    formats.push_back(*WeightFormat::parse(name));
  return formats;
}

/// Columns of differing size and shape: normal, with a few large values, one-sided, all zero.
std::vector<float> randomColumns(uint64_t columns, uint64_t depth, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(columns * depth);
  for (uint64_t n = 0; n < columns; ++n)
    for (uint64_t k = 0; k < depth; ++k) {
      float value = normal(random) * std::exp2(float(n % 9) - 6);
      if (n % 4 == 1 && random() % 97 == 0)
        value *= 8;
      if (n % 4 == 2)
        value = std::fabs(value);
      values[n * depth + k] = n % 7 == 5 ? 0 : value;
    }
  return values;
}

/// `values` [columns][depth] as a weight [columns, depth] or, not transposed, [depth, columns].
const Weight *addColumns(WeightStore &store, const std::vector<float> &values, uint64_t columns,
                         uint64_t depth, bool transposed) {
  std::string bytes(values.size() * 4, '\0');
  for (uint64_t n = 0; n < columns; ++n)
    for (uint64_t k = 0; k < depth; ++k)
      std::memcpy(bytes.data() + (transposed ? n * depth + k : k * columns + n) * 4,
                  &values[n * depth + k], 4);
  WeightType type{ElementType::F32, {int64_t(columns), int64_t(depth)}};
  if (!transposed)
    std::swap(type.shape[0], type.shape[1]);
  auto added = store.addOwned("w", type, bytes);
  EXPECT_TRUE(bool(added));
  return *added;
}

struct Quantized {
  const Weight *rows;
  const QuantizeRows *transform;
};

Quantized quantize(WeightStore &store, const Weight *source, const WeightFormat &format,
                   bool transposed) {
  auto transform = std::make_unique<QuantizeRows>(format, transposed, source->type());
  const QuantizeRows *kept = transform.get();
  auto added = store.addTransformed("q", std::move(transform), {source});
  EXPECT_TRUE(bool(added));
  return {*added, kept};
}

std::string readAll(const Weight &weight, size_t step) {
  std::string bytes(weight.byteSize(), '\x55');
  for (size_t at = 0; at < bytes.size(); at += step)
    weight.read(at, {bytes.data() + at, std::min(step, bytes.size() - at)});
  return bytes;
}

float floatAt(const char *bytes) {
  float value;
  std::memcpy(&value, bytes, 4);
  return value;
}

bool isHalf(float value) {
  llvm::APFloat number(value);
  bool loses = false;
  number.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return !loses;
}

/// What a value of a row stands for.
double meaning(const WeightFormat &format, const CanonicalRow &row, const char *bytes, uint64_t g,
               uint64_t i) {
  char stored = bytes[row.valuesAt(g) + i];
  double level = format.kind == Kind::Int8
                     ? double(int8_t(stored))
                     : double(uint8_t(stored)) - uint8_t(bytes[row.zeroAt(g)]);
  return level * double(floatAt(bytes + row.scaleAt(g)));
}

TEST(WeightFormat, ParsesAndPrints) {
  for (const char *name : {"f32", "f16", "bf16", "int8", "int4:g32", "int4:g64", "int4:g128",
                           "int4:g32:asym", "int4:g64:asym", "int4:g128:asym", "int4x2:g32"})
    EXPECT_EQ(WeightFormat::parse(name)->str(), name);
  EXPECT_EQ(WeightFormat::parse(" int4 ")->str(), "int4:g64");
  EXPECT_EQ(WeightFormat::parse("int4:asym")->str(), "int4:g64:asym");
  EXPECT_EQ(WeightFormat::parse("int4x2")->str(), "int4x2:g32");
  for (const char *wrong : {"", "int5", "int4:g16", "int4:g64:", "int8:g32", "f64", "INT4"}) {
    auto format = WeightFormat::parse(wrong);
    ASSERT_FALSE(bool(format)) << wrong;
    EXPECT_NE(toString(format.takeError()).find("int4:g128"), std::string::npos);
  }
}

TEST(CanonicalRows, DepthFollowsFromTheType) {
  for (const WeightFormat &format : quantizedFormats())
    for (uint64_t depth : {1, 31, 32, 33, 64, 65, 127, 128, 129, 1000}) {
      CanonicalRow row(format, depth);
      auto found = CanonicalRow::ofType(format, {ElementType::U8, {3, int64_t(row.bytes())}});
      ASSERT_TRUE(found) << format.str() << ' ' << depth;
      EXPECT_EQ(found->depth(), depth);
    }
  EXPECT_FALSE(CanonicalRow::ofType(*WeightFormat::parse("int4:g32"), {ElementType::U8, {3, 45}}));
  EXPECT_FALSE(CanonicalRow::ofType(*WeightFormat::parse("int8"), {ElementType::I8, {3, 40}}));
}

TEST(QuantizeRows, BytesDoNotDependOnReadsOrOrientationOrInstructions) {
  for (const WeightFormat &format : quantizedFormats())
    for (auto [columns, depth] :
         {std::pair<uint64_t, uint64_t>{1, 1}, {3, 7}, {130, 33}, {17, 200}}) {
      std::vector<float> values = randomColumns(columns, depth, unsigned(depth));
      WeightStore store;
      const Weight *byRows = addColumns(store, values, columns, depth, true);
      const Weight *byColumns = addColumns(store, values, columns, depth, false);
      Quantized rows = quantize(store, byRows, format, true);
      std::string whole = readAll(*rows.rows, rows.rows->byteSize());
      double error = rows.transform->relativeError();
      for (size_t step : {1, 13, 64, 1000})
        EXPECT_EQ(readAll(*rows.rows, step), whole) << format.str() << " in steps of " << step;
      EXPECT_EQ(rows.transform->relativeError(), error);
      Quantized others = quantize(store, byColumns, format, false);
      EXPECT_EQ(readAll(*others.rows, 4096), whole) << format.str();
      EXPECT_EQ(others.transform->relativeError(), error);

      CanonicalRow row(format, depth);
      std::vector<float> column(paddedDepth(depth));
      std::string portable(row.bytes(), '\0');
      for (uint64_t n = 0; n < columns; ++n) {
        std::copy_n(values.begin() + long(n * depth), depth, column.begin());
        quantizeRowPortably(format, row, column.data(),
                            reinterpret_cast<uint8_t *>(portable.data()));
        EXPECT_EQ(whole.substr(n * row.bytes(), row.bytes()), portable);
      }
    }
}

TEST(QuantizeRows, ValuesAreNearestAndErrorsAreAccountedFor) {
  constexpr uint64_t kColumns = 40;
  for (const WeightFormat &format : quantizedFormats())
    for (uint64_t depth : {5, 96, 300}) {
      std::vector<float> values = randomColumns(kColumns, depth, unsigned(depth) + 1);
      WeightStore store;
      Quantized rows =
          quantize(store, addColumns(store, values, kColumns, depth, true), format, true);
      std::string bytes = readAll(*rows.rows, rows.rows->byteSize());
      CanonicalRow row(format, depth);
      int levels = format.kind == Kind::Int8 ? 127 : 15;
      double error = 0, norm = 0;
      for (uint64_t n = 0; n < kColumns; ++n)
        for (uint64_t g = 0; g < row.groups(); ++g) {
          const char *at = bytes.data() + n * row.bytes();
          double scale = floatAt(at + row.scaleAt(g));
          int zero = uint8_t(at[row.zeroAt(g)]), multiplier = uint8_t(at[row.multiplierAt(g)]);
          EXPECT_EQ(at[row.scaleAt(g) + 6], 0);
          EXPECT_EQ(at[row.scaleAt(g) + 7], 0);
          if (format.kind == Kind::Int4)
            EXPECT_TRUE(isHalf(float(scale))) << scale;
          EXPECT_TRUE(format.kind == Kind::Int8 ? zero == 0
                      : format.asymmetric       ? zero <= 15
                                                : zero == 8);
          if (format.kind == Kind::Int4x2) {
            EXPECT_TRUE(multiplier >= 1 && multiplier <= 15) << multiplier;
            float column = row.columnScale(reinterpret_cast<const uint8_t *>(at));
            EXPECT_EQ(column * float(multiplier), float(scale));
          } else {
            EXPECT_EQ(multiplier, 0);
          }
          for (uint64_t i = 0; i < row.count(g); ++i) {
            int stored = format.kind == Kind::Int8 ? int8_t(at[row.valuesAt(g) + i])
                                                   : uint8_t(at[row.valuesAt(g) + i]);
            double want = values[n * depth + g * uint64_t(format.groupOf(int64_t(depth))) + i];
            double off = std::fabs(want - meaning(format, row, at, g, i));
            error += off * off;
            norm += want * want;
            bool atEnd = stored == levels || stored == (format.kind == Kind::Int8 ? -127 : 0);
            if (!atEnd)
              EXPECT_LE(off, std::fabs(scale) * 0.50001) << format.str();
          }
        }
      EXPECT_NEAR(rows.transform->relativeError(), std::sqrt(error / norm), 1e-5);
      EXPECT_EQ(rows.transform->problem(), "");
    }
}

/// The least squared error of a group over very many scales, and zero points if it has them.
double longSearch(const WeightFormat &format, const float *values, uint64_t count) {
  double most = 0, best = INFINITY;
  for (uint64_t i = 0; i < count; ++i)
    most = std::max(most, std::fabs(double(values[i])));
  int low = format.kind == Kind::Int8 ? -127 : -8, high = format.kind == Kind::Int8 ? 127 : 7;
  double coarse = most / double(high);
  for (int zero = format.asymmetric ? 0 : 8; zero <= (format.asymmetric ? 15 : 8); ++zero)
    for (int step = 0; step < 600; ++step)
      for (double sign : {1.0, -1.0}) {
        double scale = sign * coarse * (0.3 + double(step) / 600), error = 0;
        int from = format.asymmetric ? -zero : low, to = format.asymmetric ? 15 - zero : high;
        for (uint64_t i = 0; i < count; ++i) {
          double level = std::clamp(std::nearbyint(values[i] / scale), double(from), double(to));
          error += (values[i] - level * scale) * (values[i] - level * scale);
        }
        best = std::min(best, error);
      }
  return best;
}

TEST(QuantizeRows, ScalesAreNearlyAsGoodAsALongSearchFinds) {
  constexpr uint64_t kColumns = 16;
  for (const char *name : {"int8", "int4:g32", "int4:g64", "int4:g128", "int4:g32:asym"}) {
    WeightFormat format = *WeightFormat::parse(name);
    uint64_t depth = format.group ? uint64_t(format.group) : 400;
    std::vector<float> values = randomColumns(kColumns, depth, 11);
    WeightStore store;
    Quantized rows =
        quantize(store, addColumns(store, values, kColumns, depth, true), format, true);
    readAll(*rows.rows, rows.rows->byteSize());
    double error = 0, norm = 0;
    for (uint64_t n = 0; n < kColumns; ++n) {
      // Relative to a column's size, so that each counts alike.
      double square = 0;
      for (uint64_t k = 0; k < depth; ++k)
        square += double(values[n * depth + k]) * values[n * depth + k];
      norm += square;
      if (square > 0)
        error += longSearch(format, values.data() + n * depth, depth);
    }
    EXPECT_LE(rows.transform->relativeError(), std::sqrt(error / norm) * 1.02) << name;
  }
}

TEST(QuantizeRows, ReadsHalvesAsTheirValues) {
  std::vector<float> values = randomColumns(9, 50, 3);
  for (ElementType element : {ElementType::F16, ElementType::BF16}) {
    WeightStore store;
    const Weight *floats = addColumns(store, values, 9, 50, true);
    auto narrow = store.addTransformed(
        "n", element == ElementType::F16 ? convertToF16() : convertToBf16(), {floats});
    ASSERT_TRUE(bool(narrow));
    std::string halves = readAll(**narrow, 4096);
    std::vector<float> rounded;
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, halves.data() + i * 2, 2);
      llvm::APFloat number(element == ElementType::F16 ? llvm::APFloat::IEEEhalf()
                                                       : llvm::APFloat::BFloat(),
                           llvm::APInt(16, bits));
      bool loses;
      number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
      rounded.push_back(number.convertToFloat());
    }
    WeightFormat format = *WeightFormat::parse("int4:g32");
    Quantized got = quantize(store, *narrow, format, true);
    Quantized want = quantize(store, addColumns(store, rounded, 9, 50, true), format, true);
    EXPECT_EQ(readAll(*got.rows, 4096), readAll(*want.rows, 4096));
  }
}

TEST(QuantizeRows, WeightsThatDoNotFitAreProblems) {
  struct Case {
    const char *format;
    float value;
    const char *problem;
  };
  const Case cases[] = {{"int8", NAN, "NaN"},          {"int4:g32", INFINITY, "infinity"},
                        {"int4:g64:asym", NAN, "NaN"}, {"int4x2:g32", -INFINITY, "infinity"},
                        {"int4:g32", 1e6f, "large"},   {"int4:g32:asym", -1e7f, "large"},
                        {"int8", 1e20f, "large"},      {"int8", 1e6f, ""},
                        {"int4x2:g32", 1e6f, ""},      {"int4:g32", 4e5f, ""},
                        {"int4:g128", 1e-40f, ""},     {"int8", 1e-42f, ""},
                        {"int4:g32", 3e-8f, ""}};
  for (const Case &c : cases)
    for (uint64_t where : {0, 69}) {
      std::vector<float> values(70 * 2, 0.0f);
      values[70 + where] = c.value;
      WeightStore store;
      Quantized rows = quantize(store, addColumns(store, values, 2, 70, true),
                                *WeightFormat::parse(c.format), true);
      readAll(*rows.rows, rows.rows->byteSize());
      std::string problem = rows.transform->problem();
      if (*c.problem)
        EXPECT_NE(problem.find(c.problem), std::string::npos) << c.format << ' ' << c.value;
      else
        EXPECT_EQ(problem, "") << c.format << ' ' << c.value;
    }
}

TEST(QuantizeRows, RefusesOtherTypes) {
  WeightFormat format = *WeightFormat::parse("int8");
  for (const WeightType &type :
       {WeightType{ElementType::I32, {4, 4}}, WeightType{ElementType::F32, {4}},
        WeightType{ElementType::F64, {4, 4}}}) {
    auto result = QuantizeRows(format, true, type).inferType({&type});
    ASSERT_FALSE(bool(result));
    EXPECT_NE(toString(result.takeError()).find("int8"), std::string::npos);
  }
}

TEST(ConvertToF16, RoundsAsHalvesDo) {
  std::mt19937 random(5);
  std::vector<uint32_t> words = {0,
                                 0x80000000u,
                                 0x7f800000u,
                                 0xff800000u,
                                 0x7fc00000u,
                                 0x7f800001u,
                                 0x477fe000u,
                                 0x477fefffu,
                                 0x477ff000u,
                                 0x38800000u,
                                 0x387fffffu,
                                 0x33000000u,
                                 0x33000001u,
                                 0x33800000u,
                                 0x38801000u,
                                 0x38803000u,
                                 1};
  for (int i = 0; i < 20000; ++i)
    words.push_back(i % 2 ? uint32_t(random()) : 0x30000000u + uint32_t(random()) % 0x18000000u);
  WeightStore store;
  std::string bytes(reinterpret_cast<const char *>(words.data()), words.size() * 4);
  auto source = store.addOwned("w", {ElementType::F32, {int64_t(words.size())}}, bytes);
  auto halves = store.addTransformed("h", convertToF16(), {*source});
  ASSERT_TRUE(bool(halves));
  std::string got = readAll(**halves, 777);
  for (size_t i = 0; i < words.size(); ++i) {
    llvm::APFloat number(llvm::bit_cast<float>(words[i]));
    bool loses;
    number.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &loses);
    uint16_t bits;
    std::memcpy(&bits, got.data() + i * 2, 2);
    if (number.isNaN())
      EXPECT_GT(bits & 0x7fff, 0x7c00) << words[i];
    else
      EXPECT_EQ(bits, number.bitcastToAPInt().getZExtValue()) << words[i];
  }
}

} // namespace
