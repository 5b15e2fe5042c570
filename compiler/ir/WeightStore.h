// SPDX-License-Identifier: Apache-2.0
//
// Owns the bytes of all weights, which the IR names by key. A weight is a span
// of a mapped file, a few owned bytes, or the result of a WeightTransform over
// other weights, computed while it is read. Invariant: adding a weight never
// copies or reads a large tensor, and reading one needs memory for tiles only.
#ifndef LLMC_COMPILER_IR_WEIGHTSTORE_H
#define LLMC_COMPILER_IR_WEIGHTSTORE_H

#include "compiler/ir/ElementType.h"
#include "compiler/ir/MappedFile.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace llmc {

struct WeightType {
  ElementType element = ElementType::Invalid;
  llvm::SmallVector<int64_t, 4> shape;

  /// Bytes of a weight of this type; only for a type that a store has accepted.
  uint64_t byteSize() const { return *tensorBytes(element, shape); }
  mlir::RankedTensorType toMlirType(mlir::MLIRContext *context) const;
  bool operator==(const WeightType &) const = default;
};

class Weight {
public:
  virtual ~Weight();

  llvm::StringRef name() const { return key; }
  const WeightType &type() const { return weightType; }
  uint64_t byteSize() const { return size; }

  /// Fills `out` with the bytes from `offset` on; offset + out.size() <= byteSize().
  /// May be called by several threads at once.
  virtual void read(uint64_t offset, llvm::MutableArrayRef<char> out) const = 0;
  /// All bytes when they lie in memory or in a mapped file, else empty: then use read().
  virtual llvm::ArrayRef<char> view() const { return {}; }
  /// Reads are cheapest that begin and end at multiples of this.
  virtual uint64_t granule() const { return 1; }
  /// Bytes of the tiles that all bytes are best read in: about `wanted`, in whole granules.
  uint64_t tileBytes(uint64_t wanted = uint64_t(1) << 20) const;
  /// Calls `use` for consecutive tiles of all bytes, without a copy where view() allows.
  void forEachTile(llvm::function_ref<void(uint64_t offset, llvm::ArrayRef<char>)> use) const;
  /// Hash of all bytes, computed at the first call.
  uint64_t contentHash() const;
  /// Hash of type and of a few spread-out bytes: cheap, and unequal for most unequal weights.
  uint64_t sampleHash() const;

protected:
  Weight(llvm::StringRef name, WeightType type)
      : key(name), weightType(std::move(type)), size(weightType.byteSize()) {}

private:
  std::string key;
  WeightType weightType;
  uint64_t size;
  mutable std::once_flag hashed;
  mutable uint64_t hash = 0;
};

/// A function of weights that computes any byte range of its result on demand:
/// transposing, converting, quantizing, packing. Stateless after construction.
class WeightTransform {
public:
  virtual ~WeightTransform();

  /// Names transform and parameters; with equal sources an equal text means equal bytes.
  virtual std::string describe() const = 0;
  /// The result's type, or why these sources don't fit.
  virtual llvm::Expected<WeightType>
  inferType(llvm::ArrayRef<const WeightType *> sources) const = 0;
  /// Ranges that begin and end at multiples of this cost least.
  virtual uint64_t granule(llvm::ArrayRef<const Weight *> /*sources*/) const { return 1; }
  /// Fills `out` with the result's bytes from `offset` on. Reads its sources in tiles, needs
  /// bounded memory, and may be called by several threads at once.
  virtual void evaluate(llvm::ArrayRef<const Weight *> sources, uint64_t offset,
                        llvm::MutableArrayRef<char> out) const = 0;
};

class WeightStore {
public:
  WeightStore();
  ~WeightStore();
  WeightStore(const WeightStore &) = delete;
  WeightStore &operator=(const WeightStore &) = delete;

  /// The key these add under is `name`, or `name#2`, `name#3`, … where that is taken: read it from
  /// the returned weight, which lives as long as the store. All fail for a type without a byte
  /// size, a size that differs from the bytes given, or a range outside of the file.
  llvm::Expected<const Weight *> addMapped(llvm::StringRef name, WeightType type,
                                           std::shared_ptr<const MappedFile> file, uint64_t offset);
  /// Bytes that the store doesn't own; `owner` keeps them alive.
  llvm::Expected<const Weight *> addBorrowed(llvm::StringRef name, WeightType type,
                                             std::shared_ptr<const void> owner,
                                             llvm::ArrayRef<char> bytes);
  llvm::Expected<const Weight *> addOwned(llvm::StringRef name, WeightType type, std::string bytes);
  llvm::Expected<const Weight *> addTransformed(llvm::StringRef name,
                                                std::unique_ptr<const WeightTransform> transform,
                                                llvm::ArrayRef<const Weight *> sources);

  /// Null when there is none of that name.
  const Weight *find(llvm::StringRef name) const;
  /// In the order of adding.
  llvm::ArrayRef<std::unique_ptr<const Weight>> weights() const { return all; }
  /// Reads from a weight that exists.
  void read(llvm::StringRef name, uint64_t offset, llvm::MutableArrayRef<char> out) const;

  /// The weight added first among those with the type and bytes of `weight` (maybe itself). Reads
  /// whole weights only where samples are equal. Not for several threads at once.
  const Weight *findEqual(const Weight &weight);

  /// Every file that was read for this compile, in the order of first use. Paths as opened.
  llvm::ArrayRef<std::string> files() const { return fileNames; }
  void recordFile(llvm::StringRef path);

private:
  const Weight *add(std::unique_ptr<const Weight> weight);
  std::string uniqueName(llvm::StringRef name);

  std::vector<std::unique_ptr<const Weight>> all;
  llvm::StringMap<const Weight *> byName;
  llvm::StringMap<unsigned> lastSuffix;
  std::vector<std::string> fileNames;
  llvm::StringMap<char> fileSet;
  llvm::DenseMap<uint64_t, llvm::SmallVector<const Weight *, 1>> bySample;
  size_t sampled = 0; // how many of `all` bySample holds
};

} // namespace llmc

#endif // LLMC_COMPILER_IR_WEIGHTSTORE_H
