// SPDX-License-Identifier: Apache-2.0
//
// Kernels of elementwise ops alone against plain loops, with operands that
// broadcast in every way that has a vector form, and one that has none.
#include "tests/unit/codegen/KernelRunner.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace llmc::test {
namespace {

std::string type(const std::string &shape, const std::string &dims) {
  return "tensor<" + shape + "xf32, #llm.dims<[" + dims + "]>>";
}

/// silu(full) * row + column - gelu_tanh(scalar * full), of the given last size.
std::string kernelText(int64_t n) {
  std::string last = std::to_string(n), full = type("?x?x" + last, "s0, s1, " + last),
              row = "tensor<" + last + "xf32>", column = type("?x?x1", "s0, s1, 1"),
              scalar = "tensor<1xf32>";
  std::string to = ") -> " + full + "\n";
  return "rt.kernel @k label \"e\" sizes 2 {\n^bb0(%x: " + full + ", %r: " + row +
         ", %c: " + column + ", %s: " + scalar + "):\n  %a = llm.elementwise silu(%x) : (" + full +
         to + "  %b = llm.elementwise mul(%a, %r) : (" + full + ", " + row + to +
         "  %d = llm.elementwise add(%c, %b) : (" + column + ", " + full + to +
         "  %e = llm.elementwise mul(%s, %x) : (" + scalar + ", " + full + to +
         "  %f = llm.elementwise gelu_tanh(%e) : (" + full + to +
         "  %g = llm.elementwise sub(%d, %f) : (" + full + ", " + full + to +
         "  rt.yield %g : " + full + "\n}\n";
}

TEST(Elementwise, VectorsMatchPlainLoops) {
  for (Level level : testLevels())
    for (bool tuned : {true, false})
      for (int64_t n : {1, 7, 8, 64, 1000, 2065}) {
        level.tuned = tuned;
        auto runner = KernelRunner::compile(kernelText(n), level);
        ASSERT_TRUE(runner);
        for (auto [s0, s1] : {std::pair<int64_t, int64_t>{0, 3}, {1, 1}, {2, 3}}) {
          std::mt19937 random(11);
          std::normal_distribution<float> normal(0, 2);
          auto filled = [&](int64_t count) {
            std::vector<float> values(count);
            for (float &value : values)
              value = normal(random);
            return values;
          };
          int64_t rows = s0 * s1;
          std::vector<float> x = filled(rows * n), r = filled(n), c = filled(rows), s = {0.5f},
                             first;
          for (int64_t workers : {1, 2, 3, 16}) {
            std::vector<float> out(rows * n + 32, 12345.0f);
            ASSERT_EQ(0, runner->run("k", {x.data(), r.data(), c.data(), s.data(), out.data()},
                                     {s0, s1}, workers));
            for (int64_t i = rows * n; i < rows * n + 32; ++i)
              ASSERT_EQ(out[i], 12345.0f);
            if (workers == 1)
              first = out;
            ASSERT_EQ(0, std::memcmp(first.data(), out.data(), out.size() * 4)) << workers;
          }
          for (int64_t i = 0; i < rows * n; ++i) {
            double v = x[i], h = 0.5 * v;
            double want =
                v / (1 + std::exp(-v)) * r[i % n] + c[i / n] -
                0.5 * h * (1 + std::tanh(0.7978845608028654 * (h + 0.044715 * h * h * h)));
            ASSERT_NEAR(first[i], want, 2e-5) << level.name << ", " << n << " at " << i;
          }
        }
      }
}

} // namespace
} // namespace llmc::test
