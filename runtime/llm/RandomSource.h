// SPDX-License-Identifier: Apache-2.0
//
// The random numbers of the sampler: xoshiro256++ (Blackman, Vigna 2019), its
// state filled from the seed by splitmix64. Defined here to the bit, so that a
// seed gives the same numbers on every machine and in every version.
#ifndef LLMC_RUNTIME_LLM_RANDOM_SOURCE_H
#define LLMC_RUNTIME_LLM_RANDOM_SOURCE_H

#include <array>
#include <bit>
#include <cstdint>

namespace llmc {

class RandomSource {
public:
  explicit RandomSource(uint64_t seed) {
    for (uint64_t &word : state) {
      seed += 0x9E3779B97F4A7C15u;
      uint64_t mixed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9u;
      mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
      word = mixed ^ mixed >> 31;
    }
  }
  explicit RandomSource(const std::array<uint64_t, 4> &state) : state(state) {}

  uint64_t next() {
    uint64_t result = std::rotl(state[0] + state[3], 23) + state[0];
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = std::rotl(state[3], 45);
    return result;
  }

  /// In [0, 1), with 53 bits.
  double nextUnit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

private:
  std::array<uint64_t, 4> state;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_RANDOM_SOURCE_H
