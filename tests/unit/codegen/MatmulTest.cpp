// SPDX-License-Identifier: Apache-2.0
//
// Products with packed weights against a plain f64 loop, on sizes that leave
// rests everywhere, for any number of workers.
#include "codegen/cpu/WeightPacking.h"
#include "compiler/ir/WeightTransforms.h"
#include "tests/unit/codegen/KernelRunner.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace llmc::test {
namespace {

struct Shape {
  int64_t columns, depth;
};
constexpr Shape kShapes[] = {{1, 3},    {7, 65},    {16, 16},   {17, 300}, {48, 1},
                             {100, 65}, {112, 300}, {50, 1030}, {33, 901}};

enum class Epilogue { None, BiasGelu, Residual, Scalar };

std::string dims(const std::string &sizes, const std::string &element) {
  std::string shape;
  for (size_t at = 0; at < sizes.size();) {
    size_t end = std::min(sizes.find(", ", at), sizes.size());
    std::string size = sizes.substr(at, end - at);
    shape += (size[0] == 's' ? "?" : size) + "x";
    at = end + 2;
  }
  return "tensor<" + shape + element + ", #llm.dims<[" + sizes + "]>>";
}

/// How a weight is stored.
struct Format {
  const char *element, *layout;
  ElementType type;
};
constexpr Format kFormats[] = {{"f32", "f32.16", ElementType::F32},
                               {"bf16", "b16.16", ElementType::BF16},
                               {"f16", "h16.16", ElementType::F16}};

std::string kernelText(Shape shape, Format format, bool transposed, Epilogue epilogue,
                       const std::string &name) {
  std::string n = std::to_string(shape.columns), k = std::to_string(shape.depth);
  std::string lhs = dims("s0, s1, " + k, "f32"), result = dims("s0, s1, " + n, "f32");
  std::string weight = "tensor<" + (transposed ? n + "x" + k : k + "x" + n) + "x" + format.element +
                       ", \"" + format.layout + "\">";
  std::string row = "tensor<" + n + "xf32>";
  std::string text = "rt.kernel @" + name + " label \"m\" sizes 2 {\n^bb0(%a: " + lhs +
                     ", %w: " + weight + ", %b: " + row + ", %r: " + result + "):\n";
  text += "  %m = llm.matmul %a, %w" + std::string(transposed ? " transpose_rhs" : "") + " : " +
          lhs + ", " + weight + " -> " + result + "\n";
  std::string last = "%m";
  if (epilogue == Epilogue::BiasGelu) {
    text +=
        "  %s = llm.elementwise add(%m, %b) : (" + result + ", " + row + ") -> " + result + "\n";
    text += "  %g = llm.elementwise gelu(%s) : (" + result + ") -> " + result + "\n";
    last = "%g";
  } else if (epilogue == Epilogue::Residual) {
    text +=
        "  %s = llm.elementwise add(%b, %m) : (" + row + ", " + result + ") -> " + result + "\n";
    text +=
        "  %g = llm.elementwise add(%r, %s) : (" + result + ", " + result + ") -> " + result + "\n";
    last = "%g";
  } else if (epilogue == Epilogue::Scalar) {
    // `sign` has no vector form: the scalar way must give the same.
    text += "  %s = llm.elementwise sign(%m) : (" + result + ") -> " + result + "\n";
    last = "%s";
  }
  return text + "  rt.yield " + last + " : " + result + "\n}\n";
}

float roundToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

void check(const KernelRunner &runner, Shape shape, Format format, bool transposed,
           Epilogue epilogue, const std::string &name) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  auto filled = [&](size_t count) {
    std::vector<float> values(count);
    for (float &value : values)
      value = normal(random);
    return values;
  };
  int64_t n = shape.columns, k = shape.depth;
  std::vector<float> weight = filled(n * k), bias = filled(n);
  std::vector<uint16_t> narrow(n * k);
  for (int64_t i = 0; i < n * k; ++i)
    if (format.type == ElementType::BF16) {
      weight[i] = roundToBf16(weight[i]);
      uint32_t bits;
      std::memcpy(&bits, &weight[i], 4);
      narrow[i] = uint16_t(bits >> 16);
    } else if (format.type == ElementType::F16) {
      auto rounded = _Float16(weight[i]);
      weight[i] = float(rounded);
      std::memcpy(&narrow[i], &rounded, 2);
    }
  bool narrowed = format.type != ElementType::F32;
  std::vector<char> packed =
      pack(format.layout, transposed, format.type, transposed ? n : k, transposed ? k : n,
           narrowed ? static_cast<const void *>(narrow.data()) : weight.data());
  for (int64_t m : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 64, 100, 221}) {
    int64_t batch = m % 2 ? 1 : 2;
    std::vector<float> lhs = filled(m * k), residual = filled(m * n), first;
    for (int64_t workers : {1, 2, 3, 16}) {
      // A guard behind the result: nothing may be written past its end.
      std::vector<float> out(m * n + 32, 12345.0f);
      int32_t code =
          runner.run(name, {lhs.data(), packed.data(), bias.data(), residual.data(), out.data()},
                     {batch, m / batch}, workers);
      ASSERT_EQ(code, 0);
      for (int64_t i = m * n; i < m * n + 32; ++i)
        ASSERT_EQ(out[i], 12345.0f) << name << " m " << m << " wrote behind its result";
      if (workers > 1) {
        ASSERT_EQ(0, std::memcmp(first.data(), out.data(), out.size() * 4))
            << name << " m " << m << ": " << workers << " workers give other bits than one";
        continue;
      }
      first = out;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, size = 0;
          for (int64_t l = 0; l < k; ++l) {
            double term = double(lhs[i * k + l]) * weight[transposed ? j * k + l : l * n + j];
            sum += term;
            size += std::abs(term);
          }
          double want = sum, tolerance = 2e-6 * size + 1e-6;
          if (epilogue == Epilogue::BiasGelu) {
            double x = sum + bias[j];
            want = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
            tolerance += 1e-6 * std::abs(x);
          } else if (epilogue == Epilogue::Residual) {
            want = sum + bias[j] + residual[i * n + j];
          } else if (epilogue == Epilogue::Scalar) {
            want = sum > 0 ? 1 : sum < 0 ? -1 : 0;
            tolerance = std::abs(sum) < tolerance ? 2 : 0;
          }
          ASSERT_NEAR(out[i * n + j], want, tolerance)
              << name << " at m " << m << ", row " << i << ", column " << j;
        }
    }
  }
}

class Matmul : public testing::TestWithParam<size_t> {};

TEST_P(Matmul, MatchesPlainLoopsOnOddSizes) {
  Format format = kFormats[GetParam()];
  for (Level level : testLevels()) {
    std::string text;
    auto each = [&](auto body) {
      for (size_t i = 0; i < std::size(kShapes); ++i)
        body(kShapes[i], i % 2 == 1, Epilogue(i % 4), "k" + std::to_string(i));
    };
    each([&](Shape shape, bool transposed, Epilogue epilogue, const std::string &name) {
      text += kernelText(shape, format, transposed, epilogue, name);
    });
    auto runner = KernelRunner::compile(text, level);
    ASSERT_TRUE(runner);
    each([&](Shape shape, bool transposed, Epilogue epilogue, const std::string &name) {
      check(*runner, shape, format, transposed, epilogue, name);
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Weights, Matmul, testing::Values(0, 1, 2), [](const auto &info) {
  return std::string(kFormats[info.param].element);
});

TEST(MatmulGeneric, ReadsPackedWeights) {
  for (bool transposed : {false, true})
    for (Format format : kFormats) {
      auto runner = KernelRunner::compile(
          kernelText({17, 9}, format, transposed, Epilogue::BiasGelu, "k"), {"avx2", false, false});
      ASSERT_TRUE(runner);
      check(*runner, {17, 9}, format, transposed, Epilogue::BiasGelu, "k");
    }
}

TEST(Packing, AnyRangeGivesTheBytesOfTheWhole) {
  std::mt19937 random(3);
  for (bool transposed : {false, true})
    for (Format format : kFormats)
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{5, 3}, {70, 150}, {131, 300}}) {
        WeightType type{format.type, {rows, columns}};
        std::string bytes(type.byteSize(), 0);
        for (char &byte : bytes)
          byte = char(random());
        for (size_t step : {size_t(1) << 30, size_t(4096), size_t(1037), size_t(7)}) {
          std::vector<char> whole =
              pack(format.layout, transposed, type.element, rows, columns, bytes.data(), step);
          int64_t width = format.type == ElementType::F32 ? 4 : 2,
                  depth = transposed ? columns : rows, count = transposed ? rows : columns,
                  pair = format.type == ElementType::BF16 ? 2 : 1;
          int64_t lines = (depth + pair - 1) / pair;
          ASSERT_EQ(int64_t(whole.size()), (count + 15) / 16 * lines * 16 * width * pair);
          for (int64_t c = 0; c < (count + 15) / 16 * 16; ++c)
            for (int64_t k = 0; k < lines * pair; ++k) {
              std::string want(width, 0);
              if (c < count && k < depth)
                want =
                    bytes.substr((transposed ? c * columns + k : k * columns + c) * width, width);
              int64_t at = ((c / 16 * lines + k / pair) * 16 + c % 16) * pair + k % pair;
              ASSERT_EQ(want, std::string(&whole[at * width], width)) << c << ", " << k;
            }
        }
      }
}

TEST(Packing, ReadsSourcesThatAreComputed) {
  std::vector<float> values(70 * 50);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(int(i % 256)) - 100; // exact in bf16
  std::vector<uint16_t> narrow;
  for (float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    narrow.push_back(uint16_t(bits >> 16));
  }
  for (bool transposed : {false, true}) {
    WeightStore store;
    WeightType type{ElementType::F32, {70, 50}};
    const char *bytes = reinterpret_cast<const char *>(values.data());
    const Weight *plain = *store.addOwned("w", type, std::string(bytes, type.byteSize()));
    const Weight *converted = *store.addTransformed("c", convertToBf16(), {plain});
    const Weight *packed =
        *store.addTransformed("p", cpu::packColumns(cpu::kPackedBf16, transposed), {converted});
    std::vector<char> out(packed->byteSize());
    packed->read(0, out);
    EXPECT_EQ(out, pack("b16.16", transposed, ElementType::BF16, 70, 50, narrow.data()));
  }
}

TEST(Packing, RefusesOtherSources) {
  auto packing = cpu::packColumns(cpu::kPackedF32, false);
  WeightType wrongRank{ElementType::F32, {2, 3, 4}}, wrongElement{ElementType::F64, {2, 3}};
  for (const WeightType *type : {&wrongRank, &wrongElement}) {
    auto result = packing->inferType({type});
    ASSERT_FALSE(bool(result));
    EXPECT_NE(llvm::toString(result.takeError()).find("f32.16"), std::string::npos);
  }
  EXPECT_EQ(cpu::packColumns("plain", false), nullptr);
}

} // namespace
} // namespace llmc::test
