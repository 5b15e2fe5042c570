// SPDX-License-Identifier: Apache-2.0
//
// One opened CPU device: a team of threads, images, programs. A submit runs to
// its end on the calling thread and the team, in one parallel region; what the
// host sees as asynchronous is over when submit returns.
#ifndef LLMC_RUNTIME_DRIVERS_CPU_CPU_DEVICE_H
#define LLMC_RUNTIME_DRIVERS_CPU_CPU_DEVICE_H

#include "runtime/abi/DriverAbi.h"
#include "runtime/core/Status.h"
#include "runtime/device/DriverEntry.h"
#include "runtime/device/HandleTable.h"
#include "runtime/drivers/cpu/CpuImage.h"
#include "runtime/drivers/cpu/ThreadTeam.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace llmc {

struct CpuDeviceOptions {
  uint32_t threads = 0; // 0: one per usable core
  std::string isaLimit;
  bool separateMemory = false;
};

/// Zeroed memory; 64-byte aligned, from 4 MiB on 2 MiB aligned and in huge pages where the system
/// gives them.
class CpuMemory {
public:
  static Result<std::shared_ptr<CpuMemory>> create(uint64_t size, uint32_t kind);
  ~CpuMemory();
  CpuMemory(const CpuMemory &) = delete;
  CpuMemory &operator=(const CpuMemory &) = delete;

  std::byte *data() const { return start; }
  uint32_t kind() const { return memoryKind; }

private:
  CpuMemory(std::byte *start, uint64_t mapped, uint32_t kind)
      : start(start), mapped(mapped), memoryKind(kind) {}
  std::byte *start;
  uint64_t mapped; // bytes from mmap; 0: from the heap
  uint32_t memoryKind;
};

class CpuDevice {
public:
  static Result<std::unique_ptr<CpuDevice>> open(const CpuDeviceOptions &options,
                                                 llmc_device_info &info);

  Status alloc(uint64_t size, uint32_t kind, llmc_memory &memory);
  Status free(llmc_handle handle);
  Status map(llmc_handle memory, void *&view) const;
  Status loadCode(std::span<const llmc_image> images, llmc_handle &code, uint64_t &chosen);
  Status createProgram(llmc_handle code, std::span<const llmc_step> steps, llmc_handle &program);
  Status submit(llmc_handle program, const llmc_submit_info &info, uint64_t &ticket);
  Status wait(uint64_t ticket, DriverStep &step);

private:
  struct Step {
    llmc_kernel_fn kernel; // null for a copy
    uint32_t operandBegin;
    uint32_t scalarBegin;
  };
  struct Program {
    std::shared_ptr<CpuImage> image; // keeps the kernels mapped
    std::vector<Step> steps;
    uint64_t operandCount = 0;
    uint64_t scalarCount = 0;
  };
  struct Region;
  struct Outcome {
    Status status;
    DriverStep step;
  };

  CpuDevice() = default;
  Status reserveScratch(uint64_t bytes);
  Outcome run(const Program &program, const llmc_submit_info &info);
  static void runWorker(void *region, uint32_t worker);

  CpuDeviceOptions options;
  HandleTable<CpuMemory, CpuImage, Program> handles;
  std::mutex teamLock; // one submit at a time; guards team, scratch
  std::unique_ptr<ThreadTeam> team;
  std::vector<std::shared_ptr<CpuMemory>> scratch; // per worker
  uint64_t scratchBytes = 0;                       // of each
  std::mutex ticketLock;                           // guards the two below
  uint64_t lastTicket = 0;
  std::map<uint64_t, Outcome> failures; // not yet told
};

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_CPU_CPU_DEVICE_H
