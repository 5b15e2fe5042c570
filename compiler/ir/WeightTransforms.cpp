// SPDX-License-Identifier: Apache-2.0
//
// Each transform works on byte ranges that may begin and end inside an element,
// since readers cut tiles where they like; ElementwiseRange deals with that once.
#include "compiler/ir/WeightTransforms.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace llmc {
namespace {

constexpr uint64_t kTileBytes = uint64_t(1) << 18;

/// Turns evaluation of byte ranges into evaluation of whole elements, a tile at a time.
class ElementwiseRange : public WeightTransform {
public:
  void evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                MutableArrayRef<char> out) const final {
    uint64_t width = resultElementBytes(sources);
    // Head and tail that are parts of an element go through a small buffer.
    char element[16];
    while (!out.empty()) {
      uint64_t inside = offset % width;
      uint64_t whole = inside == 0 ? out.size() / width : 0;
      if (whole > 0) {
        elements(sources, offset / width, whole, out.data());
        offset += whole * width;
        out = out.drop_front(whole * width);
        continue;
      }
      elements(sources, offset / width, 1, element);
      uint64_t taken = std::min<uint64_t>(width - inside, out.size());
      std::memcpy(out.data(), element + inside, taken);
      offset += taken;
      out = out.drop_front(taken);
    }
  }

protected:
  virtual uint64_t resultElementBytes(ArrayRef<const Weight *> sources) const {
    return elementBits(sources[0]->type().element) / 8;
  }
  /// Writes result elements [first, first + count) to `out`.
  virtual void elements(ArrayRef<const Weight *> sources, uint64_t first, uint64_t count,
                        char *out) const = 0;
};

Error needWholeBytes(const char *what, const WeightType &type) {
  if (elementBits(type.element) % 8 == 0)
    return Error::success();
  return createStringError(Twine(what) + " needs elements of whole bytes, not " +
                           elementName(type.element));
}

class Transpose2d : public ElementwiseRange {
public:
  std::string describe() const override { return "transpose2d"; }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    if (sources.size() != 1 || sources[0]->shape.size() != 2)
      return createStringError("transpose2d needs one source of rank 2");
    if (Error error = needWholeBytes("transpose2d", *sources[0]))
      return std::move(error);
    return WeightType{sources[0]->element, {sources[0]->shape[1], sources[0]->shape[0]}};
  }

protected:
  void elements(ArrayRef<const Weight *> sources, uint64_t first, uint64_t count,
                char *out) const override {
    const Weight &source = *sources[0];
    auto rows = static_cast<uint64_t>(source.type().shape[0]); // of the source
    uint64_t width = resultElementBytes(sources);
    // Result rows are source columns. Take as many columns at once as fill a
    // cache line or two, so that each line of the source is read once.
    for (uint64_t done = 0; done < count;) {
      uint64_t column = (first + done) / rows, row = (first + done) % rows;
      uint64_t columns = std::min((count - done) / rows, std::max<uint64_t>(1, 128 / width));
      if (row != 0 || columns == 0) {
        uint64_t part = std::min(rows - row, count - done);
        gather(source, row, part, column, 1, width, out + done * width);
        done += part;
        continue;
      }
      gather(source, 0, rows, column, columns, width, out + done * width);
      done += rows * columns;
    }
  }

private:
  static void gather(const Weight &source, uint64_t firstRow, uint64_t rowCount, uint64_t column,
                     uint64_t columnCount, uint64_t width, char *out) {
    auto sourceColumns = static_cast<uint64_t>(source.type().shape[1]);
    ArrayRef<char> view = source.view();
    SmallVector<char, 256> line(columnCount * width);
    for (uint64_t r = 0; r < rowCount; ++r) {
      uint64_t at = ((firstRow + r) * sourceColumns + column) * width;
      const char *from = line.data();
      if (view.empty())
        source.read(at, line);
      else
        from = view.data() + at;
      for (uint64_t c = 0; c < columnCount; ++c)
        std::memcpy(out + (c * rowCount + r) * width, from + c * width, width);
    }
  }
};

uint16_t roundToBf16(float value) {
  auto bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16) | 0x40u; // stays a NaN, made quiet
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

/// f16 by f32 arithmetic alone: numbers below f16's smallest normal one are rounded by a sum.
uint16_t roundToF16(float value) {
  auto bits = bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return sign | static_cast<uint16_t>(0x7e00u | (magnitude >> 13 & 0x3ffu)); // NaN, made quiet
  if (magnitude < 0x38800000u)
    return sign | static_cast<uint16_t>(bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) -
                                        0x3f000000u);
  magnitude += 0xfffu + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>(magnitude >= 0x47800000u ? 0x7c00u
                                                               : (magnitude - 0x38000000u) >> 13);
}

/// f32 to one of the formats of 16 bits.
template <ElementType Element, uint16_t (*Round)(float)>
class ConvertTo16Bits : public ElementwiseRange {
public:
  std::string describe() const override { return ("convert " + elementName(Element)).str(); }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    if (sources.size() != 1 || sources[0]->element != ElementType::F32)
      return createStringError("conversion to " + elementName(Element) +
                               " needs one source of f32");
    return WeightType{Element, sources[0]->shape};
  }

protected:
  uint64_t resultElementBytes(ArrayRef<const Weight *>) const override { return 2; }

  void elements(ArrayRef<const Weight *> sources, uint64_t first, uint64_t count,
                char *out) const override {
    std::vector<char> buffer(std::min(count * 4, kTileBytes));
    while (count > 0) {
      uint64_t step = std::min<uint64_t>(count, kTileBytes / 4);
      sources[0]->read(first * 4, MutableArrayRef<char>(buffer.data(), step * 4));
      for (uint64_t i = 0; i < step; ++i) {
        float value;
        std::memcpy(&value, buffer.data() + i * 4, 4);
        uint16_t rounded = Round(value);
        std::memcpy(out + i * 2, &rounded, 2);
      }
      first += step;
      count -= step;
      out += step * 2;
    }
  }
};

class Slice : public ElementwiseRange {
public:
  Slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) : offsets(offsets), sizes(sizes) {}

  std::string describe() const override {
    std::string text = "slice";
    for (size_t i = 0; i < sizes.size(); ++i)
      text += " " + std::to_string(offsets[i]) + "+" + std::to_string(sizes[i]);
    return text;
  }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    if (sources.size() != 1 || sources[0]->shape.size() != sizes.size() ||
        offsets.size() != sizes.size())
      return createStringError("slice needs one source with its number of dims");
    if (Error error = needWholeBytes("slice", *sources[0]))
      return std::move(error);
    for (size_t i = 0; i < sizes.size(); ++i)
      if (offsets[i] < 0 || sizes[i] < 0 || offsets[i] > sources[0]->shape[i] ||
          sizes[i] > sources[0]->shape[i] - offsets[i])
        return createStringError("slice " + std::to_string(offsets[i]) + "+" +
                                 std::to_string(sizes[i]) + " leaves dim " + std::to_string(i) +
                                 " of size " + std::to_string(sources[0]->shape[i]));
    return WeightType{sources[0]->element, SmallVector<int64_t, 4>(sizes)};
  }

protected:
  void elements(ArrayRef<const Weight *> sources, uint64_t first, uint64_t count,
                char *out) const override {
    uint64_t width = resultElementBytes(sources);
    ArrayRef<int64_t> shape = sources[0]->type().shape;
    // Runs that are contiguous in the source: the innermost dim, and outer
    // dims for as long as all inner ones are taken whole.
    uint64_t run = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      run *= static_cast<uint64_t>(sizes[i]);
      if (sizes[i] != shape[i])
        break;
    }
    while (count > 0) {
      uint64_t step = std::min(count, run - first % run);
      sources[0]->read(sourceIndex(shape, first) * width, MutableArrayRef<char>(out, step * width));
      first += step;
      count -= step;
      out += step * width;
    }
  }

private:
  uint64_t sourceIndex(ArrayRef<int64_t> shape, uint64_t index) const {
    uint64_t result = 0, stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      auto size = static_cast<uint64_t>(sizes[i]);
      result += (static_cast<uint64_t>(offsets[i]) + index % size) * stride;
      index /= size;
      stride *= static_cast<uint64_t>(shape[i]);
    }
    return result;
  }

  SmallVector<int64_t, 4> offsets, sizes;
};

} // namespace

std::unique_ptr<const WeightTransform> transpose2d() { return std::make_unique<Transpose2d>(); }
std::unique_ptr<const WeightTransform> convertToBf16() {
  return std::make_unique<ConvertTo16Bits<ElementType::BF16, roundToBf16>>();
}
std::unique_ptr<const WeightTransform> convertToF16() {
  return std::make_unique<ConvertTo16Bits<ElementType::F16, roundToF16>>();
}
std::unique_ptr<const WeightTransform> slice(ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  return std::make_unique<Slice>(offsets, sizes);
}

} // namespace llmc
