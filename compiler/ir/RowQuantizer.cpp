// SPDX-License-Identifier: Apache-2.0
//
// Groups are searched in vectors of eight lanes, whatever the machine has: the
// lanes are part of the result, as they fix the order of sums. The same source
// is compiled for AVX2 and for the baseline. Built with -ffp-contract=off.
#include "compiler/ir/RowQuantizer.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// Vectors never cross a call: everything that takes one is inlined.
#define LLMC_INLINE inline __attribute__((always_inline))

namespace llmc {
namespace {

using Kind = WeightFormat::Kind;
typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t IntLanes __attribute__((vector_size(32)));
constexpr uint64_t kLanes = 8;

/// Adding and subtracting this rounds a float of small magnitude to the nearest integer, ties to
/// even.
constexpr float kRounder = 12582912.0f;
/// Smaller values are zero to a quantizer: their reciprocals would overflow.
constexpr float kSmallest = 1e-36f;
/// The squares of larger ones would overflow.
constexpr float kLargest = 1e18f;
constexpr uint64_t kMaxGroup = 128;

/// Steps from zero to the largest magnitude of a group. 8 clips nothing on the side that has 8
/// steps; more clip the largest values for finer steps.
constexpr float kSteps4[] = {6.6f, 7.0f, 7.4f,  7.8f,  8.2f,  8.6f,
                             9.0f, 9.5f, 10.0f, 10.6f, 11.4f, 12.5f};
constexpr float kSteps8[] = {127, 131, 136, 142, 150, 162, 180, 210};
/// The part of a group's range that is not clipped when zero points are free.
constexpr float kRanges[] = {1.06f, 1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.64f, 0.58f};
/// The column scale of int4x2 as a part of the one that lets no group's multiplier exceed 15.
constexpr float kColumnParts[] = {1.0f, 0.94f, 0.88f, 0.82f, 0.76f, 0.7f};

struct Sums {
  float valuesByLevels = 0, levelsSquared = 0; ///< levels: quantized values without zero points
};

LLMC_INLINE Lanes loadLanes(const float *from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
LLMC_INLINE float sumOf(const Lanes &lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}
LLMC_INLINE Lanes level(const Lanes &value, float steps, float low, float high) {
  Lanes q = (value * steps + kRounder) - kRounder;
  q = q < low ? Lanes{} + low : q;
  return q > high ? Lanes{} + high : q;
}

/// `count` is a multiple of kLanes in all of these.
LLMC_INLINE float largest(const float *values, uint64_t count, bool &finite) {
  Lanes most{}, check{};
  for (uint64_t i = 0; i < count; i += kLanes) {
    Lanes v = loadLanes(values + i);
    check += v * 0.0f;
    v = v < 0.0f ? -v : v;
    most = v > most ? v : most;
  }
  finite = sumOf(check) == 0.0f;
  float result = 0;
  for (uint64_t i = 0; i < kLanes; ++i)
    result = std::max(result, most[i]);
  return result;
}

LLMC_INLINE Sums sumsAt(const float *values, uint64_t count, float steps, float low, float high) {
  Lanes products{}, squares{};
  for (uint64_t i = 0; i < count; i += kLanes) {
    Lanes v = loadLanes(values + i), q = level(v, steps, low, high);
    products += v * q;
    squares += q * q;
  }
  return {sumOf(products), sumOf(squares)};
}

/// How much of the values' squares the best scale for these levels explains.
LLMC_INLINE float explained(const Sums &sums) {
  return sums.valuesByLevels > 0 ? sums.valuesByLevels * (sums.valuesByLevels / sums.levelsSquared)
                                 : 0;
}

/// The squared error of levels at a scale.
LLMC_INLINE float errorAt(const float *values, uint64_t count, float scale, float low, float high) {
  float steps = 1.0f / scale;
  Lanes error{};
  for (uint64_t i = 0; i < count; i += kLanes) {
    Lanes v = loadLanes(values + i), d = v - level(v, steps, low, high) * scale;
    error += d * d;
  }
  return sumOf(error);
}

/// Writes levels plus `zero` as bytes, and adds to what the row reports.
LLMC_INLINE void writeLevels(const float *values, uint64_t count, float scale, float low,
                             float high, float zero, uint8_t *out, RowResult &result) {
  float steps = scale != 0 ? 1.0f / scale : 0.0f;
  Lanes error{}, norm{};
  for (uint64_t i = 0; i < count; i += kLanes) {
    Lanes v = loadLanes(values + i), q = level(v, steps, low, high), d = v - q * scale;
    error += d * d;
    norm += v * v;
    IntLanes bytes = __builtin_convertvector(q + zero, IntLanes);
    for (uint64_t l = 0; l < std::min(kLanes, count - i); ++l)
      out[i + l] = uint8_t(bytes[l]);
  }
  result.error += double(sumOf(error));
  result.norm += double(sumOf(norm));
}

/// The nearest f16, as a float; infinite beyond f16's largest.
float roundToHalf(float value) {
  auto bits = llvm::bit_cast<uint32_t>(value);
  uint32_t sign = bits & 0x80000000u, magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) { // subnormal as a half: steps of 2^-24
    float rounded = (llvm::bit_cast<float>(magnitude) + 0.5f) - 0.5f;
    return llvm::bit_cast<float>(llvm::bit_cast<uint32_t>(rounded) | sign);
  }
  magnitude += 0xfffu + (magnitude >> 13 & 1);
  magnitude &= ~0x1fffu;
  if (magnitude >= 0x47800000u)
    magnitude = 0x7f800000u;
  return llvm::bit_cast<float>(magnitude | sign);
}

/// `value` with 20 significant bits, so that its products with 1..15 are exact.
float roundTo20Bits(float value) {
  auto bits = llvm::bit_cast<uint32_t>(value);
  return llvm::bit_cast<float>((bits + 0x7u + (bits >> 4 & 1)) & ~0xfu);
}

/// A symmetric group, which may be a whole column of int8.
struct SymmetricGroup {
  float scale = 0;
  RowFault fault = RowFault::None;
};

/// The best scale among steps[..]. `normalized` has room for `count` floats.
template <size_t N>
LLMC_INLINE SymmetricGroup searchSymmetric(const float *values, uint64_t count,
                                           const float (&steps)[N], float low, float high,
                                           float *normalized) {
  bool finite;
  float most = largest(values, count, finite);
  if (!finite)
    return {0, RowFault::NotFinite};
  if (most > kLargest)
    return {0, RowFault::TooLarge};
  if (most < kSmallest)
    return {};
  // The largest magnitude becomes -1: the negative side has a step more.
  float first = 0;
  for (uint64_t i = 0; i < count && first == 0; ++i)
    if (values[i] == most || values[i] == -most)
      first = values[i];
  float factor = -1.0f / first;
  for (uint64_t i = 0; i < count; i += kLanes) {
    Lanes v = loadLanes(values + i) * factor;
    std::memcpy(normalized + i, &v, sizeof v);
  }
  float best = 0, scale = 0;
  for (float candidate : steps) {
    // Sums of long columns are taken in pieces, or they would lose small terms.
    double products = 0, squares = 0;
    constexpr uint64_t kPiece = 1024;
    for (uint64_t i = 0; i < count; i += kPiece) {
      Sums sums = sumsAt(normalized + i, std::min(kPiece, count - i), candidate, low, high);
      products += double(sums.valuesByLevels);
      squares += double(sums.levelsSquared);
    }
    Sums sums{float(products), float(squares)};
    if (float score = explained(sums); score > best) {
      best = score;
      scale = float(products / squares);
    }
  }
  return {-first * scale, RowFault::None};
}

LLMC_INLINE void putTail(uint8_t *out, float scale, uint8_t zero, uint8_t multiplier) {
  std::memcpy(out, &scale, 4);
  out[4] = zero;
  out[5] = multiplier;
  out[6] = out[7] = 0;
}

/// A group of at most 128 values, filled up with zeros to whole lanes.
struct Group {
  alignas(32) float values[kMaxGroup];
  uint64_t count;

  LLMC_INLINE Group(const float *from, uint64_t known) : count(paddedDepth(known)) {
    std::memcpy(values, from, known * sizeof(float));
    for (uint64_t i = known; i < count; ++i)
      values[i] = 0;
  }
};

/// Levels of `group` into `known` bytes.
LLMC_INLINE void putLevels(const Group &group, uint64_t known, float scale, float low, float high,
                           float zero, uint8_t *out, RowResult &result) {
  uint8_t bytes[kMaxGroup];
  writeLevels(group.values, group.count, scale, low, high, zero, bytes, result);
  std::memcpy(out, bytes, known);
}

LLMC_INLINE RowFault quantizeInt8(const CanonicalRow &row, const float *values, uint8_t *out,
                                  RowResult &result) {
  uint64_t depth = row.depth(), padded = paddedDepth(depth);
  std::vector<float> normalized(padded);
  SymmetricGroup found = searchSymmetric(values, padded, kSteps8, -127, 127, normalized.data());
  if (found.fault != RowFault::None)
    return found.fault;
  float scale = found.scale < 0 ? -found.scale : found.scale;
  std::vector<uint8_t> bytes(padded);
  constexpr uint64_t kPiece = 1024;
  for (uint64_t i = 0; i < padded; i += kPiece)
    writeLevels(values + i, std::min(kPiece, padded - i), scale, -127, 127, 0, bytes.data() + i,
                result);
  std::memcpy(out, bytes.data(), depth);
  putTail(out + row.scaleAt(0), scale, 0, 0);
  return RowFault::None;
}

LLMC_INLINE RowFault quantizeSymmetric(const CanonicalRow &row, const float *values, uint8_t *out,
                                       RowResult &result) {
  alignas(32) float normalized[kMaxGroup];
  uint64_t start = 0;
  for (uint64_t g = 0; g < row.groups(); start += row.count(g), ++g) {
    Group group(values + start, row.count(g));
    SymmetricGroup found = searchSymmetric(group.values, group.count, kSteps4, -8, 7, normalized);
    if (found.fault != RowFault::None)
      return found.fault;
    float scale = roundToHalf(found.scale);
    if (std::isinf(scale))
      return RowFault::TooLarge;
    putLevels(group, row.count(g), scale, -8, 7, 8, out + row.valuesAt(g), result);
    putTail(out + row.scaleAt(g), scale, 8, 0);
  }
  return RowFault::None;
}

LLMC_INLINE RowFault quantizeAsymmetric(const CanonicalRow &row, const float *values, uint8_t *out,
                                        RowResult &result) {
  uint64_t start = 0;
  for (uint64_t g = 0; g < row.groups(); start += row.count(g), ++g) {
    Group group(values + start, row.count(g));
    bool finite;
    float most = largest(group.values, group.count, finite), low = 0, high = 0;
    if (!finite)
      return RowFault::NotFinite;
    if (most > kLargest)
      return RowFault::TooLarge;
    for (uint64_t i = 0; i < group.count; ++i) {
      low = std::min(low, group.values[i]);
      high = std::max(high, group.values[i]);
    }
    float scale = 0, zero = 8;
    if (most >= kSmallest) {
      float range = high - low, middle = (-low / range * 15.0f + kRounder) - kRounder, best = 0;
      for (float z = std::max(0.0f, middle - 1); z <= std::min(15.0f, middle + 1); z += 1)
        for (float part : kRanges) {
          Sums sums = sumsAt(group.values, group.count, 15.0f / (range * part), -z, 15 - z);
          if (float score = explained(sums); score > best) {
            best = score;
            scale = sums.valuesByLevels / sums.levelsSquared;
            zero = z;
          }
        }
      scale = roundToHalf(scale);
      if (std::isinf(scale))
        return RowFault::TooLarge;
    }
    putLevels(group, row.count(g), scale, -zero, 15 - zero, zero, out + row.valuesAt(g), result);
    putTail(out + row.scaleAt(g), scale, uint8_t(zero), 0);
  }
  return RowFault::None;
}

/// The best multipliers near the wanted scales at a column scale, and the column's error.
LLMC_INLINE double chooseMultipliers(const CanonicalRow &row, const float *values, float scale,
                                     const std::vector<float> &wanted,
                                     std::vector<uint8_t> &chosen) {
  double total = 0;
  uint64_t start = 0;
  for (uint64_t g = 0; g < row.groups(); start += row.count(g), ++g) {
    Group group(values + start, row.count(g));
    int middle = std::clamp(int(wanted[g] / scale + 0.5f), 1, 15);
    float least = INFINITY;
    for (int m = std::max(1, middle - 1); m <= std::min(15, middle + 1); ++m) {
      float error = errorAt(group.values, group.count, scale * float(m), -8, 7);
      if (error < least) {
        least = error;
        chosen[g] = uint8_t(m);
      }
    }
    total += double(least);
  }
  return total;
}

/// int4x2: the column scale with multipliers for its groups, then values.
LLMC_INLINE RowFault quantizeTwoLevel(const CanonicalRow &row, const float *values, uint8_t *out,
                                      RowResult &result) {
  alignas(32) float normalized[kMaxGroup];
  uint64_t groups = row.groups(), start = 0;
  std::vector<float> wanted(groups);
  float most = 0;
  for (uint64_t g = 0; g < groups; start += row.count(g), ++g) {
    Group group(values + start, row.count(g));
    SymmetricGroup found = searchSymmetric(group.values, group.count, kSteps4, -8, 7, normalized);
    if (found.fault != RowFault::None)
      return found.fault;
    wanted[g] = std::fabs(found.scale);
    most = std::max(most, wanted[g]);
  }
  std::vector<uint8_t> multipliers(groups, 1), tried(groups, 1);
  float scale = 0;
  if (most >= kSmallest * 256) {
    double least = INFINITY;
    for (float part : kColumnParts) {
      float candidate = roundTo20Bits(most / 15.0f * part);
      double error = chooseMultipliers(row, values, candidate, wanted, tried);
      if (error < least) {
        least = error;
        scale = candidate;
        multipliers = tried;
      }
    }
  }
  start = 0;
  for (uint64_t g = 0; g < groups; start += row.count(g), ++g) {
    Group group(values + start, row.count(g));
    float groupScale = scale * float(multipliers[g]);
    putLevels(group, row.count(g), groupScale, -8, 7, 8, out + row.valuesAt(g), result);
    putTail(out + row.scaleAt(g), groupScale, 8, multipliers[g]);
  }
  return RowFault::None;
}

LLMC_INLINE RowResult quantize(const WeightFormat &format, const CanonicalRow &row,
                               const float *values, uint8_t *out) {
  RowResult result;
  if (row.groups() == 0)
    return result;
  if (format.kind == Kind::Int8)
    result.fault = quantizeInt8(row, values, out, result);
  else if (format.kind == Kind::Int4x2)
    result.fault = quantizeTwoLevel(row, values, out, result);
  else if (format.asymmetric)
    result.fault = quantizeAsymmetric(row, values, out, result);
  else
    result.fault = quantizeSymmetric(row, values, out, result);
  return result;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) RowResult quantizeAvx2(const WeightFormat &format,
                                                       const CanonicalRow &row, const float *values,
                                                       uint8_t *out) {
  return quantize(format, row, values, out);
}
#endif

} // namespace

RowResult quantizeRow(const WeightFormat &format, const CanonicalRow &row, const float *values,
                      uint8_t *out) {
#if defined(__x86_64__)
  static const bool hasAvx2 = __builtin_cpu_supports("avx2");
  if (hasAvx2)
    return quantizeAvx2(format, row, values, out);
#endif
  return quantizeRowPortably(format, row, values, out);
}

RowResult quantizeRowPortably(const WeightFormat &format, const CanonicalRow &row,
                              const float *values, uint8_t *out) {
  return quantize(format, row, values, out);
}

} // namespace llmc
