// SPDX-License-Identifier: Apache-2.0
//
// The KV cache of sequences: 64-token blocks from a pool, reached by kernels
// through tables of block pointers. A sequence owns its blocks; the pool owns
// all memory. Blocks are taken as a sequence grows and go back when it is
// truncated, so that memory follows the tokens that are really held.
#ifndef LLMC_RUNTIME_EXEC_KV_STATE_H
#define LLMC_RUNTIME_EXEC_KV_STATE_H

#include "runtime/core/Status.h"
#include "runtime/device/Device.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace llmc {

/// One KV buffer of a session entry: a layer's keys or values.
struct KvBufferSpec {
  uint32_t device = 0;     // index into the pool's devices
  uint64_t blockBytes = 0; // bytes of 64 tokens

  bool operator==(const KvBufferSpec &) const = default;
};

/// Blocks for every KV buffer of a program. Block groups are handed out whole: one group holds the
/// same 64 tokens of all layers. Shared by sequences; thread-safe.
class KvPool {
public:
  /// `maxBytes` bounds what the pool ever allocates, over all devices.
  static Result<std::shared_ptr<KvPool>> create(std::vector<std::shared_ptr<Device>> devices,
                                                std::vector<KvBufferSpec> buffers,
                                                uint64_t maxBytes = UINT64_MAX);

  const std::vector<KvBufferSpec> &buffers() const { return specs; }
  const std::vector<std::shared_ptr<Device>> &devices() const { return deviceList; }
  /// Bytes of one group: 64 tokens of all buffers.
  uint64_t groupBytes() const { return bytesPerGroup; }
  /// Bytes allocated so far, free groups included.
  uint64_t allocatedBytes() const;

private:
  friend class KvState;
  struct Group {
    std::vector<DeviceMemory> memories;  // per device; none where it holds no buffer
    std::vector<llmc_address> addresses; // per buffer
  };
  KvPool() = default;
  Result<std::unique_ptr<Group>> take();
  void give(std::unique_ptr<Group> group);
  Result<std::unique_ptr<Group>> allocate() const;

  std::vector<std::shared_ptr<Device>> deviceList;
  std::vector<KvBufferSpec> specs;
  uint64_t bytesPerGroup = 0;
  uint64_t maxBytes = 0;
  mutable std::mutex lock; // guards the two below
  uint64_t allocated = 0;
  std::vector<std::unique_ptr<Group>> freeGroups;
};

/// One sequence's cache. Single-threaded, like the session that owns it.
class KvState {
public:
  /// A sequence of up to `capacity` tokens.
  static Result<std::unique_ptr<KvState>> create(std::shared_ptr<KvPool> pool, int64_t capacity);
  ~KvState();

  int64_t capacity() const { return maxTokens; }
  /// Tokens held.
  int64_t length() const { return tokens; }
  const KvPool &pool() const { return *blocks; }
  /// Makes room for `total` tokens; ResourceExhausted past the capacity.
  Status reserve(int64_t total);
  /// Says that the tokens up to `total` (reserved before) are now written.
  void setLength(int64_t total) { tokens = total; }
  /// Forgets the tokens from `length` on and gives whole blocks back. `length` <= length().
  Status truncate(int64_t length);
  /// Forgets everything.
  void reset() { (void)truncate(0); }

  /// What a kernel receives for KV buffer `buffer`: the address of its table of block pointers.
  /// Fixed for the life of this object.
  llmc_address table(size_t buffer) const { return tableAddresses[buffer]; }

private:
  KvState(std::shared_ptr<KvPool> pool, int64_t capacity)
      : blocks(std::move(pool)), maxTokens(capacity) {}

  std::shared_ptr<KvPool> blocks;
  int64_t maxTokens;
  int64_t tokens = 0;
  std::vector<std::unique_ptr<KvPool::Group>> groups; // in token order
  std::vector<DeviceMemory> tables;                   // per device, in memory with a host view
  std::vector<llmc_address> tableAddresses;           // per buffer
  std::vector<llmc_address *> tableViews;             // per buffer
};

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_KV_STATE_H
