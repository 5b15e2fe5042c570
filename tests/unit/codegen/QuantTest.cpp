// SPDX-License-Identifier: Apache-2.0
//
// Kernels that read quantized weights, against f64 loops on the weights' exact
// values.
#include "tests/unit/codegen/KernelRunner.h"
#include "tests/unit/codegen/QuantizedWeight.h"

#include "codegen/cpu/QuantLayout.h"
#include "compiler/ir/llm/QuantizedRows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace llmc::test {
namespace {

constexpr const char *kLayouts[] = {"q4.32.16",    "q4.64.16",    "q4.128.16",  "q4.32.16.z",
                                    "q4.64.16.z",  "q4.128.16.z", "q4x2.32.16", "q4x2.64.16",
                                    "q4x2.128.16", "q8.16"};

TEST(QuantLayout, NamesAndSizes) {
  for (const char *name : kLayouts) {
    auto layout = cpu::QuantLayout::parse(name);
    ASSERT_TRUE(layout) << name;
    EXPECT_EQ(layout->str(), name);
    for (auto [columns, depth] : {std::pair<int64_t, int64_t>{1, 1}, {17, 100}, {64, 256}})
      EXPECT_EQ(layout->weightBytes(depth, columns),
                int64_t(QuantizedWeight(name, columns, depth).packed.size()))
          << name;
  }
  for (const char *name : {"", "q4", "q4.16.16", "q4.064.16x", "q4.64.8", "q8.16.z", "f32.16"})
    EXPECT_FALSE(cpu::QuantLayout::parse(name)) << name;
}

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

/// Generic kernels take any weight, element by element.
TEST(QuantGeneric, ProductsAndGathersDequantize) {
  constexpr int64_t kColumns = 19, kDepth = 149, kRows = 3;
  std::string text;
  for (auto [i, layout] : llvm::enumerate(kLayouts)) {
    std::string quoted = std::string("xf32, \"") + layout + "\">";
    for (bool transposed : {false, true})
      text += "rt.kernel @m" + std::to_string(i) + (transposed ? "t" : "") +
              " label \"m\" sizes 0 {\n^bb0(%a: tensor<3x149xf32>, %w: tensor<" +
              (transposed ? "19x149" : "149x19") + quoted + "):\n  %m = llm.matmul %a, %w" +
              (transposed ? " transpose_rhs" : "") + " : tensor<3x149xf32>, tensor<" +
              (transposed ? "19x149" : "149x19") + quoted +
              " -> tensor<3x19xf32>\n  rt.yield %m : tensor<3x19xf32>\n}\n";
    text += "rt.kernel @g" + std::to_string(i) + " label \"g\" sizes 0 {\n^bb0(%w: tensor<19x149" +
            quoted + ", %i: tensor<4xi64>):\n  %g = llm.gather %w[%i] axis 0 : tensor<19x149" +
            quoted + ", tensor<4xi64> -> tensor<4x149xf32>\n  rt.yield %g : tensor<4x149xf32>\n}\n";
  }
  for (bool tuned : {false, true}) {
    auto runner = KernelRunner::compile(text, {"avx2", false, tuned});
    ASSERT_TRUE(runner);
    for (auto [i, layout] : llvm::enumerate(kLayouts)) {
      QuantizedWeight weight(layout, kColumns, kDepth);
      std::mt19937 random(5);
      std::vector<float> lhs(kRows * kDepth);
      for (float &x : lhs)
        x = float(int(random() % 2001) - 1000) / 1000;
      for (const char *suffix : {"", "t"}) {
        std::vector<float> out(kRows * kColumns);
        ASSERT_EQ(runner->run("m" + std::to_string(i) + suffix,
                              {lhs.data(), weight.packed.data(), out.data()}, {}, 2),
                  0);
        for (int64_t m = 0; m < kRows; ++m)
          for (int64_t n = 0; n < kColumns; ++n) {
            double want = 0, size = 0;
            for (int64_t k = 0; k < kDepth; ++k) {
              double term = lhs[m * kDepth + k] * weight.values[n * kDepth + k];
              want += term;
              size += std::abs(term);
            }
            ASSERT_NEAR(out[m * kColumns + n], want, 1e-6 * size) << layout << suffix;
          }
      }
      std::vector<int64_t> rows = {18, 0, -1, 7};
      std::vector<float> out(4 * kDepth);
      ASSERT_EQ(runner->run("g" + std::to_string(i),
                            {weight.packed.data(), rows.data(), out.data()}, {}, 3),
                0);
      for (int64_t j = 0; j < 4; ++j)
        for (int64_t k = 0; k < kDepth; ++k) {
          double want = weight.values[(rows[j] + 19) % 19 * kDepth + k];
          ASSERT_NEAR(out[j * kDepth + k], want, 1e-7 * std::abs(want)) << layout;
        }
    }
  }
}

//===----------------------------------------------------------------------===//
// llm.quantize
//===----------------------------------------------------------------------===//

/// What a kernel wrote for one row.
struct QuantizedRow {
  std::vector<int8_t> values; ///< with the padding
  std::vector<float> scales;

  QuantizedRow(const uint8_t *bytes, int64_t depth, int64_t group) {
    llm::QuantizedRecord record{group};
    for (int64_t r = 0; r < record.recordsOf(depth); ++r, bytes += record.bytes()) {
      int pair[2] = {0, 0}, sum = 0;
      for (int64_t i = 0; i < group; ++i) {
        auto value = int8_t(bytes[i]);
        values.push_back(value);
        pair[i % 4 / 2] -= 8 * value;
        sum += value;
      }
      float scale;
      int16_t stored[2];
      int32_t storedSum, nothing;
      std::memcpy(&scale, bytes + group, 4);
      std::memcpy(stored, bytes + group + 4, 4);
      std::memcpy(&storedSum, bytes + group + 8, 4);
      std::memcpy(&nothing, bytes + group + 12, 4);
      scales.push_back(scale);
      EXPECT_EQ(stored[0], pair[0]);
      EXPECT_EQ(stored[1], pair[1]);
      EXPECT_EQ(storedSum, sum);
      EXPECT_EQ(nothing, 0);
    }
  }
  double at(int64_t k, int64_t group) const { return double(values[k]) * scales[k / group]; }
};

/// Values of many sizes, in which some groups are 0, tiny, or huge.
std::vector<float> activations(int64_t rows, int64_t depth, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(rows * depth));
  float size = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 32 == 0)
      size = std::array<float, 6>{1, 0, 30, 1e-3f, 1, 1e-30f}[random() % 6];
    values[i] = normal(random) * size;
  }
  return values;
}

void checkRow(const float *x, const uint8_t *bytes, int64_t depth, int64_t group, double slack) {
  QuantizedRow row(bytes, depth, group);
  for (int64_t k = 0; k < int64_t(row.values.size()); k += group) {
    double most = 0;
    bool strange = false;
    for (int64_t i = k; i < std::min(k + group, depth); ++i) {
      most = std::max(most, std::abs(double(x[i])));
      strange |= !std::isfinite(x[i]);
    }
    float scale = row.scales[size_t(k / group)];
    if (strange) {
      EXPECT_TRUE(std::isnan(scale));
      continue;
    }
    EXPECT_NEAR(scale, most / 127, (1e-6 + slack) * most / 127 + 1e-32);
    for (int64_t i = k; i < k + group; ++i) {
      double want = i < depth ? x[i] : 0;
      EXPECT_NEAR(double(row.values[i]) * scale, want, (0.50001 + 300 * slack) * scale + 1e-29)
          << "element " << i;
      EXPECT_GE(row.values[i], -127);
    }
  }
}

TEST(Quantize, RoundsToTheNearestOfEachGroup) {
  for (Level level : testLevels())
    for (int64_t group : {32, 64})
      for (int64_t depth : {1, 31, 64, 100, 128, 129, 320}) {
        std::string k = std::to_string(depth),
                    bytes = std::to_string(llm::QuantizedRecord{group}.rowBytes(depth));
        std::string from = dims("s0, " + k, "f32"), to = dims("s0, " + bytes, "ui8");
        auto runner = KernelRunner::compile("rt.kernel @q label \"q\" sizes 1 {\n^bb0(%x: " + from +
                                                "):\n  %q = llm.quantize %x group " +
                                                std::to_string(group) + " : " + from + " -> " + to +
                                                "\n  rt.yield %q : " + to + "\n}\n",
                                            level);
        ASSERT_TRUE(runner);
        for (int64_t rows : {0, 1, 5}) {
          std::vector<float> x = activations(rows, depth);
          if (rows == 5) {
            x[0] = std::numeric_limits<float>::quiet_NaN();
            x[size_t(2 * depth)] = std::numeric_limits<float>::infinity();
            x[size_t(3 * depth)] = 3.4e38f;
          }
          std::vector<uint8_t> first;
          for (int64_t workers : {1, 3, 16}) {
            std::vector<uint8_t> out(rows * llm::QuantizedRecord{group}.rowBytes(depth) + 32, 0xAB);
            ASSERT_EQ(runner->run("q", {x.data(), out.data()}, {rows}, workers), 0);
            for (size_t i = out.size() - 32; i < out.size(); ++i)
              ASSERT_EQ(out[i], 0xAB);
            if (workers == 1)
              first = out;
            ASSERT_EQ(first, out);
          }
          for (int64_t row = 0; row < rows; ++row)
            checkRow(x.data() + row * depth,
                     first.data() + row * llm::QuantizedRecord{group}.rowBytes(depth), depth, group,
                     0);
        }
      }
}

TEST(Quantize, FollowsANormInOneKernel) {
  for (Level level : testLevels())
    for (bool layer : {false, true})
      for (bool keep : {false, true})
        for (int64_t depth : {20, 100, 256}) {
          llm::QuantizedRecord record{64};
          std::string k = std::to_string(depth), bytes = std::to_string(record.rowBytes(depth));
          std::string from = dims("s0, s1, " + k, "f32"), to = dims("s0, s1, " + bytes, "ui8"),
                      row = "tensor<" + k + "xf32>";
          std::string norm =
              layer ? "llm.layer_norm %x scale %s bias %b axis 2 epsilon 1.0e-5 : " + from + ", " +
                          row + ", " + row
                    : "llm.rms_norm %x scale %s axis 2 epsilon 1.0e-5 : " + from + ", " + row;
          auto runner = KernelRunner::compile(
              "rt.kernel @q label \"q\" sizes 2 {\n^bb0(%x: " + from + ", %s: " + row +
                  ", %b: " + row + "):\n  %n = " + norm + " -> " + from +
                  "\n  %q = llm.quantize %n group 64 : " + from + " -> " + to + "\n  rt.yield %q" +
                  (keep ? ", %n" : "") + " : " + to + (keep ? ", " + from : "") + "\n}\n",
              level);
          ASSERT_TRUE(runner);
          constexpr int64_t kRows = 6;
          std::mt19937 random(9);
          std::normal_distribution<float> normal(0.5);
          auto filled = [&](int64_t count) {
            std::vector<float> values(size_t(count), 0);
            for (float &value : values)
              value = normal(random);
            return values;
          };
          std::vector<float> x = filled(kRows * depth), scale = filled(depth), bias = filled(depth),
                             want(x.size());
          for (int64_t r = 0; r < kRows; ++r) {
            double mean = 0, squares = 0;
            for (int64_t i = 0; i < depth; ++i)
              mean += layer ? double(x[r * depth + i]) / double(depth) : 0;
            for (int64_t i = 0; i < depth; ++i)
              squares += std::pow(x[r * depth + i] - mean, 2) / double(depth);
            for (int64_t i = 0; i < depth; ++i)
              want[r * depth + i] =
                  float((x[r * depth + i] - mean) / std::sqrt(squares + 1e-5) * scale[i] +
                        (layer ? bias[i] : 0));
          }
          for (int64_t workers : {1, 4}) {
            std::vector<uint8_t> out(kRows * record.rowBytes(depth));
            std::vector<float> kept(x.size());
            ASSERT_EQ(runner->run("q",
                                  {x.data(), scale.data(), bias.data(), out.data(), kept.data()},
                                  {2, 3}, workers),
                      0);
            for (int64_t r = 0; r < kRows; ++r)
              checkRow(want.data() + r * depth, out.data() + r * record.rowBytes(depth), depth, 64,
                       2e-6);
            if (keep)
              for (size_t i = 0; i < want.size(); ++i)
                ASSERT_NEAR(kept[i], want[i], 1e-5 * (1 + std::abs(want[i])));
          }
        }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

enum class Epilogue { None, BiasGelu, Residual, Scalar };

struct Product {
  const char *layout;
  int64_t columns, depth;
  bool transposed, extreme;
  Epilogue epilogue;

  int64_t group() const { return cpu::QuantLayout::parse(layout)->activationGroup(); }
};

std::string productText(const Product &product, const std::string &name) {
  std::string n = std::to_string(product.columns), k = std::to_string(product.depth),
              group = std::to_string(product.group());
  std::string bytes = std::to_string(llm::QuantizedRecord{product.group()}.rowBytes(product.depth));
  std::string x = dims("s0, s1, " + k, "f32"), lhs = dims("s0, s1, " + bytes, "ui8"),
              result = dims("s0, s1, " + n, "f32"), row = "tensor<" + n + "xf32>";
  std::string weight = "tensor<" + (product.transposed ? n + "x" + k : k + "x" + n) + "xf32, \"" +
                       product.layout + "\">";
  std::string text = "rt.kernel @" + name + "q label \"q\" sizes 2 {\n^bb0(%x: " + x +
                     "):\n  %q = llm.quantize %x group " + group + " : " + x + " -> " + lhs +
                     "\n  rt.yield %q : " + lhs + "\n}\n";
  text += "rt.kernel @" + name + " label \"m\" sizes 2 {\n^bb0(%a: " + lhs + ", %w: " + weight +
          ", %b: " + row + ", %r: " + result + "):\n";
  text += "  %m = llm.matmul %a, %w" + std::string(product.transposed ? " transpose_rhs" : "") +
          " quantized " + group + " : " + lhs + ", " + weight + " -> " + result + "\n";
  auto elementwise = [&](const std::string &to, const std::string &kind,
                         const std::string &operands, const std::string &types) {
    text += "  " + to + " = llm.elementwise " + kind + "(" + operands + ") : (" + types + ") -> " +
            result + "\n";
  };
  std::string last = "%m";
  if (product.epilogue == Epilogue::BiasGelu) {
    elementwise("%s", "add", "%m, %b", result + ", " + row);
    elementwise(last = "%g", "gelu", "%s", result);
  } else if (product.epilogue == Epilogue::Residual) {
    elementwise("%s", "add", "%b, %m", row + ", " + result);
    elementwise(last = "%g", "add", "%r, %s", result + ", " + result);
  } else if (product.epilogue == Epilogue::Scalar) {
    elementwise(last = "%s", "sign", "%m", result); // has no vector form
  }
  return text + "  rt.yield " + last + " : " + result + "\n}\n";
}

void checkProduct(const KernelRunner &runner, const Product &product, const std::string &name,
                  bool exactOrder) {
  int64_t n = product.columns, k = product.depth, group = product.group();
  llm::QuantizedRecord record{group};
  QuantizedWeight weight(product.layout, n, k, product.extreme);
  std::vector<float> bias = activations(1, n, 7);
  std::vector<float> widest; // the result for the most rows, whose first rows the others must equal
  for (int64_t m : {200, 64, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}) {
    if (m > 17 && n * k > 40000)
      continue;
    std::vector<float> x = activations(m, k), residual = activations(m, n, 5);
    if (product.extreme)
      for (float &value : x)
        value = value < 0 ? -2 : 2;
    if (m > 1)
      std::fill_n(x.begin() + k, k, 0.0f);
    if (m > 2)
      x[size_t(2 * k + k / 2)] = std::numeric_limits<float>::quiet_NaN();
    std::vector<uint8_t> lhs(m * record.rowBytes(k));
    ASSERT_EQ(runner.run(name + "q", {x.data(), lhs.data()}, {1, m}), 0);
    std::vector<float> first;
    for (int64_t workers : {1, 2, 5}) {
      std::vector<float> out(m * n + 32, 12345.0f);
      ASSERT_EQ(
          runner.run(name,
                     {lhs.data(), weight.packed.data(), bias.data(), residual.data(), out.data()},
                     {1, m}, workers),
          0);
      for (int64_t i = m * n; i < m * n + 32; ++i)
        ASSERT_EQ(out[i], 12345.0f) << name << " m " << m << " wrote behind its result";
      if (workers == 1)
        first = out;
      ASSERT_EQ(0, std::memcmp(first.data(), out.data(), out.size() * 4))
          << product.layout << " m " << m << ": " << workers << " workers give other bits than one";
    }
    if (widest.empty())
      widest = first;
    else if (exactOrder)
      ASSERT_EQ(0, std::memcmp(first.data(), widest.data(), m * n * 4))
          << product.layout << ": " << m << " rows give other bits than more";
    for (int64_t i = 0; i < m; ++i) {
      QuantizedRow row(lhs.data() + i * record.rowBytes(k), k, group);
      for (int64_t j = 0; j < n; ++j) {
        double want = 0, size = 0;
        for (int64_t l = 0; l < k; ++l) {
          double term = row.at(l, group) * weight.values[j * k + l];
          want += term;
          size += std::abs(term);
        }
        double tolerance = 1e-6 * size + 1e-30, sum = want;
        if (product.epilogue == Epilogue::BiasGelu) {
          double y = sum + bias[j];
          want = 0.5 * y * (1 + std::erf(y / std::sqrt(2.0)));
          tolerance += 1e-6 * std::abs(y);
        } else if (product.epilogue == Epilogue::Residual) {
          want = sum + bias[j] + residual[i * n + j];
          tolerance += 1e-6 * (std::abs(want) + std::abs(bias[j]) + std::abs(residual[i * n + j]));
        } else if (product.epilogue == Epilogue::Scalar) {
          want = sum > 0 ? 1 : sum < 0 ? -1 : 0;
          tolerance = std::abs(sum) < tolerance ? 2 : 0;
        }
        if (std::isnan(sum)) {
          ASSERT_TRUE(std::isnan(first[i * n + j]) || product.epilogue == Epilogue::Scalar);
          continue;
        }
        ASSERT_NEAR(first[i * n + j], want, tolerance)
            << product.layout << " " << n << "x" << k << ", m " << m << ", row " << i << ", column "
            << j;
      }
    }
  }
}

std::vector<Product> products() {
  std::vector<Product> all;
  constexpr std::pair<int64_t, int64_t> kShapes[] = {{1, 3},    {16, 64},  {17, 100},
                                                     {33, 320}, {150, 70}, {20, 1100}};
  int i = 0;
  for (const char *layout : kLayouts)
    for (auto [columns, depth] : kShapes) {
      all.push_back({layout, columns, depth, i % 2 == 1, i % 5 == 3, Epilogue(i % 4)});
      ++i;
    }
  return all;
}

class QuantProduct : public testing::TestWithParam<const char *> {};

TEST_P(QuantProduct, MatchesPlainLoopsOnOddSizes) {
  std::vector<Product> all = products();
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [&](const Product &product) { return std::string(product.layout) != GetParam(); }),
            all.end());
  for (Level level : testLevels()) {
    // Emulated code has the same loops: the two sizes with the most rests will do.
    std::vector<Product> some = level.emulate ? std::vector<Product>{all[2], all[5]} : all;
    std::string text;
    for (auto [i, product] : llvm::enumerate(some))
      text += productText(product, "k" + std::to_string(i));
    auto runner = KernelRunner::compile(text, level);
    ASSERT_TRUE(runner);
    for (auto [i, product] : llvm::enumerate(some))
      checkProduct(*runner, product, "k" + std::to_string(i), /*exactOrder=*/true);
  }
  auto generic = KernelRunner::compile(productText(all[2], "k"), {"avx2", false, false});
  ASSERT_TRUE(generic);
  checkProduct(*generic, all[2], "k", /*exactOrder=*/false);
}
INSTANTIATE_TEST_SUITE_P(Layouts, QuantProduct, testing::ValuesIn(kLayouts), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

} // namespace
} // namespace llmc::test
