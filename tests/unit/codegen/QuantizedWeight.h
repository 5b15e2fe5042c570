// SPDX-License-Identifier: Apache-2.0
//
// Random quantized weights in the layouts that kernels read, beside their exact
// values: written from the layouts' description, byte by byte, so that it shares
// nothing with the compiler's packing.
#ifndef LLMC_TESTS_UNIT_CODEGEN_QUANTIZED_WEIGHT_H
#define LLMC_TESTS_UNIT_CODEGEN_QUANTIZED_WEIGHT_H

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace llmc::test {

inline float halfToFloat(uint16_t half) {
  _Float16 value;
  std::memcpy(&value, &half, 2);
  return float(value);
}

struct QuantizedWeight {
  int64_t columns, depth;
  std::vector<uint8_t> packed;
  std::vector<double> values; ///< [column][k]

  /// Extreme: only the largest values of the format.
  QuantizedWeight(const std::string &layout, int64_t columns, int64_t depth, bool extreme = false)
      : columns(columns), depth(depth), values(size_t(columns * depth)), random(11) {
    this->extreme = extreme;
    bool int8 = layout == "q8.16", twoLevel = layout.rfind("q4x2.", 0) == 0,
         asymmetric = layout.back() == 'z';
    int64_t group = int8 ? 64 : std::stol(layout.substr(layout.find('.') + 1));
    int64_t groups = (depth + group - 1) / group;
    for (int64_t block = 0; block < (columns + 15) / 16; ++block) {
      float blockScales[16];
      for (int64_t n = 0; n < 16; ++n)
        blockScales[n] = block * 16 + n < columns ? 0.001f * float(1 + random() % 100) : 0;
      for (int64_t g = 0; g < groups; ++g) {
        if (int8)
          addInt8Group(block, g, blockScales);
        else
          addInt4Group(block, g, group, twoLevel, asymmetric, blockScales);
      }
      if (int8 || twoLevel)
        append(blockScales, sizeof blockScales);
    }
  }

private:
  void append(const void *bytes, size_t count) {
    auto *first = static_cast<const uint8_t *>(bytes);
    packed.insert(packed.end(), first, first + count);
  }
  void setValue(int64_t block, int64_t n, int64_t k, double value) {
    if (block * 16 + n < columns && k < depth)
      values[size_t((block * 16 + n) * depth + k)] = value;
  }

  void addInt8Group(int64_t block, int64_t g, const float *scales) {
    for (int64_t line = 0; line < 16; ++line)
      for (int64_t n = 0; n < 16; ++n)
        for (int64_t c = 0; c < 4; ++c) {
          int64_t k = g * 64 + line * 4 + c;
          bool inside = k < depth && block * 16 + n < columns;
          int value = !inside   ? 0
                      : extreme ? (random() % 2 ? 127 : -127)
                                : int(random() % 255) - 127;
          packed.push_back(uint8_t(value + 128));
          setValue(block, n, k, double(value) * scales[n]);
        }
  }

  void addInt4Group(int64_t block, int64_t g, int64_t group, bool twoLevel, bool asymmetric,
                    const float *blockScales) {
    uint8_t zeros[16], multipliers[16];
    uint16_t halves[16];
    std::vector<uint8_t> codes(size_t(16 * group));
    for (int64_t n = 0; n < 16; ++n) {
      zeros[n] = asymmetric ? uint8_t(extreme ? 15 * (random() % 2) : random() % 16) : 8;
      multipliers[n] = uint8_t(extreme ? 15 : 1 + random() % 15);
      _Float16 scale = _Float16(0.001f * float(1 + random() % 100));
      if (block * 16 + n >= columns)
        scale = 0;
      std::memcpy(&halves[n], &scale, 2);
      for (int64_t i = 0; i < group; ++i) {
        int64_t k = g * group + i;
        bool inside = k < depth && block * 16 + n < columns;
        uint8_t code = !inside ? zeros[n] : uint8_t(extreme ? 15 * (random() % 2) : random() % 16);
        codes[size_t(n * group + i)] = code;
        double steps = int(code) - int(zeros[n]);
        setValue(block, n, k,
                 twoLevel ? steps * multipliers[n] * blockScales[n]
                          : steps * double(halfToFloat(halves[n])));
      }
    }
    for (int64_t line = 0; line < group / 8; ++line)
      for (int64_t n = 0; n < 16; ++n)
        for (int64_t c = 0; c < 4; ++c) {
          uint8_t low = codes[size_t(n * group + 8 * line + c)],
                  high = codes[size_t(n * group + 8 * line + 4 + c)];
          packed.push_back(uint8_t(low | high << 4));
        }
    if (twoLevel)
      append(multipliers, 16);
    else
      append(halves, 32);
    if (asymmetric)
      append(zeros, 16);
  }

  std::mt19937 random;
  bool extreme = false;
};

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_CODEGEN_QUANTIZED_WEIGHT_H
