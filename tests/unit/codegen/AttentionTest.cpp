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
  const char *element = "f32"; // of a cache
  bool columns = false;        // of cached keys
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
    {"columns", 4, 4, 64, 64, true, true, true, 0, 0, Case::NoMask, "f32", true},
    {"columns_group", 14, 2, 32, 64, true, true, true, 0, 0, Case::NoMask, "f32", true},
    {"half", 4, 2, 64, 64, true, true, true, 0, 0, Case::NoMask, "f16"},
    {"half_columns", 6, 2, 128, 128, true, true, true, 0, 0, Case::NoMask, "f16", true},
    {"brain", 4, 1, 64, 32, true, true, true, 0, 0, Case::NoMask, "bf16"},
    {"brain_columns", 3, 3, 48, 48, true, true, true, 70, 0, Case::NoMask, "bf16", true},
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
  auto keys = [&](const std::string &size, bool columns) {
    return c.cached ? "!llm.kv<" + kv + " x " + size + " x " + c.element +
                          (columns ? ", columns = true>" : ">")
                    : "tensor<?x" + kv + "x?x" + size + "xf32, #llm.dims<[s0, " + kv + ", s2, " +
                          size + "]>>";
  };
  std::string query = rows(d), result = rows(dv);
  std::string mask = "tensor<?x1x?x?x" + std::string(c.mask == Case::Boolean ? "i1" : "f32") +
                     ", #llm.dims<[s0, 1, s1, s2]>>";
  std::string text = "rt.kernel @" + std::string(c.name) +
                     " label \"a\" sizes 3 {\n^bb0(%q: " + query + ", %k: " + keys(d, c.columns) +
                     ", %v: " + keys(dv, false) + ", %m: " + mask + "):\n";
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
  text += " : (" + query + ", " + keys(d, c.columns) + ", " + keys(dv, false) +
          (c.mask != Case::NoMask ? ", " + mask : "") + ") -> " + result + "\n";
  return text + "  rt.yield %r : " + result + "\n}\n";
}

/// Rounds values to bf16, which f16 holds too as far as the tolerance goes.
void roundToBf16(std::vector<float> &values) {
  for (float &value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x8000) & 0xFFFF0000u;
    std::memcpy(&value, &bits, 4);
  }
}

size_t bytesOf(const std::string &element) { return element == "f32" ? 4 : 2; }

void storeAs(const std::string &element, float value, char *to) {
  if (element == "f32") {
    std::memcpy(to, &value, 4);
  } else if (element == "f16") {
    auto half = _Float16(value);
    std::memcpy(to, &half, 2);
  } else {
    std::memcpy(to, reinterpret_cast<const char *>(&value) + 2, 2);
  }
}

/// Byte of element `d` of token `t` of head `h` in a block of 64 tokens.
size_t placeInBlock(const Case &c, int64_t width, bool columns, int64_t h, int64_t t, int64_t d) {
  int64_t index = columns ? (h * width + d) * 64 + t : (h * 64 + t) * width + d;
  return size_t(index) * bytesOf(c.element);
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

  if (std::string(c.element) != "f32") {
    roundToBf16(key);
    roundToBf16(value);
  }
  // Blocks of 64 tokens; what is not written is NaN.
  auto blocked = [&](const std::vector<float> &data, int64_t width, bool columns,
                     std::vector<std::vector<char>> &blocks) {
    blocks.assign((keys + 63) / 64,
                  std::vector<char>(c.kvHeads * 64 * width * bytesOf(c.element), char(0xFF)));
    for (int64_t h = 0; h < c.kvHeads; ++h)
      for (int64_t t = 0; t < keys; ++t)
        for (int64_t d = 0; d < width; ++d)
          storeAs(c.element, data[(h * keys + t) * width + d],
                  &blocks[t / 64][placeInBlock(c, width, columns, h, t % 64, d)]);
    std::vector<void *> pointers;
    for (auto &block : blocks)
      pointers.push_back(block.data());
    return pointers;
  };
  std::vector<std::vector<char>> keyBlocks, valueBlocks;
  std::vector<void *> keyPointers, valuePointers;
  void *k = key.data(), *v = value.data();
  if (c.cached) {
    keyPointers = blocked(key, c.width, c.columns, keyBlocks);
    valuePointers = blocked(value, c.valueWidth, false, valueBlocks);
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

TEST(KvAppend, WritesEveryLayout) {
  for (const char *element : {"f32", "f16", "bf16"})
    for (bool columns : {false, true})
      for (bool headsLast : {false, true}) {
        Case c{"k", 3, 3, 20, 20};
        c.element = element;
        std::string input = headsLast ? "tensor<1x?x3x20xf32, #llm.dims<[1, s0, 3, 20]>>"
                                      : "tensor<1x3x?x20xf32, #llm.dims<[1, 3, s0, 20]>>";
        std::string cache =
            "!llm.kv<3 x 20 x " + std::string(element) + (columns ? ", columns = true>" : ">");
        auto runner = KernelRunner::compile(
            "rt.kernel @k label \"a\" sizes 2 {\n^bb0(%c: " + cache + ", %x: " + input +
                "):\n  llm.kv_append %c, %x past <[s1]>" + (headsLast ? " heads_last" : "") +
                " : " + cache + ", " + input + "\n  rt.yield\n}\n",
            {"avx2"});
        ASSERT_TRUE(runner);
        constexpr int64_t kTokens = 70, kPast = 61;
        std::vector<float> data(kTokens * 3 * 20);
        for (size_t i = 0; i < data.size(); ++i)
          data[i] = float(i % 251) - 125; // exact in bf16
        std::vector<std::vector<char>> blocks(3, std::vector<char>(3 * 64 * 20 * 4, char(0x77)));
        std::vector<std::vector<char>> want = blocks;
        void *table[3];
        for (int i = 0; i < 3; ++i)
          table[i] = blocks[size_t(i)].data();
        for (int64_t t = 0; t < kTokens; ++t)
          for (int64_t h = 0; h < 3; ++h)
            for (int64_t d = 0; d < 20; ++d)
              storeAs(
                  element, data[((headsLast ? t * 3 + h : h * kTokens + t)) * 20 + d],
                  &want[(kPast + t) / 64][placeInBlock(c, 20, columns, h, (kPast + t) % 64, d)]);
        for (int64_t workers : {1, 3})
          ASSERT_EQ(0, runner->run("k", {table, data.data()}, {kTokens, kPast}, workers));
        ASSERT_EQ(blocks, want) << element << columns << headsLast;
      }
}

TEST(Attention, WithoutKeysGivesZeros) {
  auto runner = KernelRunner::compile(kernelText(kCases[0]), {"avx2"});
  ASSERT_TRUE(runner);
  check(*runner, kCases[0], 3, 0);
}

} // namespace
} // namespace llmc::test
