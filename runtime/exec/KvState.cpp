// SPDX-License-Identifier: Apache-2.0
//
// One allocation per device and group: neighbouring layers of the same tokens
// lie together, and a group of a large model is large enough for huge pages.
#include "runtime/exec/KvState.h"

#include "runtime/abi/BundleFormat.h"

#include <algorithm>

namespace llmc {

namespace {

uint64_t aligned(uint64_t size) {
  return (size + LLMC_MEMORY_ALIGN - 1) / LLMC_MEMORY_ALIGN * LLMC_MEMORY_ALIGN;
}

size_t groupsFor(int64_t tokens) {
  return (static_cast<uint64_t>(tokens) + LLMC_KV_BLOCK_TOKENS - 1) / LLMC_KV_BLOCK_TOKENS;
}

} // namespace

Result<std::shared_ptr<KvPool>> KvPool::create(std::vector<std::shared_ptr<Device>> devices,
                                               std::vector<KvBufferSpec> buffers,
                                               uint64_t maxBytes) {
  uint64_t total = 0;
  for (const KvBufferSpec &buffer : buffers) {
    if (buffer.device >= devices.size())
      return Status::error(Code::InvalidArgument, "a KV buffer is on device {} of {}",
                           buffer.device, devices.size());
    if (buffer.blockBytes > INT64_MAX / 2 ||
        __builtin_add_overflow(total, aligned(buffer.blockBytes), &total) || total > INT64_MAX)
      return Status::error(Code::InvalidArgument, "the KV blocks of 64 tokens pass 2^63 bytes");
  }
  std::shared_ptr<KvPool> pool(new KvPool());
  pool->deviceList = std::move(devices);
  pool->specs = std::move(buffers);
  pool->bytesPerGroup = total;
  pool->maxBytes = maxBytes;
  return pool;
}

uint64_t KvPool::allocatedBytes() const {
  std::lock_guard guard(lock);
  return allocated;
}

Result<std::unique_ptr<KvPool::Group>> KvPool::allocate() const {
  auto group = std::make_unique<Group>();
  std::vector<uint64_t> sizes(deviceList.size(), 0);
  for (const KvBufferSpec &buffer : specs) {
    group->addresses.push_back(sizes[buffer.device]); // offset for now
    sizes[buffer.device] += aligned(buffer.blockBytes);
  }
  group->memories.resize(deviceList.size());
  for (size_t i = 0; i < deviceList.size(); ++i)
    if (sizes[i] != 0) {
      LLMC_TRY_ASSIGN(group->memories[i], deviceList[i]->alloc(sizes[i], MemoryKind::Device));
    }
  for (size_t i = 0; i < specs.size(); ++i)
    group->addresses[i] += group->memories[specs[i].device].address;
  return group;
}

Result<std::unique_ptr<KvPool::Group>> KvPool::take() {
  {
    std::lock_guard guard(lock);
    if (!freeGroups.empty()) {
      std::unique_ptr<Group> group = std::move(freeGroups.back());
      freeGroups.pop_back();
      return group;
    }
    if (bytesPerGroup > maxBytes || allocated > maxBytes - bytesPerGroup)
      return Status::error(Code::ResourceExhausted,
                           "the KV cache holds {} bytes and needs {} more, but its limit is {}",
                           allocated, bytesPerGroup, maxBytes);
    allocated += bytesPerGroup;
  }
  // Outside the lock: it can take long, and other sequences may give groups back meanwhile.
  Result<std::unique_ptr<Group>> group = allocate();
  if (!group.isOk()) {
    std::lock_guard guard(lock);
    allocated -= bytesPerGroup;
  }
  return group;
}

void KvPool::give(std::unique_ptr<Group> group) {
  std::lock_guard guard(lock);
  freeGroups.push_back(std::move(group));
}

Result<std::unique_ptr<KvState>> KvState::create(std::shared_ptr<KvPool> pool, int64_t capacity) {
  if (capacity < 1 || capacity > INT32_MAX)
    return Status::error(Code::InvalidArgument,
                         "a context of {} tokens was asked for; it can have 1 to {}", capacity,
                         INT32_MAX);
  std::unique_ptr<KvState> state(new KvState(std::move(pool), capacity));
  const KvPool &owner = *state->blocks;
  size_t entries = groupsFor(capacity);
  std::vector<uint64_t> perDevice(owner.devices().size(), 0);
  for (const KvBufferSpec &buffer : owner.buffers())
    ++perDevice[buffer.device];
  state->tables.resize(owner.devices().size());
  std::vector<uint64_t> next(owner.devices().size(), 0);
  for (size_t i = 0; i < owner.devices().size(); ++i)
    if (perDevice[i] != 0) {
      LLMC_TRY_ASSIGN(state->tables[i],
                      owner.devices()[i]->alloc(perDevice[i] * aligned(entries * sizeof(uint64_t)),
                                                MemoryKind::Host));
    }
  for (const KvBufferSpec &buffer : owner.buffers()) {
    const DeviceMemory &memory = state->tables[buffer.device];
    uint64_t offset = next[buffer.device];
    next[buffer.device] += aligned(entries * sizeof(uint64_t));
    state->tableAddresses.push_back(memory.address + offset);
    state->tableViews.push_back(
        reinterpret_cast<llmc_address *>(static_cast<std::byte *>(memory.view) + offset));
  }
  return state;
}

KvState::~KvState() { reset(); }

Status KvState::reserve(int64_t total) {
  if (total > maxTokens)
    return Status::error(Code::ResourceExhausted,
                         "the context is full: {} tokens are needed, but it holds {}", total,
                         maxTokens);
  if (total < 0)
    return Status::error(Code::InvalidArgument, "a context cannot hold {} tokens", total);
  while (groups.size() < groupsFor(total)) {
    LLMC_TRY_ASSIGN(std::unique_ptr<KvPool::Group> group, blocks->take());
    for (size_t i = 0; i < tableViews.size(); ++i)
      tableViews[i][groups.size()] = group->addresses[i];
    groups.push_back(std::move(group));
  }
  return Status::ok();
}

Status KvState::truncate(int64_t length) {
  if (length < 0 || length > tokens)
    return Status::error(Code::InvalidArgument, "cannot truncate a context of {} tokens to {}",
                         tokens, length);
  tokens = length;
  while (groups.size() > groupsFor(length)) {
    for (llmc_address *table : tableViews)
      table[groups.size() - 1] = 0;
    blocks->give(std::move(groups.back()));
    groups.pop_back();
  }
  return Status::ok();
}

} // namespace llmc
