// SPDX-License-Identifier: Apache-2.0
//
// The sampler against a plain reference that sorts, in f64 with the library's
// exp; and against fixed numbers, since a seed must mean the same for ever.
#include "runtime/llm/Sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace llmc {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler makeSampler(const SamplingOptions &options, size_t size) {
  auto sampler = Sampler::create(options, size);
  EXPECT_TRUE(sampler.isOk()) << sampler.status().message();
  return *sampler;
}

/// Probabilities after all filters, sorting as transformers does. `margin` becomes the least
/// distance of a decision from its threshold.
std::vector<double> reference(const std::vector<float> &logits, const std::vector<uint32_t> &seen,
                              const SamplingOptions &o, double &margin) {
  size_t n = logits.size();
  std::vector<double> scores(logits.begin(), logits.end());
  for (uint32_t id : seen)
    scores[id] =
        scores[id] < 0 ? scores[id] * o.repetitionPenalty : scores[id] / o.repetitionPenalty;
  for (double &score : scores)
    score /= o.temperature;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  std::vector<bool> keeps(n, true);
  if (o.topK > 0 && o.topK < n)
    for (size_t i = 0; i < n; ++i)
      keeps[i] = scores[i] >= scores[order[o.topK - 1]];
  double best = scores[order[0]];
  auto weights = [&] {
    std::vector<double> w(n);
    for (size_t i = 0; i < n; ++i)
      w[i] = keeps[i] ? std::exp(scores[i] - best) : 0;
    double sum = std::accumulate(w.begin(), w.end(), 0.0);
    for (double &value : w)
      value /= sum;
    return w;
  };
  margin = 1;
  if (o.topP < 1) {
    std::vector<double> w = weights();
    double below = 0;
    for (size_t i = n; i-- > 1;) {
      below += w[order[i]];
      if (!keeps[order[i]])
        continue;
      margin = std::min(margin, std::abs(below - (1 - double(o.topP))));
      if (below <= 1 - double(o.topP))
        keeps[order[i]] = false;
    }
  }
  if (o.minP > 0) {
    std::vector<double> w = weights();
    for (size_t i = 0; i < n; ++i) {
      if (!keeps[i])
        continue;
      double least = o.minP * w[order[0]];
      margin = std::min(margin, std::abs(w[i] - least) / w[order[0]]);
      keeps[i] = w[i] >= least;
    }
  }
  return weights();
}

TEST(RandomSource, IsXoshiro256PlusPlus) {
  RandomSource known(std::array<uint64_t, 4>{1, 2, 3, 4});
  for (uint64_t expected : {41943041ull, 58720359ull, 3588806011781223ull, 3591011842654386ull,
                            9228616714210784205ull, 9973669472204895162ull})
    EXPECT_EQ(known.next(), expected);
  // splitmix64 of 1234567 begins with these four.
  RandomSource seeded(1234567);
  RandomSource same(std::array<uint64_t, 4>{6457827717110365317ull, 3203168211198807973ull,
                                            9817491932198370423ull, 4593380528125082431ull});
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(seeded.next(), same.next());
}

TEST(Sampler, GreedyTakesTheLowestOfEqualLogits) {
  Sampler sampler = makeSampler({}, 5);
  EXPECT_EQ(*sampler.sample(std::vector<float>{1, 3, -2, 3, 0}), 1u);
  EXPECT_EQ(*sampler.sample(std::vector<float>{-0.0f, 0.0f, -1, -1, -1}), 0u);
  EXPECT_EQ(*sampler.sample(std::vector<float>{-5, -4, -3, -kInfinity, -3}), 2u);
  EXPECT_EQ(*sampler.sample(std::vector<float>{1, kInfinity, 2, kInfinity, 3e38f}), 1u);
  SamplingOptions cold;
  cold.isGreedy = false;
  cold.temperature = 0;
  Sampler other = makeSampler(cold, 3);
  EXPECT_EQ(*other.sample(std::vector<float>{1, 2, 1.5}), 1u);
}

TEST(Sampler, RefusesLogitsWithoutAMeaning) {
  for (bool isGreedy : {true, false}) {
    SamplingOptions options;
    options.isGreedy = isGreedy;
    Sampler sampler = makeSampler(options, 3);
    for (const std::vector<float> &logits : {std::vector<float>{1, kNan, 2},
                                             {1, -kNan, 2},
                                             {kNan, kNan, kNan},
                                             {1, 2},
                                             {1, 2, 3, 4},
                                             {-kInfinity, -kInfinity, -kInfinity}}) {
      auto id = sampler.sample(logits);
      ASSERT_FALSE(id.isOk());
      EXPECT_EQ(id.status().code(), Code::InvalidArgument);
    }
    EXPECT_TRUE(sampler.sample(std::vector<float>{1, 2, -kInfinity}).isOk());
  }
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  auto refuses = [](auto change, const char *name) {
    SamplingOptions options;
    change(options);
    auto sampler = Sampler::create(options, 10);
    ASSERT_FALSE(sampler.isOk()) << name;
    EXPECT_NE(sampler.status().message().find(name), std::string::npos);
  };
  refuses([](auto &o) { o.temperature = -1; }, "temperature");
  refuses([](auto &o) { o.temperature = kNan; }, "temperature");
  refuses([](auto &o) { o.temperature = kInfinity; }, "temperature");
  refuses([](auto &o) { o.topP = 1.5; }, "top_p");
  refuses([](auto &o) { o.topP = kNan; }, "top_p");
  refuses([](auto &o) { o.minP = -0.1f; }, "min_p");
  refuses([](auto &o) { o.repetitionPenalty = 0; }, "repetition_penalty");
  EXPECT_FALSE(Sampler::create({}, 0).isOk());
}

TEST(Sampler, PenalizesWhatTheTextHas) {
  SamplingOptions options;
  options.repetitionPenalty = 2;
  Sampler sampler = makeSampler(options, 4);
  std::vector<float> logits = {4, 3, -1, 1.5};
  sampler.observe(std::vector<uint32_t>{0, 0, 99}); // unknown ids do nothing
  EXPECT_EQ(*sampler.sample(logits), 1u);           // 2 3 -1 1.5
  EXPECT_EQ(*sampler.sample(logits), 0u);           // 2 1.5 -1 1.5: its own choice counts
  EXPECT_EQ(logits[0], 4);
}

TEST(Sampler, DrawsAsTheReferenceForEveryFilter) {
  RandomSource random(7);
  int compared = 0;
  for (int round = 0; round < 400; ++round) {
    size_t n = 1 + random.next() % 200;
    SamplingOptions options;
    options.isGreedy = false;
    options.seed = random.next();
    options.temperature = static_cast<float>(0.2 + 2 * random.nextUnit());
    options.topK = random.next() % 2 ? static_cast<uint32_t>(random.next() % (n + 3)) : 0;
    options.topP = random.next() % 2 ? static_cast<float>(random.nextUnit()) : 1;
    options.minP = random.next() % 2 ? static_cast<float>(random.nextUnit() * 0.3) : 0;
    options.repetitionPenalty = random.next() % 2 ? 1.3f : 1;
    std::vector<float> logits(n);
    for (float &logit : logits) {
      // Steps of a quarter give ties.
      logit = static_cast<float>(random.nextUnit() * 12 - 6);
      logit = round % 2 ? logit : std::round(logit * 4) / 4;
    }
    std::vector<uint32_t> seen;
    for (int i = 0; i < 5; ++i)
      if (uint32_t id = random.next() % n; std::find(seen.begin(), seen.end(), id) == seen.end())
        seen.push_back(id);
    double margin = 0;
    std::vector<double> expected = reference(logits, seen, options, margin);
    if (margin < 1e-6)
      continue;
    Sampler sampler = makeSampler(options, n);
    sampler.observe(seen);
    RandomSource same(options.seed);
    // The token whose share of the unit interval, in the order of ids, holds the drawn number.
    double unit = same.nextUnit(), sum = 0;
    size_t token = 0;
    double distance = 1;
    while (token + 1 < n && sum + expected[token] <= unit) {
      sum += expected[token++];
      distance = std::min(distance, std::abs(sum - unit));
    }
    distance = std::min(distance, std::abs(sum + expected[token] - unit));
    if (distance < 1e-6)
      continue;
    auto id = sampler.sample(logits);
    ASSERT_TRUE(id.isOk());
    ASSERT_EQ(*id, token) << "round " << round << ", " << n << " logits, top_k " << options.topK
                          << ", top_p " << options.topP << ", min_p " << options.minP;
    ++compared;
  }
  EXPECT_GT(compared, 350);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheReference) {
  SamplingOptions options;
  options.isGreedy = false;
  options.temperature = 0.8f;
  options.topP = 0.9f;
  std::vector<float> logits = {0.5f, 2, -1, 1.9f, 0, -3, 1};
  double margin = 0;
  std::vector<double> expected = reference(logits, {}, options, margin);
  Sampler sampler = makeSampler(options, logits.size());
  constexpr int kDraws = 50000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i)
    ++counts[*sampler.sample(logits)];
  for (size_t i = 0; i < logits.size(); ++i) {
    double deviation = std::sqrt(expected[i] * (1 - expected[i]) / kDraws);
    EXPECT_NEAR(counts[i] / double(kDraws), expected[i], 5 * deviation) << i;
  }
}

TEST(Sampler, KeepsTheEdgeCasesOfTheFilters) {
  std::vector<float> equal(6, 1.0f);
  SamplingOptions options;
  options.isGreedy = false;
  auto tokensOf = [&](const std::vector<float> &logits) {
    Sampler sampler = makeSampler(options, logits.size());
    std::map<uint32_t, int> seen;
    for (int i = 0; i < 2000; ++i)
      ++seen[*sampler.sample(logits)];
    std::vector<uint32_t> ids;
    for (auto [id, count] : seen)
      ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<uint32_t>;
  options.topP = 0; // at least one, and of equal ones the first
  EXPECT_EQ(tokensOf(equal), (Ids{0}));
  options.topP = 0.51f; // 4 of 6 reach it
  EXPECT_EQ(tokensOf(equal), (Ids{0, 1, 2, 3}));
  options.topP = 1;
  options.topK = 2; // all tie with the second
  EXPECT_EQ(tokensOf(equal), (Ids{0, 1, 2, 3, 4, 5}));
  options.topK = 1;
  EXPECT_EQ(tokensOf({0, 3, 1, 3, 2}), (Ids{1, 3}));
  options.topK = 0;
  options.minP = 1;
  EXPECT_EQ(tokensOf({0, 3, 1, 3, 2}), (Ids{1, 3}));
  options.minP = 0;
  EXPECT_EQ(tokensOf({0, kInfinity, 1, kInfinity, 3e38f}), (Ids{1, 3}));
  EXPECT_EQ(tokensOf({-kInfinity, 0, -kInfinity, -1}), (Ids{1, 3}));
  options.temperature = 1e-30f;
  EXPECT_EQ(tokensOf({1, 1.0001f, 0.5f}), (Ids{1}));
}

TEST(Sampler, IsLinearInALargeVocabulary) {
  std::vector<float> logits(151936);
  RandomSource random(5);
  for (float &logit : logits)
    logit = static_cast<float>(random.nextUnit() * 20 - 10);
  SamplingOptions options;
  options.isGreedy = false;
  options.topP = 0.9f;
  for (uint32_t topK : {0u, 50u}) {
    options.topK = topK;
    Sampler sampler = makeSampler(options, logits.size());
    double best = 1e9;
    for (int i = 0; i < 10; ++i) {
      auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(sampler.sample(logits).isOk());
      std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
    }
    std::cout << "top_k " << topK << ", top_p 0.9: " << best << " ms for " << logits.size()
              << " logits\n";
    EXPECT_LT(best,
              100); // measured far below; a sorting or quadratic one is above in a debug build
  }
}

TEST(Sampler, GivesTheSameTokensForASeedForEver) {
  SamplingOptions options;
  options.isGreedy = false;
  options.temperature = 0.9f;
  options.topK = 40;
  options.topP = 0.95f;
  options.minP = 0.01f;
  options.repetitionPenalty = 1.1f;
  options.seed = 42;
  Sampler sampler = makeSampler(options, 1000);
  std::vector<uint32_t> ids;
  RandomSource random(1);
  std::vector<float> logits(1000);
  for (int i = 0; i < 16; ++i) {
    for (float &logit : logits)
      logit = static_cast<float>(random.nextUnit() * 10);
    ids.push_back(*sampler.sample(logits));
  }
  // These are also what transformers' own logits processors give for these numbers.
  EXPECT_EQ(ids, (std::vector<uint32_t>{835, 285, 978, 738, 809, 628, 76, 588, 211, 919, 418, 813,
                                        661, 75, 295, 457}));
}

} // namespace
} // namespace llmc
