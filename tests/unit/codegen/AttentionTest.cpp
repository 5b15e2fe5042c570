// SPDX-License-Identifier: Apache-2.0
//
// Attention against plain f64 loops: decode and prefill, grouped heads, caches
// and tensors, causal bounds, windows, masks, soft caps.
#include "tests/unit/codegen/KernelRunner.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace llmc::test {
namespace {

struct Case {
  const char *name;
  int64_t heads, kvHeads, width, valueWidth;
  bool cached = false, headsLast = false, causal = false;
  int64_t window = 0;
  double softcap = 0;
  enum { NoMask, Added, Boolean } mask = NoMask;
};

// Sizes s0 batch, s1 queries, s2 keys; causal offset is s2 - s1.
constexpr Case kCases[] = {
    {"plain", 3, 3, 32, 32},
    {"grouped", 4, 2, 16, 48, false, true, true},
    {"many_in_group", 14, 2, 64, 64, false, true, true},
    {"one_key_head", 7, 1, 48, 32, false, false, true, 5},
    {"window", 2, 2, 16, 16, false, false, true, 70},
    {"masked", 4, 2, 16, 16, false, false, false, 0, 0, Case::Added},
    {"boolean", 4, 2, 16, 16, false, true, false, 0, 30.0, Case::Boolean},
    {"cached", 4, 4, 64, 64, true, true, true},
    {"cached_group", 8, 2, 128, 128, true, true, true},
    {"cached_window", 6, 2, 32, 32, true, true, true, 33, 50.0},
};

std::string kernelText(const Case &c) {
  auto number = [](int64_t value) { return std::to_string(value); };
  std::string h = number(c.heads), kv = number(c.kvHeads), d = number(c.width),
              dv = number(c.valueWidth), batch = c.cached ? "1" : "s0", b = c.cached ? "1" : "?";
  auto rows = [&](const std::string &size) {
    return c.headsLast ? "tensor<" + b + "x?x" + h + "x" + size + "xf32, #llm.dims<[" + batch +
                             ", s1, " + h + ", " + size + "]>>"
                       : "tensor<" + b + "x" + h + "x?x" + size + "xf32, #llm.dims<[" + batch +
                             ", " + h + ", s1, " + size + "]>>";
  };
  auto keys = [&](const std::string &size) {
    return c.cached ? "!llm.kv<" + kv + " x " + size + " x f32>"
                    : "tensor<?x" + kv + "x?x" + size + "xf32, #llm.dims<[s0, " + kv + ", s2, " +
                          size + "]>>";
  };
  std::string query = rows(d), result = rows(dv);
  std::string mask = "tensor<?x1x?x?x" + std::string(c.mask == Case::Boolean ? "i1" : "f32") +
                     ", #llm.dims<[s0, 1, s1, s2]>>";
  std::string text = "rt.kernel @" + std::string(c.name) +
                     " label \"a\" sizes 3 {\n^bb0(%q: " + query + ", %k: " + keys(d) +
                     ", %v: " + keys(dv) + ", %m: " + mask + "):\n";
  text += "  %r = llm.attention %q, %k, %v";
  if (c.mask != Case::NoMask)
    text += " mask %m";
  text += " scale 0.25";
  if (c.causal)
    text += " causal #llm.dims<[s2 + s1 * -1]>";
  if (c.window)
    text += " window " + number(c.window);
  if (c.softcap > 0)
    text += " softcap " + std::to_string(c.softcap);
  if (c.cached)
    text += " keys #llm.dims<[s2]>";
  if (c.headsLast)
    text += " heads_last";
  text += " : (" + query + ", " + keys(d) + ", " + keys(dv) +
          (c.mask != Case::NoMask ? ", " + mask : "") + ") -> " + result + "\n";
  return text + "  rt.yield %r : " + result + "\n}\n";
}

void check(const KernelRunner &runner, const Case &c, int64_t queries, int64_t keys) {
  std::string where = std::string(c.name) + " with " + std::to_string(queries) + " queries, " +
                      std::to_string(keys) + " keys";
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  auto filled = [&](size_t count) {
    std::vector<float> values(count);
    for (float &value : values)
      value = normal(random);
    return values;
  };
  int64_t batch = c.cached ? 1 : 2;
  std::vector<float> query = filled(batch * c.heads * queries * c.width),
                     key = filled(batch * c.kvHeads * keys * c.width),
                     value = filled(batch * c.kvHeads * keys * c.valueWidth),
                     added = filled(batch * queries * keys);
  std::vector<uint8_t> allowed(batch * queries * keys);
  for (size_t i = 0; i < allowed.size(); ++i) {
    allowed[i] = random() % 3 != 0;
    if (i % 5 == 0)
      added[i] = -std::numeric_limits<float>::infinity();
  }
  for (int64_t j = 0; j < keys && queries > 1; ++j) // a query that sees nothing
    allowed[keys + j] = 0;

  // Blocks of 64 tokens; what is not written is NaN.
  auto blocked = [&](const std::vector<float> &data, int64_t width,
                     std::vector<std::vector<float>> &blocks) {
    blocks.assign((keys + 63) / 64, std::vector<float>(c.kvHeads * 64 * width,
                                                       std::numeric_limits<float>::quiet_NaN()));
    for (int64_t h = 0; h < c.kvHeads; ++h)
      for (int64_t t = 0; t < keys; ++t)
        std::memcpy(&blocks[t / 64][(h * 64 + t % 64) * width], &data[(h * keys + t) * width],
                    width * 4);
    std::vector<void *> pointers;
    for (auto &block : blocks)
      pointers.push_back(block.data());
    return pointers;
  };
  std::vector<std::vector<float>> keyBlocks, valueBlocks;
  std::vector<void *> keyPointers, valuePointers;
  void *k = key.data(), *v = value.data();
  if (c.cached) {
    keyPointers = blocked(key, c.width, keyBlocks);
    valuePointers = blocked(value, c.valueWidth, valueBlocks);
    k = keyPointers.data();
    v = valuePointers.data();
  }
  void *mask = c.mask == Case::Boolean ? static_cast<void *>(allowed.data()) : added.data();

  size_t size = batch * c.heads * queries * c.valueWidth;
  std::vector<float> first;
  for (int64_t workers : {1, 2, 3, 16}) {
    std::vector<float> out(size + 32, 12345.0f);
    ASSERT_EQ(0, runner.run(c.name, {query.data(), k, v, mask, out.data()}, {batch, queries, keys},
                            workers));
    for (size_t i = size; i < out.size(); ++i)
      ASSERT_EQ(out[i], 12345.0f) << where;
    if (workers == 1)
      first = out;
    ASSERT_EQ(0, std::memcmp(first.data(), out.data(), out.size() * 4)) << where << ", " << workers;
  }
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t q = 0; q < queries; ++q) {
        int64_t row =
            c.headsLast ? (b * queries + q) * c.heads + h : (b * c.heads + h) * queries + q;
        int64_t own = b * c.kvHeads + h / (c.heads / c.kvHeads);
        std::vector<double> weights(keys);
        double top = -std::numeric_limits<double>::infinity(), total = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < c.width; ++d)
            score += double(query[row * c.width + d]) * key[(own * keys + j) * c.width + d];
          score *= 0.25;
          if (c.softcap > 0)
            score = c.softcap * std::tanh(score / c.softcap);
          if (c.mask == Case::Added)
            score += added[(b * queries + q) * keys + j];
          int64_t last = q + keys - queries;
          if ((c.mask == Case::Boolean && !allowed[(b * queries + q) * keys + j]) ||
              (c.causal && j > last) || (c.window && j <= last - c.window))
            score = -std::numeric_limits<double>::infinity();
          weights[j] = score;
          top = std::max(top, score);
        }
        for (double &weight : weights) {
          weight = std::isinf(top) ? 0 : std::exp(weight - top);
          total += weight;
        }
        for (int64_t d = 0; d < c.valueWidth; ++d) {
          double want = 0;
          for (int64_t j = 0; j < keys; ++j)
            want += weights[j] * value[(own * keys + j) * c.valueWidth + d];
          want = total > 0 ? want / total : 0;
          ASSERT_NEAR(first[row * c.valueWidth + d], want, 3e-5)
              << where << " at batch " << b << ", head " << h << ", query " << q << ", " << d;
        }
      }
}

TEST(Attention, MatchesPlainLoops) {
  std::string text;
  for (const Case &c : kCases)
    text += kernelText(c);
  for (Level level : testLevels()) {
    auto runner = KernelRunner::compile(text, level);
    ASSERT_TRUE(runner);
    for (const Case &c : kCases) {
      ASSERT_GT(runner->scratchBytes(c.name), 0u) << c.name << " is not a tiled kernel";
      for (auto [queries, keys] : {std::pair<int64_t, int64_t>{0, 5},
                                   {1, 1},
                                   {1, 2},
                                   {1, 64},
                                   {1, 65},
                                   {1, 200},
                                   {2, 7},
                                   {3, 3},
                                   {7, 71},
                                   {64, 64},
                                   {65, 65},
                                   {100, 130}})
        check(*runner, c, queries, keys);
    }
  }
}

TEST(Attention, WithoutKeysGivesZeros) {
  auto runner = KernelRunner::compile(kernelText(kCases[0]), {"avx2"});
  ASSERT_TRUE(runner);
  check(*runner, kCases[0], 3, 0);
}

} // namespace
} // namespace llmc::test
