// SPDX-License-Identifier: Apache-2.0
//
// Times single kernels beside what the machine can do at the same minute: bytes
// a second against a plain read with as many threads and pages of the same
// size, operations a second against multiply-adds in registers. Only the shares
// mean anything on a shared machine.
#include "tests/unit/codegen/KernelRunner.h"

#include "codegen/cpu/IsaLevel.h"
#include "codegen/cpu/QuantLayout.h"
#include "compiler/ir/llm/QuantizedRows.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sys/mman.h>
#include <thread>

namespace llmc::test {
namespace {

typedef float Lanes __attribute__((vector_size(32)));
constexpr size_t kHugePage = size_t(2) << 20;

/// Zeroed memory in 2 MB pages where the system gives them.
class Memory {
public:
  explicit Memory(size_t bytes, int fill = 0) : size(bytes + 2 * kHugePage) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
      std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
      std::exit(1);
    }
    auto start = (reinterpret_cast<uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage;
    data = reinterpret_cast<char *>(start);
    madvise(data, bytes, MADV_HUGEPAGE);
    std::memset(data, fill, bytes);
  }
  ~Memory() { munmap(base, size); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  char *data = nullptr;

private:
  void *base = nullptr;
  size_t size;
};

/// Threads that spin between calls, as the runtime's do within a token.
class Team {
public:
  explicit Team(int64_t workers) : workers(workers) {
    for (int64_t i = 1; i < workers; ++i)
      threads.emplace_back([this, i] { work(i); });
  }
  ~Team() {
    stop = true;
    phase.fetch_add(1);
    for (std::thread &thread : threads)
      thread.join();
  }

  /// The best of several rounds, in seconds: the others were disturbed.
  double best(int rounds, const std::function<void(int64_t)> &body) {
    double least = 1e30;
    for (int i = 0; i < rounds; ++i) {
      auto start = std::chrono::steady_clock::now();
      task = &body;
      waiting = workers - 1;
      phase.fetch_add(1);
      body(0);
      while (waiting.load() != 0)
        std::this_thread::yield();
      auto end = std::chrono::steady_clock::now();
      least = std::min(least, std::chrono::duration<double>(end - start).count());
    }
    return least;
  }

  const int64_t workers;

private:
  void work(int64_t worker) {
    for (int seen = 0;;) {
      while (phase.load() == seen)
        std::this_thread::yield();
      ++seen;
      if (stop)
        return;
      (*task)(worker);
      waiting.fetch_sub(1);
    }
  }

  std::vector<std::thread> threads;
  std::atomic<int> phase = 0;
  std::atomic<int64_t> waiting = 0;
  std::atomic<bool> stop = false;
  const std::function<void(int64_t)> *task = nullptr;
};

constexpr int kSums = 12;

__attribute__((target("avx2,fma"), noinline)) void multiplyInRegisters(int steps) {
  Lanes sums[kSums] = {}, x = {1.0f, 0.5f}, y = {0.25f, 0.125f};
  __asm__ volatile("" : "+x"(x), "+x"(y));
  for (int i = 0; i < steps; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < kSums; ++j)
      __asm__("vfmadd231ps %1, %2, %0" : "+x"(sums[j]) : "x"(x), "x"(y));
  for (Lanes &sum : sums)
    __asm__ volatile("" : : "x"(sum));
}

/// Reads four quarters side by side, as kernels read weights.
__attribute__((target("avx2"), noinline)) void readStreams(const char *data, size_t quarter) {
  for (size_t i = 0; i < quarter; i += 64)
#pragma clang loop unroll(full)
    for (size_t stream = 0; stream < 4; ++stream) {
      Lanes x, y;
      std::memcpy(&x, &data[stream * quarter + i], 32);
      std::memcpy(&y, &data[stream * quarter + i + 32], 32);
      __asm__ volatile("" : : "x"(x), "x"(y));
    }
}

struct Bounds {
  double operations, bytes; // a second
};

Bounds measureBounds(Team &team, const Memory &memory, size_t bytes, int steps) {
  double flops = 2.0 * 8 * kSums * steps * double(team.workers);
  size_t quarter = bytes / size_t(team.workers) / 4 / 64 * 64;
  return {flops / team.best(3, [&](int64_t) { multiplyInRegisters(steps); }),
          4.0 * double(quarter) * double(team.workers) / team.best(3, [&](int64_t worker) {
            readStreams(memory.data + size_t(worker) * 4 * quarter, quarter);
          })};
}

struct Format {
  const char *name, *element, *layout;
};
constexpr Format kFormats[] = {
    {"f32", "f32", "f32.16"},           {"bf16", "bf16", "b16.16"},
    {"int8", "f32", "q8.16"},           {"int4:g32", "f32", "q4.32.16"},
    {"int4:g64", "f32", "q4.64.16"},    {"int4:g64:asym", "f32", "q4.64.16.z"},
    {"int4x2:g64", "f32", "q4x2.64.16"}};

struct Shape {
  int64_t rows, depth, columns;
};
constexpr Shape kShapes[] = {{1, 768, 50257},   {1, 3072, 16384}, {2, 3072, 16384},
                             {4, 3072, 16384},  {8, 3072, 4096},  {64, 768, 2304},
                             {192, 2048, 1152}, {512, 768, 3072}, {512, 3072, 768}};
/// Only to see that the program works.
constexpr Shape kTinyShapes[] = {{1, 96, 40}, {16, 64, 33}};

bool timeMatmul(Team &team, const Format &format, Shape shape, const Memory &memory, size_t bytes,
                bool tiny) {
  std::string n = std::to_string(shape.columns), k = std::to_string(shape.depth);
  std::optional<cpu::QuantLayout> quantized = cpu::QuantLayout::parse(format.layout);
  int64_t rowBytes = 4 * shape.depth, weightBytes = (shape.columns + 15) / 16 * 16 * shape.depth *
                                                    (std::string(format.element) == "bf16" ? 2 : 4);
  std::string lhs = "tensor<?x" + k + "xf32, #llm.dims<[s0, " + k + "]>>",
              result = "tensor<?x" + n + "xf32, #llm.dims<[s0, " + n + "]>>",
              rhs = "tensor<" + k + "x" + n + "x" + format.element + ", \"" + format.layout + "\">",
              attribute;
  if (quantized) {
    int64_t group = quantized->activationGroup();
    rowBytes = llm::QuantizedRecord{group}.rowBytes(shape.depth);
    weightBytes = quantized->weightBytes(shape.depth, shape.columns);
    std::string bytes = std::to_string(rowBytes);
    lhs = "tensor<?x" + bytes + "xui8, #llm.dims<[s0, " + bytes + "]>>";
    attribute = " quantized " + std::to_string(group);
  }
  std::string text = "rt.kernel @k label \"m\" sizes 1 {\n^bb0(%a: " + lhs + ", %w: " + rhs +
                     "):\n  %m = llm.matmul %a, %w" + attribute + " : " + lhs + ", " + rhs +
                     " -> " + result + "\n  rt.yield %m : " + result + "\n}\n";
  auto runner = KernelRunner::compile(text, {cpu::hostIsaLevel().name.str()});
  if (!runner)
    return false;
  // Bytes that are harmless as numbers of every type.
  Memory weight(size_t(weightBytes), 0x2C), lhsBytes(size_t(shape.rows * rowBytes), 0x2C),
      out(size_t(shape.rows * shape.columns * 4));
  void *buffers[] = {lhsBytes.data, weight.data, out.data};
  std::vector<std::unique_ptr<Memory>> scratch;
  for (int64_t i = 0; i < team.workers; ++i)
    scratch.push_back(std::make_unique<Memory>(runner->scratchBytes("k") + 64));
  llmc_kernel_fn function = runner->function("k");
  if (const char *path = std::getenv("LLMC_BENCH_IMAGE"))
    std::ofstream(path, std::ios::binary) << runner->image();
  // Bounds and kernel in turns, as the machine's speed changes with time.
  double seconds = 1e30;
  Bounds bounds = {0, 0};
  for (int round = 0; round < (tiny ? 1 : 3); ++round) {
    Bounds now = measureBounds(team, memory, bytes, tiny ? 1000 : 1000000);
    bounds = {std::max(bounds.operations, now.operations), std::max(bounds.bytes, now.bytes)};
    seconds = std::min(seconds, team.best(tiny ? 1 : 5, [&](int64_t worker) {
      llmc_kernel_args arguments = {buffers, &shape.rows, scratch[size_t(worker)]->data};
      function(&arguments, worker, team.workers);
    }));
  }
  double flops = 2.0 * double(shape.rows) * double(shape.depth) * double(shape.columns) / seconds,
         rate = double(weightBytes) / seconds;
  std::printf("%-13s %ld thr  M %4ld K %5ld N %6ld  %9.3f ms  %6.1f GB/s (%3.0f %% of read)  %6.1f "
              "GOPS (%3.0f %% of f32 peak)\n",
              format.name, long(team.workers), long(shape.rows), long(shape.depth),
              long(shape.columns), seconds * 1e3, rate / 1e9, 100 * rate / bounds.bytes,
              flops / 1e9, 100 * flops / bounds.operations);
  return true;
}

/// `llmc_kernel_bench [--tiny] [FORMAT...] [M=ROWS] [K=DEPTH] [N=COLUMNS]`. The machine code of the
/// last kernel goes to the file LLMC_BENCH_IMAGE.
int bench(int count, char **arguments) {
  bool tiny = false;
  std::vector<std::string> names;
  Shape only = {0, 4096, 16384};
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i];
    if (argument == "--tiny")
      tiny = true;
    else if (argument.rfind("M=", 0) == 0)
      only.rows = std::atol(argument.c_str() + 2);
    else if (argument.rfind("K=", 0) == 0)
      only.depth = std::atol(argument.c_str() + 2);
    else if (argument.rfind("N=", 0) == 0)
      only.columns = std::atol(argument.c_str() + 2);
    else
      names.push_back(argument);
  }
  llvm::ArrayRef<Shape> shapes = only.rows > 0 ? llvm::ArrayRef<Shape>(only)
                                 : tiny        ? llvm::ArrayRef<Shape>(kTinyShapes)
                                               : kShapes;
  size_t bytes = tiny ? size_t(1) << 20 : size_t(384) << 20;
  Memory memory(bytes, 1);
  int64_t most = std::max<int64_t>(1, std::min<int64_t>(2, std::thread::hardware_concurrency()));
  for (int64_t workers = 1; workers <= most; ++workers) {
    Team team(workers);
    for (const Format &format : kFormats) {
      if (!names.empty() && std::find(names.begin(), names.end(), format.name) == names.end())
        continue;
      for (Shape shape : shapes)
        if (!timeMatmul(team, format, shape, memory, bytes, tiny))
          return 1;
    }
  }
  return 0;
}

} // namespace
} // namespace llmc::test

int main(int count, char **arguments) { return llmc::test::bench(count, arguments); }
