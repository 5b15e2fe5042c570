// SPDX-License-Identifier: Apache-2.0
//
// Staging is made at the first need: most devices of most runs have views.
#include "runtime/exec/DeviceCopier.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace llmc {

namespace {
constexpr uint64_t kChunk = uint64_t{4} << 20;
} // namespace

Status DeviceCopier::prepare() {
  if (program)
    return Status::ok();
  LLMC_TRY_ASSIGN(incoming, device->alloc(kChunk, MemoryKind::Host));
  LLMC_TRY_ASSIGN(outgoing, device->alloc(kChunk, MemoryKind::Host));
  llmc_step step{LLMC_STEP_COPY, 2, 1, 0, 0, nullptr};
  LLMC_TRY_ASSIGN(program, device->createProgram(0, {&step, 1}));
  return Status::ok();
}

Status DeviceCopier::copy(llmc_address to, llmc_address from, uint64_t bytes) {
  llmc_address operands[] = {to, from};
  auto scalar = static_cast<int64_t>(bytes);
  llmc_submit_info info{};
  info.struct_size = sizeof(info);
  info.operands = operands;
  info.operand_count = 2;
  info.scalars = &scalar;
  info.scalar_count = 1;
  LLMC_TRY_ASSIGN(uint64_t ticket, device->submit(program.handle(), info));
  return device->wait(ticket);
}

Status DeviceCopier::upload(const Place &to, const void *from, uint64_t bytes) {
  if (bytes == 0)
    return Status::ok();
  if (to.view) {
    std::memcpy(to.view, from, bytes);
    return Status::ok();
  }
  LLMC_TRY(prepare());
  for (uint64_t done = 0; done < bytes; done += kChunk) {
    uint64_t part = std::min(kChunk, bytes - done);
    std::memcpy(incoming.view, static_cast<const std::byte *>(from) + done, part);
    LLMC_TRY(copy(to.address + done, incoming.address, part));
  }
  return Status::ok();
}

Status DeviceCopier::download(void *to, const Place &from, uint64_t bytes) {
  if (bytes == 0)
    return Status::ok();
  if (from.view) {
    std::memcpy(to, from.view, bytes);
    return Status::ok();
  }
  LLMC_TRY(prepare());
  for (uint64_t done = 0; done < bytes; done += kChunk) {
    uint64_t part = std::min(kChunk, bytes - done);
    LLMC_TRY(copy(outgoing.address, from.address + done, part));
    std::memcpy(static_cast<std::byte *>(to) + done, outgoing.view, part);
  }
  return Status::ok();
}

Status transfer(DeviceCopier &toDevice, const Place &to, DeviceCopier &fromDevice,
                const Place &from, uint64_t bytes) {
  if (to.view)
    return fromDevice.download(to.view, from, bytes);
  if (from.view)
    return toDevice.upload(to, from.view, bytes);
  std::vector<std::byte> chunk(std::min(kChunk, bytes));
  for (uint64_t done = 0; done < bytes; done += kChunk) {
    uint64_t part = std::min(kChunk, bytes - done);
    LLMC_TRY(fromDevice.download(chunk.data(), {from.address + done, nullptr}, part));
    LLMC_TRY(toDevice.upload({to.address + done, nullptr}, chunk.data(), part));
  }
  return Status::ok();
}

} // namespace llmc
