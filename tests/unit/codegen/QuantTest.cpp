// SPDX-License-Identifier: Apache-2.0
//
// Kernels that read quantized weights, against f64 loops on the weights' exact
// values.
#include "tests/unit/codegen/KernelRunner.h"
#include "tests/unit/codegen/QuantizedWeight.h"

#include "codegen/cpu/QuantLayout.h"

#include <cmath>
#include <gtest/gtest.h>

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

} // namespace
} // namespace llmc::test
