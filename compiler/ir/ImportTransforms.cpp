// SPDX-License-Identifier: Apache-2.0
//
// Works on runs: elements of one row of the last dimension. Narrow values go
// through a table of all that there are.
#include "compiler/ir/ImportTransforms.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace llmc {
namespace {

const fltSemantics *semanticsOf(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return &APFloat::IEEEsingle();
  case ElementType::F16:
    return &APFloat::IEEEhalf();
  case ElementType::BF16:
    return &APFloat::BFloat();
  case ElementType::F8E4M3FN:
    return &APFloat::Float8E4M3FN();
  case ElementType::F8E4M3FNUZ:
    return &APFloat::Float8E4M3FNUZ();
  case ElementType::F8E5M2:
    return &APFloat::Float8E5M2();
  case ElementType::F8E5M2FNUZ:
    return &APFloat::Float8E5M2FNUZ();
  case ElementType::F8E8M0:
    return &APFloat::Float8E8M0FNU();
  case ElementType::F4E2M1:
    return &APFloat::Float4E2M1FN();
  case ElementType::F6E2M3:
    return &APFloat::Float6E2M3FN();
  case ElementType::F6E3M2:
    return &APFloat::Float6E3M2FN();
  default:
    return nullptr;
  }
}

bool isSigned(ElementType type) {
  return type == ElementType::I2 || type == ElementType::I4 || type == ElementType::I8 ||
         type == ElementType::I16 || type == ElementType::I32;
}

/// Reads elements of a weight as numbers; its bytes are taken to be of `type`.
class NumberReader {
public:
  NumberReader(const Weight &weight, const WeightType &type)
      : weight(weight), view(weight.view()), type(type), bits(elementBits(type.element)) {
    if (bits <= 8)
      for (uint32_t i = 0; i < (1u << bits); ++i)
        table.push_back(numberFromBits(type.element, i));
  }

  /// Elements [first, first + out.size()).
  void read(uint64_t first, MutableArrayRef<double> out) {
    if (out.empty())
      return;
    uint64_t begin = first * bits / 8, end = ((first + out.size()) * bits + 7) / 8;
    const char *bytes = view.data() + begin;
    if (view.empty()) {
      buffer.resize(end - begin);
      weight.read(begin, buffer);
      bytes = buffer.data();
    }
    uint64_t mask = (uint64_t(1) << std::min(bits, 32u)) - 1;
    for (uint64_t i = 0; i < out.size(); ++i) {
      uint64_t at = (first + i) * bits - begin * 8;
      uint32_t word = 0;
      std::memcpy(&word, bytes + at / 8, std::max(bits / 8, 1u));
      word = uint32_t((word >> (at % 8)) & mask);
      out[i] = bits <= 8 ? table[word] : numberFromBits(type.element, word);
    }
  }

  const WeightType &valueType() const { return type; }

private:
  const Weight &weight;
  ArrayRef<char> view;
  WeightType type;
  unsigned bits;
  std::vector<double> table;
  std::vector<char> buffer;
};

/// Rounds as the element type does; integers are exact here.
void storeNumber(double value, ElementType type, char *out) {
  if (type == ElementType::I32) {
    auto integer = int32_t(value);
    std::memcpy(out, &integer, 4);
    return;
  }
  auto single = float(value);
  if (type == ElementType::F32) {
    std::memcpy(out, &single, 4);
    return;
  }
  APFloat number(single);
  bool lossy;
  number.convert(*semanticsOf(type), APFloat::rmNearestTiesToEven, &lossy);
  auto bits = uint16_t(number.bitcastToAPInt().getZExtValue());
  std::memcpy(out, &bits, 2);
}

class Dequantize final : public WeightTransform {
public:
  explicit Dequantize(Dequantization parameters) : p(std::move(parameters)) {}

  std::string describe() const override {
    std::string text = "dequantize";
    for (const WeightType *type : {&p.input, &p.scale, &p.zero, &p.result}) {
      text += " " + elementName(type->element).str();
      for (int64_t size : type->shape)
        text += "x" + std::to_string(size);
    }
    return text + " axis " + std::to_string(p.axis) + " block " + std::to_string(p.block);
  }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    size_t next = 0;
    for (const WeightType *type : {&p.input, &p.scale, &p.zero}) {
      if (type->element == ElementType::Invalid)
        continue;
      if (next == sources.size() || !tensorBytes(type->element, type->shape) ||
          sources[next]->byteSize() != *tensorBytes(type->element, type->shape))
        return createStringError("a source of a dequantization has another size than its type");
      if (!isSigned(type->element) && elementBits(type->element) > 16 &&
          type->element != ElementType::F32)
        return createStringError("values of type " + elementName(type->element) +
                                 " can't be dequantized");
      ++next;
    }
    size_t rank = p.input.shape.size();
    bool fits = next == sources.size() && p.result.shape.size() == rank && rank > 0 &&
                (p.axis < int64_t(rank)) && (rank == 0 || parameterFits(p.scale)) &&
                parameterFits(p.zero);
    for (size_t i = 0; fits && i < rank; ++i)
      fits = i == size_t(p.axis) ? p.result.shape[i] <= p.input.shape[i]
                                 : p.result.shape[i] == p.input.shape[i];
    if (!fits)
      return createStringError("the shapes of a dequantization don't fit each other");
    return p.result;
  }

  void evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                MutableArrayRef<char> out) const override {
    uint64_t width = elementBits(p.result.element) / 8, total = *elementCount(p.result.shape);
    uint64_t row = p.result.shape.back();
    NumberReader input(*sources[0], p.input);
    std::optional<NumberReader> scale, zero;
    size_t next = 1;
    if (p.scale.element != ElementType::Invalid)
      scale.emplace(*sources[next++], p.scale);
    if (p.zero.element != ElementType::Invalid)
      zero.emplace(*sources[next++], p.zero);
    std::vector<double> values, scales, zeros;
    std::vector<char> bytes;
    while (!out.empty()) {
      uint64_t first = offset / width, inside = offset % width;
      // The rest of the row, or the part of it that is asked for.
      uint64_t count = std::min(row - first % row, (inside + out.size() + width - 1) / width);
      count = std::min(count, total - first);
      values.resize(count);
      input.read(position(p.input.shape, first), values);
      readParameter(scale, first, count, scales);
      readParameter(zero, first, count, zeros);
      bytes.resize(count * width);
      for (uint64_t i = 0; i < count; ++i) {
        double value = values[i] - (zero ? zeros[i] : 0.0);
        storeNumber(scale ? double(float(value) * float(scales[i])) : value, p.result.element,
                    bytes.data() + i * width);
      }
      uint64_t taken = std::min<uint64_t>(bytes.size() - inside, out.size());
      std::memcpy(out.data(), bytes.data() + inside, taken);
      offset += taken;
      out = out.drop_front(taken);
    }
  }

private:
  bool parameterFits(const WeightType &type) const {
    if (type.element == ElementType::Invalid || (p.block == 0 && elementCount(type.shape) == 1))
      return true;
    if (p.block == 0)
      return type.shape.size() == 1 && type.shape[0] >= p.result.shape[p.axis];
    if (type.shape.size() != p.input.shape.size())
      return false;
    for (size_t i = 0; i < type.shape.size(); ++i)
      if (i == size_t(p.axis)
              ? type.shape[i] < int64_t(divideCeil(uint64_t(p.result.shape[i]), uint64_t(p.block)))
              : type.shape[i] != p.result.shape[i])
        return false;
    return true;
  }

  /// Where in a tensor of `shape`, which differs from the result's along the axis only, the
  /// result's element `index` stands.
  uint64_t position(ArrayRef<int64_t> shape, uint64_t index) const {
    uint64_t result = 0, stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      uint64_t size = p.result.shape[i];
      result += index % size * stride;
      index /= size;
      stride *= uint64_t(shape[i]);
    }
    return result;
  }

  /// The parameter of each of `count` elements from `first` on, which are in one row.
  void readParameter(std::optional<NumberReader> &reader, uint64_t first, uint64_t count,
                     std::vector<double> &out) const {
    if (!reader)
      return;
    out.resize(count);
    ArrayRef<int64_t> shape = reader->valueType().shape, dims = p.result.shape;
    size_t last = dims.size() - 1;
    if (p.block == 0 && elementCount(shape) == 1) {
      reader->read(0, MutableArrayRef<double>(out.data(), 1));
      std::fill(out.begin() + 1, out.end(), out[0]);
      return;
    }
    uint64_t inner = 1, column = first % uint64_t(dims[last]);
    for (size_t i = size_t(p.axis) + 1; i < dims.size(); ++i)
      inner *= uint64_t(dims[i]);
    uint64_t along = first / inner % uint64_t(dims[p.axis]); // index along the axis
    if (p.block == 0) {
      if (size_t(p.axis) == last)
        return reader->read(column, out);
      reader->read(along, MutableArrayRef<double>(out.data(), 1));
      std::fill(out.begin() + 1, out.end(), out[0]);
      return;
    }
    // Blocked: the tensor of parameters has the result's dims but along the axis.
    auto block = uint64_t(p.block);
    uint64_t result = 0, stride = 1, rest = first;
    for (size_t i = dims.size(); i-- > 0;) {
      uint64_t at = rest % uint64_t(dims[i]);
      rest /= uint64_t(dims[i]);
      result += (i == size_t(p.axis) ? at / block : at) * stride;
      stride *= uint64_t(shape[i]);
    }
    if (size_t(p.axis) != last)
      return reader->read(result, out);
    uint64_t blocks = (column + count - 1) / block - column / block + 1;
    std::vector<double> each(blocks);
    reader->read(result, each);
    for (uint64_t i = 0; i < count; ++i)
      out[i] = each[(column + i) / block - column / block];
  }

  Dequantization p;
};

class Rearrange final : public WeightTransform {
public:
  Rearrange(ArrayRef<int64_t> permutation, ArrayRef<int64_t> shape)
      : permutation(permutation), shape(shape) {}

  std::string describe() const override {
    std::string text = "rearrange";
    for (int64_t p : permutation)
      text += " " + std::to_string(p);
    text += " as";
    for (int64_t size : shape)
      text += " " + std::to_string(size);
    return text;
  }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    bool fits = sources.size() == 1 && sources[0]->shape.size() == permutation.size() &&
                elementBits(sources[0]->element) % 8 == 0 &&
                elementCount(sources[0]->shape) == elementCount(shape);
    if (!fits)
      return createStringError("rearranging needs a source of whole bytes, of the permutation's "
                               "rank and with as many elements as the result");
    return WeightType{sources[0]->element, shape};
  }

  void evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                MutableArrayRef<char> out) const override {
    const Weight &source = *sources[0];
    uint64_t width = elementBits(source.type().element) / 8;
    size_t rank = permutation.size();
    SmallVector<uint64_t, 6> strides(rank, 1);
    for (size_t i = rank; i-- > 1;)
      strides[i - 1] = strides[i] * uint64_t(source.type().shape[i]);
    ArrayRef<char> view = source.view();
    char element[16];
    while (!out.empty()) {
      uint64_t rest = offset / width, inside = offset % width, from = 0;
      for (size_t i = rank; i-- > 0;) {
        auto size = uint64_t(source.type().shape[permutation[i]]);
        from += rest % size * strides[permutation[i]];
        rest /= size;
      }
      const char *bytes = element;
      if (view.empty())
        source.read(from * width, MutableArrayRef<char>(element, width));
      else
        bytes = view.data() + from * width;
      uint64_t taken = std::min<uint64_t>(width - inside, out.size());
      std::memcpy(out.data(), bytes + inside, taken);
      offset += taken;
      out = out.drop_front(taken);
    }
  }

private:
  SmallVector<int64_t, 6> permutation;
  SmallVector<int64_t, 4> shape;
};

} // namespace

std::unique_ptr<const WeightTransform> rearrange(ArrayRef<int64_t> permutation,
                                                 ArrayRef<int64_t> shape) {
  return std::make_unique<Rearrange>(permutation, shape);
}

double numberFromBits(ElementType type, uint32_t bits) {
  if (type == ElementType::F32)
    return bit_cast<float>(bits);
  unsigned width = elementBits(type);
  if (const fltSemantics *semantics = semanticsOf(type)) {
    APFloat number(*semantics, APInt(width, bits));
    bool lossy;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return number.convertToDouble();
  }
  return isSigned(type) ? double(SignExtend64(bits, width)) : double(bits);
}

std::unique_ptr<const WeightTransform> dequantize(Dequantization parameters) {
  return std::make_unique<Dequantize>(std::move(parameters));
}

} // namespace llmc
