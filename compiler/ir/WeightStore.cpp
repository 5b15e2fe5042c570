// SPDX-License-Identifier: Apache-2.0
//
// The kinds of weight behind WeightStore's keys, and the search for equal ones.
#include "compiler/ir/WeightStore.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cstring>

using namespace llvm;

namespace llmc {

mlir::RankedTensorType WeightType::toMlirType(mlir::MLIRContext *context) const {
  return mlir::RankedTensorType::get(shape, llmc::toMlirType(element, context));
}

Weight::~Weight() = default;
WeightTransform::~WeightTransform() = default;

namespace {

std::string typeText(const WeightType &type) {
  std::string text = elementName(type.element).str() + "[";
  for (size_t i = 0; i < type.shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(type.shape[i]);
  return text + "]";
}

Error checkType(StringRef name, const WeightType &type) {
  if (tensorBytes(type.element, type.shape))
    return Error::success();
  return createStringError("tensor '" + name.str() + "' of type " + typeText(type) +
                           " has no byte size that fits 63 bits");
}

/// Bytes that lie in memory; `owner` keeps them there.
class SpanWeight : public Weight {
public:
  SpanWeight(StringRef name, WeightType type, std::shared_ptr<const void> owner,
             ArrayRef<char> bytes)
      : Weight(name, std::move(type)), owner(std::move(owner)), bytes(bytes) {}

  void read(uint64_t offset, MutableArrayRef<char> out) const override {
    assert(offset <= bytes.size() && out.size() <= bytes.size() - offset);
    if (!out.empty())
      std::memcpy(out.data(), bytes.data() + offset, out.size());
  }
  ArrayRef<char> view() const override { return bytes; }

private:
  std::shared_ptr<const void> owner;
  ArrayRef<char> bytes;
};

class TransformedWeight : public Weight {
public:
  TransformedWeight(StringRef name, WeightType type,
                    std::unique_ptr<const WeightTransform> transform,
                    ArrayRef<const Weight *> sources)
      : Weight(name, std::move(type)), transform(std::move(transform)), sources(sources) {}

  void read(uint64_t offset, MutableArrayRef<char> out) const override {
    assert(offset <= byteSize() && out.size() <= byteSize() - offset);
    if (!out.empty())
      transform->evaluate(sources, offset, out);
  }
  uint64_t granule() const override { return transform->granule(sources); }

private:
  std::unique_ptr<const WeightTransform> transform;
  SmallVector<const Weight *, 2> sources;
};

uint64_t hashBytes(ArrayRef<char> bytes) {
  return xxh3_64bits(
      ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
}

uint64_t combine(uint64_t seed, uint64_t value) {
  uint64_t both[2] = {seed, value};
  return hashBytes({reinterpret_cast<const char *>(both), sizeof(both)});
}

bool equalBytes(const Weight &a, const Weight &b) {
  if (!a.view().empty() && a.view().data() == b.view().data())
    return true;
  bool equal = true;
  std::vector<char> buffer;
  a.forEachTile([&](uint64_t offset, ArrayRef<char> tile) {
    if (!equal)
      return;
    ArrayRef<char> other = b.view();
    if (other.empty()) {
      buffer.resize(tile.size());
      b.read(offset, buffer);
      other = buffer;
    } else {
      other = other.slice(offset, tile.size());
    }
    equal = std::memcmp(tile.data(), other.data(), tile.size()) == 0;
  });
  return equal;
}

} // namespace

uint64_t Weight::tileBytes(uint64_t wanted) const {
  uint64_t unit = std::max<uint64_t>(1, granule());
  return std::max<uint64_t>(1, wanted / unit) * unit;
}

void Weight::forEachTile(function_ref<void(uint64_t, ArrayRef<char>)> use) const {
  ArrayRef<char> whole = view();
  std::vector<char> buffer;
  uint64_t step = tileBytes();
  for (uint64_t offset = 0; offset < size; offset += step) {
    auto length = static_cast<size_t>(std::min<uint64_t>(step, size - offset));
    if (!whole.empty()) {
      use(offset, whole.slice(offset, length));
      continue;
    }
    buffer.resize(length);
    read(offset, buffer);
    use(offset, buffer);
  }
}

uint64_t Weight::contentHash() const {
  std::call_once(hashed, [&] {
    uint64_t seed = combine(size, 0);
    forEachTile([&](uint64_t, ArrayRef<char> tile) { seed = combine(seed, hashBytes(tile)); });
    hash = seed;
  });
  return hash;
}

uint64_t Weight::sampleHash() const {
  // 16 pieces of 64 bytes: one page each at most, so that looking for equal
  // weights doesn't read a model that is larger than memory.
  constexpr uint64_t kPieces = 16, kPieceBytes = 64;
  uint64_t seed = combine(size, static_cast<uint64_t>(weightType.element));
  for (int64_t dim : weightType.shape)
    seed = combine(seed, static_cast<uint64_t>(dim));
  char piece[kPieceBytes];
  for (uint64_t i = 0; i < kPieces; ++i) {
    uint64_t length = std::min(kPieceBytes, size);
    uint64_t offset = (size - length) / (kPieces - 1) * i;
    MutableArrayRef<char> out(piece, length);
    read(offset, out);
    seed = combine(seed, hashBytes(out));
  }
  return seed;
}

WeightStore::WeightStore() = default;
WeightStore::~WeightStore() = default;

std::string WeightStore::uniqueName(StringRef name) {
  std::string key = name.str();
  while (byName.contains(key))
    key = (name + "#" + Twine(lastSuffix.try_emplace(name, 1).first->second += 1)).str();
  return key;
}

const Weight *WeightStore::add(std::unique_ptr<const Weight> weight) {
  const Weight *added = weight.get();
  byName[added->name()] = added;
  all.push_back(std::move(weight));
  return added;
}

Expected<const Weight *> WeightStore::addMapped(StringRef name, WeightType type,
                                                std::shared_ptr<const MappedFile> file,
                                                uint64_t offset) {
  if (Error error = checkType(name, type))
    return std::move(error);
  ArrayRef<char> bytes = file->bytes();
  uint64_t size = type.byteSize();
  if (offset > bytes.size() || size > bytes.size() - offset)
    return createStringError("tensor '" + name.str() + "' needs " + std::to_string(size) +
                             " bytes from offset " + std::to_string(offset) + " on, but '" +
                             file->path() + "' has " + std::to_string(bytes.size()));
  recordFile(file->path());
  ArrayRef<char> span = size ? bytes.slice(offset, size) : ArrayRef<char>();
  return addBorrowed(name, std::move(type), std::move(file), span);
}

Expected<const Weight *> WeightStore::addBorrowed(StringRef name, WeightType type,
                                                  std::shared_ptr<const void> owner,
                                                  ArrayRef<char> bytes) {
  if (Error error = checkType(name, type))
    return std::move(error);
  if (bytes.size() != type.byteSize())
    return createStringError("tensor '" + name.str() + "' of type " + typeText(type) + " needs " +
                             std::to_string(type.byteSize()) + " bytes but has " +
                             std::to_string(bytes.size()));
  return add(
      std::make_unique<SpanWeight>(uniqueName(name), std::move(type), std::move(owner), bytes));
}

Expected<const Weight *> WeightStore::addOwned(StringRef name, WeightType type, std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  ArrayRef<char> span(owner->data(), owner->size());
  return addBorrowed(name, std::move(type), std::move(owner), span);
}

Expected<const Weight *>
WeightStore::addTransformed(StringRef name, std::unique_ptr<const WeightTransform> transform,
                            ArrayRef<const Weight *> sources) {
  SmallVector<const WeightType *, 2> types;
  for (const Weight *source : sources)
    types.push_back(&source->type());
  Expected<WeightType> type = transform->inferType(types);
  if (!type)
    return type.takeError();
  if (Error error = checkType(name, *type))
    return std::move(error);
  return add(std::make_unique<TransformedWeight>(uniqueName(name), std::move(*type),
                                                 std::move(transform), sources));
}

const Weight *WeightStore::find(StringRef name) const { return byName.lookup(name); }

void WeightStore::read(StringRef name, uint64_t offset, MutableArrayRef<char> out) const {
  const Weight *weight = find(name);
  assert(weight && "no weight of that name");
  weight->read(offset, out);
}

const Weight *WeightStore::findEqual(const Weight &weight) {
  for (; sampled < all.size(); ++sampled)
    bySample[all[sampled]->sampleHash()].push_back(all[sampled].get());
  for (const Weight *other : bySample[weight.sampleHash()])
    if (other == &weight ||
        (other->type() == weight.type() && other->contentHash() == weight.contentHash() &&
         equalBytes(*other, weight)))
      return other;
  return &weight;
}

void WeightStore::recordFile(StringRef path) {
  if (fileSet.try_emplace(path, 0).second)
    fileNames.push_back(path.str());
}

} // namespace llmc
