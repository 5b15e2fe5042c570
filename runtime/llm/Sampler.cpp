// SPDX-License-Identifier: Apache-2.0
//
// Filters are thresholds found by radix selection over the logits' bits: linear
// in the vocabulary, no sorting, no dependence on a library's selection order.
// Compiled without contraction of a * b + c, which would change the last bit.
#include "runtime/llm/Sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace llmc {

namespace {

/// Unsigned integers that order as the floats do; -0 and 0 become one. NaNs lie outside
/// [key(-inf), key(inf)].
uint32_t keyOf(float value) {
  auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}

constexpr int kExpTerms = 14;
constexpr std::array<double, kExpTerms> kInverseFactorials = [] {
  std::array<double, kExpTerms> inverses{};
  double factorial = 1;
  for (int i = 0; i < kExpTerms; ++i) {
    factorial *= i > 0 ? i : 1;
    inverses[i] = 1 / factorial;
  }
  return inverses;
}();

/// exp(x) for x <= 0, within 2 units in the last place; 0 below 2^-1000. No branches and no calls,
/// so that the compiler computes several at once.
double expOfNegative(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fefa0000p-1; // times an n of 11 bits: exact
  constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
  constexpr double kLeast = -693;
  // Adding this rounds to an integer, which then stands in the low bits of the sum.
  constexpr double kRound = 0x1.8p52;
  double clamped = x > kLeast ? x : kLeast;
  double rounded = clamped * kLog2E + kRound;
  double n = rounded - kRound;
  double r = clamped - n * kLn2High - n * kLn2Low;
  // |r| <= ln 2 / 2: the Taylor series to r^13 / 13! errs by less than 1e-17.
  double sum = 0;
  for (int i = kExpTerms; i-- > 0;)
    sum = sum * r + kInverseFactorials[i];
  double powerOfTwo = std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) + 1023) << 52);
  return x > kLeast ? sum * powerOfTwo : 0;
}

// Three digits of a key, most significant first.
struct Digit {
  int shift;
  uint32_t mask;
};
constexpr Digit kDigits[] = {{21, 0x7FF}, {10, 0x7FF}, {0, 0x3FF}};
constexpr size_t kBins = 0x800;

/// The key of rank `count` (from 1) counted from the greatest.
uint32_t keyOfRank(std::span<const float> logits, size_t count) {
  std::array<uint32_t, kBins> bins;
  uint32_t prefix = 0, fixed = 0;
  for (Digit digit : kDigits) {
    bins.fill(0);
    for (float logit : logits) {
      uint32_t key = keyOf(logit);
      if ((key & fixed) == prefix)
        ++bins[key >> digit.shift & digit.mask];
    }
    uint32_t bin = digit.mask;
    while (bins[bin] < count)
      count -= bins[bin--];
    prefix |= bin << digit.shift;
    fixed |= digit.mask << digit.shift;
  }
  return prefix;
}

} // namespace

Status SamplingOptions::check() const {
  struct Range {
    const char *name;
    double value;
    bool isInside;
    const char *expected;
  };
  const Range ranges[] = {
      {"repetition_penalty", repetitionPenalty,
       repetitionPenalty > 0 && std::isfinite(repetitionPenalty), "a number above 0"},
      {"temperature", temperature, temperature >= 0 && std::isfinite(temperature),
       "a number of at least 0"},
      {"top_p", topP, topP >= 0 && topP <= 1, "a number from 0 to 1"},
      {"min_p", minP, minP >= 0 && minP <= 1, "a number from 0 to 1"},
  };
  for (const Range &range : ranges)
    if (!range.isInside)
      return Status::error(Code::InvalidArgument, "{} is {}, expected {}", range.name, range.value,
                           range.expected);
  return Status::ok();
}

Result<Sampler> Sampler::create(const SamplingOptions &options, size_t vocabularySize) {
  LLMC_TRY(options.check());
  if (vocabularySize == 0 || vocabularySize > UINT32_MAX)
    return Status::error(Code::InvalidArgument, "a vocabulary of {} tokens cannot be sampled",
                         vocabularySize);
  return Sampler(options, vocabularySize);
}

Sampler::Sampler(const SamplingOptions &options, size_t vocabularySize)
    : options(options), random(options.seed), isSeen(vocabularySize) {
  if (options.temperature == 0)
    this->options.isGreedy = true;
}

void Sampler::observe(std::span<const uint32_t> ids) {
  for (uint32_t id : ids) {
    if (id >= isSeen.size() || isSeen[id])
      continue;
    isSeen[id] = true;
    seenIds.push_back(id);
  }
}

Result<uint32_t> Sampler::sample(std::span<const float> logits) {
  if (logits.size() != isSeen.size())
    return Status::error(Code::InvalidArgument, "{} logits, expected {}", logits.size(),
                         isSeen.size());
  logits = penalize(logits);
  uint32_t lowest = UINT32_MAX, highest = 0;
  for (float logit : logits) {
    uint32_t key = keyOf(logit);
    lowest = std::min(lowest, key);
    highest = std::max(highest, key);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (lowest < keyOf(-kInfinity) || highest > keyOf(kInfinity))
    return Status::error(Code::InvalidArgument, "a logit is not a number");
  if (highest == keyOf(-kInfinity))
    return Status::error(Code::InvalidArgument, "all logits are -infinity");
  auto best = std::find_if(logits.begin(), logits.end(),
                           [&](float logit) { return keyOf(logit) == highest; });
  auto id = static_cast<uint32_t>(best - logits.begin());
  if (!options.isGreedy) {
    collectCandidates(logits, *best);
    if (options.topP < 1)
      keepTopP();
    if (options.minP > 0)
      keepMinP();
    id = draw();
  }
  observe({&id, 1});
  return id;
}

std::span<const float> Sampler::penalize(std::span<const float> logits) {
  if (options.repetitionPenalty == 1 || seenIds.empty())
    return logits;
  penalized.assign(logits.begin(), logits.end());
  for (uint32_t id : seenIds) {
    float &logit = penalized[id];
    logit = logit < 0 ? logit * options.repetitionPenalty : logit / options.repetitionPenalty;
  }
  return penalized;
}

void Sampler::collectCandidates(std::span<const float> logits, float greatest) {
  uint32_t threshold = 0;
  if (options.topK > 0 && options.topK < logits.size())
    threshold = keyOfRank(logits, options.topK);
  candidates.clear();
  candidates.reserve(logits.size());
  for (size_t id = 0; id < logits.size(); ++id)
    if (uint32_t key = keyOf(logits[id]); key >= threshold)
      candidates.push_back({key, static_cast<uint32_t>(id), 0});

  constexpr size_t kBlock = 64;
  std::array<double, kBlock> weights;
  for (size_t begin = 0; begin < candidates.size(); begin += kBlock) {
    std::span<Candidate> block(&candidates[begin], std::min(kBlock, candidates.size() - begin));
    for (size_t i = 0; i < block.size(); ++i) {
      float logit = logits[block[i].id];
      // inf - inf is no distance: infinite logits share the whole probability.
      weights[i] =
          logit == greatest ? 0 : (static_cast<double>(logit) - greatest) / options.temperature;
    }
    for (double &weight : std::span(weights.data(), block.size()))
      weight = expOfNegative(weight);
    for (size_t i = 0; i < block.size(); ++i)
      block[i].weight = weights[i];
  }
}

/// A token goes if its own and all smaller probabilities together are at most 1 - p.
void Sampler::keepTopP() {
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += candidate.weight;
  double cut = (1 - static_cast<double>(options.topP)) * total;

  // Finds the lowest key that stays; `below` is the mass under it.
  std::array<double, kBins> bins;
  double below = 0;
  uint32_t prefix = 0, fixed = 0;
  for (Digit digit : kDigits) {
    bins.fill(0);
    uint32_t last = 0; // the greatest digit present
    for (const Candidate &candidate : candidates) {
      if ((candidate.key & fixed) != prefix)
        continue;
      uint32_t bin = candidate.key >> digit.shift & digit.mask;
      bins[bin] += candidate.weight;
      last = std::max(last, bin);
    }
    uint32_t bin = 0;
    while (bin < last && below + bins[bin] <= cut)
      below += bins[bin++];
    prefix |= bin << digit.shift;
    fixed |= digit.mask << digit.shift;
  }
  // Of the tokens with that key the later ones go first, and one stays.
  size_t equal = 0;
  double weight = 0;
  for (const Candidate &candidate : candidates)
    if (candidate.key == prefix) {
      ++equal;
      weight = candidate.weight;
    }
  while (equal > 1 && below + weight <= cut) {
    below += weight;
    --equal;
  }
  std::erase_if(candidates, [&](const Candidate &candidate) {
    if (candidate.key != prefix)
      return candidate.key < prefix;
    return equal == 0 || equal-- == 0;
  });
}

void Sampler::keepMinP() {
  double least = options.minP;
  std::erase_if(candidates, [&](const Candidate &candidate) { return candidate.weight < least; });
}

uint32_t Sampler::draw() {
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += candidate.weight;
  double target = random.nextUnit() * total;
  uint32_t last = candidates.front().id;
  double sum = 0;
  for (const Candidate &candidate : candidates) {
    if (candidate.weight == 0)
      continue;
    sum += candidate.weight;
    last = candidate.id;
    if (sum > target)
      break;
  }
  return last;
}

} // namespace llmc
