// SPDX-License-Identifier: Apache-2.0
//
// Indices ascend, so the elements of a byte range are found by bisection.
#include "compiler/onnx/SparseTensor.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace llmc {
namespace {

/// Linear index of entry `entry`, or nothing when a coordinate is outside of its dim.
std::optional<uint64_t> linearIndex(const Weight &indices, ArrayRef<int64_t> dims, uint64_t entry) {
  bool coordinates = indices.type().shape.size() == 2;
  SmallVector<int64_t, 4> index(coordinates ? dims.size() : 1);
  indices.read(entry * index.size() * 8,
               MutableArrayRef<char>(reinterpret_cast<char *>(index.data()), index.size() * 8));
  if (!coordinates) {
    if (index[0] < 0 || static_cast<uint64_t>(index[0]) >= *elementCount(dims))
      return std::nullopt;
    return static_cast<uint64_t>(index[0]);
  }
  uint64_t linear = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (index[i] < 0 || index[i] >= dims[i])
      return std::nullopt;
    linear = linear * static_cast<uint64_t>(dims[i]) + static_cast<uint64_t>(index[i]);
  }
  return linear;
}

class SparseToDense : public WeightTransform {
public:
  explicit SparseToDense(ArrayRef<int64_t> dims) : dims(dims) {}

  std::string describe() const override {
    std::string text = "sparse to dense";
    for (int64_t dim : dims)
      text += " " + std::to_string(dim);
    return text;
  }

  Expected<WeightType> inferType(ArrayRef<const WeightType *> sources) const override {
    return WeightType{sources[0]->element, dims};
  }

  void evaluate(ArrayRef<const Weight *> sources, uint64_t offset,
                MutableArrayRef<char> out) const override {
    const Weight &values = *sources[0], &indices = *sources[1];
    uint64_t width = elementBits(values.type().element) / 8;
    uint64_t end = offset + out.size();
    auto entries = static_cast<uint64_t>(values.type().shape[0]);
    uint64_t low = 0, high = entries;
    while (low < high) {
      uint64_t middle = low + (high - low) / 2;
      if ((*linearIndex(indices, dims, middle) + 1) * width <= offset)
        low = middle + 1;
      else
        high = middle;
    }
    std::fill(out.begin(), out.end(), 0);
    char element[16];
    for (; low < entries; ++low) {
      uint64_t begin = *linearIndex(indices, dims, low) * width;
      if (begin >= end)
        break;
      values.read(low * width, MutableArrayRef<char>(element, width));
      uint64_t from = std::max(begin, offset), to = std::min(begin + width, end);
      std::memcpy(out.data() + (from - offset), element + (from - begin), to - from);
    }
  }

private:
  SmallVector<int64_t, 4> dims;
};

} // namespace

Error checkSparse(const Weight &values, const Weight &indices, ArrayRef<int64_t> dims) {
  if (values.type().shape.size() != 1)
    return createStringError("its values have rank " + Twine(values.type().shape.size()) +
                             ", not 1");
  if (elementBits(values.type().element) % 8 != 0)
    return createStringError("its elements of type " +
                             Twine(onnxElementName(values.type().element)) +
                             " are smaller than a byte");
  if (indices.type().element != ElementType::I64)
    return createStringError("its indices are not int64");
  if (!tensorBytes(values.type().element, dims))
    return createStringError("its dims are negative or their product does not fit 63 bits");
  ArrayRef<int64_t> shape = indices.type().shape;
  int64_t entries = values.type().shape[0];
  bool fits =
      (shape.size() == 1 && shape[0] == entries) ||
      (shape.size() == 2 && shape[0] == entries && shape[1] == static_cast<int64_t>(dims.size()));
  if (!fits)
    return createStringError("its indices do not have the shape [" + Twine(entries) + "] or [" +
                             Twine(entries) + ", " + Twine(dims.size()) + "]");
  std::optional<uint64_t> before;
  for (uint64_t entry = 0; entry < static_cast<uint64_t>(entries); ++entry) {
    std::optional<uint64_t> index = linearIndex(indices, dims, entry);
    if (!index)
      return createStringError("its index " + Twine(entry) + " is outside of its dims");
    if (before && *index <= *before)
      return createStringError("its index " + Twine(entry) + " does not ascend");
    before = index;
  }
  return Error::success();
}

std::unique_ptr<const WeightTransform> sparseToDense(ArrayRef<int64_t> dims) {
  return std::make_unique<SparseToDense>(dims);
}

} // namespace llmc
