// SPDX-License-Identifier: Apache-2.0
//
// Times single kernels on one thread beside what the machine can do at the same
// minute: bytes a second against a plain read, flops against multiply-adds in
// registers. Only the shares mean anything on a shared machine.
#include "tests/unit/codegen/KernelRunner.h"

#include "codegen/cpu/IsaLevel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace llmc::test {
namespace {

typedef float Lanes __attribute__((vector_size(32)));

double secondsOf(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The best of several rounds: the others were disturbed.
double bestOf(int rounds, const std::function<void()> &work) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i)
    best = std::min(best, secondsOf(work));
  return best;
}

constexpr int kSums = 12, kSteps = 4000000;

__attribute__((target("avx2,fma"), noinline)) void multiplyInRegisters() {
  Lanes sums[kSums] = {}, x = {1.0f, 0.5f}, y = {0.25f, 0.125f};
  __asm__ volatile("" : "+x"(x), "+x"(y));
  for (int i = 0; i < kSteps; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < kSums; ++j)
      __asm__("vfmadd231ps %1, %2, %0" : "+x"(sums[j]) : "x"(x), "x"(y));
  for (Lanes &sum : sums)
    __asm__ volatile("" : : "x"(sum));
}

/// Reads four quarters side by side, as kernels read weights.
__attribute__((target("avx2"), noinline)) void readStreams(const float *data, size_t quarter) {
  for (size_t i = 0; i < quarter; i += 16)
#pragma clang loop unroll(full)
    for (size_t stream = 0; stream < 4; ++stream) {
      Lanes x, y;
      std::memcpy(&x, &data[stream * quarter + i], 32);
      std::memcpy(&y, &data[stream * quarter + i + 8], 32);
      __asm__ volatile("" : : "x"(x), "x"(y));
    }
}

double peakFlops() { return 2.0 * 8 * kSums * kSteps / bestOf(5, multiplyInRegisters); }

double readBytesPerSecond(const std::vector<float> &data) {
  size_t quarter = data.size() / 4 / 16 * 16;
  return 16.0 * double(quarter) / bestOf(5, [&] { readStreams(data.data(), quarter); });
}

void timeMatmul(int64_t rows, int64_t depth, int64_t columns, bool bf16, double peak, double read) {
  std::string n = std::to_string(columns), k = std::to_string(depth);
  std::string lhs = "tensor<?x" + k + "xf32, #llm.dims<[s0, " + k + "]>>",
              result = "tensor<?x" + n + "xf32, #llm.dims<[s0, " + n + "]>>",
              rhs = "tensor<" + k + "x" + n + (bf16 ? "xbf16, \"b16.16\">" : "xf32, \"f32.16\">");
  std::string text = "rt.kernel @k label \"m\" sizes 1 {\n^bb0(%a: " + lhs + ", %w: " + rhs +
                     "):\n  %m = llm.matmul %a, %w : " + lhs + ", " + rhs + " -> " + result +
                     "\n  rt.yield %m : " + result + "\n}\n";
  auto runner = KernelRunner::compile(text, {cpu::hostIsaLevel().name.str()});
  if (!runner)
    std::exit(1);
  double bytes = double((columns + 15) / 16 * 16) * depth * (bf16 ? 2 : 4);
  std::vector<float> x(rows * depth, 1.0f), weight(size_t(bytes / 4), 0.5f), y(rows * columns);
  void *buffers[] = {x.data(), weight.data(), y.data()};
  llmc_kernel_args arguments = {buffers, &rows, nullptr};
  llmc_kernel_fn function = runner->function("k");
  double flops = 2.0 * double(rows) * double(depth) * double(columns);
  double seconds = bestOf(7, [&] { function(&arguments, 0, 1); });
  std::printf("%-5s M %4ld K %5ld N %6ld  %9.3f ms  %6.1f GB/s (%3.0f %% of read)  %6.1f GFLOPS "
              "(%3.0f %% of peak)\n",
              bf16 ? "bf16" : "f32", long(rows), long(depth), long(columns), seconds * 1e3,
              bytes / seconds / 1e9, 100 * bytes / seconds / read, flops / seconds / 1e9,
              100 * flops / seconds / peak);
}

} // namespace
} // namespace llmc::test

int main() {
  using namespace llmc::test;
  for (bool bf16 : {false, true})
    for (auto [rows, depth, columns] : {std::array<int64_t, 3>{1, 768, 50257},
                                        {1, 3072, 16384},
                                        {2, 3072, 16384},
                                        {4, 3072, 16384},
                                        {8, 3072, 4096},
                                        {64, 768, 2304},
                                        {192, 2048, 1152},
                                        {512, 768, 3072},
                                        {512, 3072, 768}}) {
      std::vector<float> memory(size_t(96) << 20, 1.0f);
      double peak = peakFlops(), read = readBytesPerSecond(memory);
      timeMatmul(rows, depth, columns, bf16, peak, read);
    }
  return 0;
}
