// SPDX-License-Identifier: Apache-2.0
//
// Programs on the team. Every worker walks all steps, with a barrier after
// each; the step at which a program stops is the same for every worker.
#include "runtime/drivers/cpu/CpuDevice.h"

#include "runtime/drivers/cpu/CpuFeatures.h"
#include "runtime/drivers/cpu/CpuTopology.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace llmc {

// Kernels take the operand table as it is.
static_assert(sizeof(llmc_address) == sizeof(void *), "the CPU driver needs 64-bit pointers");

namespace {

constexpr uint64_t kAlign = LLMC_MEMORY_ALIGN;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kHugeFrom = uint64_t{4} << 20;
/// A copy is shared out in pieces of whole pages.
constexpr uint64_t kCopyPiece = 4096;
constexpr int32_t kCancelled = INT32_MIN;

uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Kernels run with the default rounding, traps and denormals on every worker. The caller's thread
/// may have been set up otherwise (an application built with -ffast-math), and gets that back.
class DefaultFloatMode {
public:
#if defined(__x86_64__)
  DefaultFloatMode() : saved(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~DefaultFloatMode() { _mm_setcsr(saved); }

private:
  unsigned saved;
#endif
};

void copyPart(const llmc_address *operands, int64_t bytes, uint32_t worker, uint32_t workers) {
  auto size = static_cast<uint64_t>(bytes);
  uint64_t part = roundUp((size + workers - 1) / workers, kCopyPiece);
  uint64_t begin = std::min(part * worker, size);
  uint64_t end = std::min(begin + part, size);
  if (begin < end)
    std::memcpy(reinterpret_cast<std::byte *>(operands[0]) + begin,
                reinterpret_cast<const std::byte *>(operands[1]) + begin, end - begin);
}

std::string kernelErrorText(int32_t code) {
  switch (code) {
  case LLMC_KERNEL_INDEX_OUT_OF_RANGE:
    return "an index is out of range";
  case LLMC_KERNEL_DIVISION_BY_ZERO:
    return "integer division by zero";
  default:
    return fmt::format("the kernel failed with code {}", code);
  }
}

} // namespace

Result<std::shared_ptr<CpuMemory>> CpuMemory::create(uint64_t size, uint32_t kind) {
  // Leaves room for rounding and alignment; no machine has the rest.
  bool possible = size <= uint64_t{1} << 56;
  if (possible && size < kHugeFrom) {
    uint64_t bytes = roundUp(size, kAlign);
    void *memory = std::aligned_alloc(kAlign, bytes);
    if (memory) {
      std::memset(memory, 0, bytes);
      return std::shared_ptr<CpuMemory>(new CpuMemory(static_cast<std::byte *>(memory), 0, kind));
    }
  } else if (possible) {
    uint64_t bytes = roundUp(size, kHugePage);
    void *memory = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      auto *base = static_cast<std::byte *>(memory);
      uint64_t skip =
          roundUp(reinterpret_cast<uintptr_t>(base), kHugePage) - reinterpret_cast<uintptr_t>(base);
      if (skip != 0)
        munmap(base, skip);
      if (skip != kHugePage)
        munmap(base + skip + bytes, kHugePage - skip);
      madvise(base + skip, bytes, MADV_HUGEPAGE); // advice: a refusal changes nothing
      return std::shared_ptr<CpuMemory>(new CpuMemory(base + skip, bytes, kind));
    }
  }
  return Status::error(Code::Unavailable, "cannot get {} bytes of memory", size);
}

CpuMemory::~CpuMemory() {
  if (mapped != 0)
    munmap(start, mapped);
  else
    std::free(start);
}

Result<std::unique_ptr<CpuDevice>> CpuDevice::open(const CpuDeviceOptions &options,
                                                   llmc_device_info &info) {
  if (!options.isaLimit.empty() && !isaLevelRank(options.isaLimit))
    return Status::error(Code::InvalidArgument, "'{}' is no ISA level of {}", options.isaLimit,
                         hostArch());
  CpuCount cpus = countCpus();
  std::unique_ptr<CpuDevice> device(new CpuDevice());
  device->options = options;
  LLMC_TRY_ASSIGN(device->team,
                  ThreadTeam::create(options.threads ? options.threads : cpus.cores, cpus.threads));
  uint32_t workers = device->team->workers();
  device->scratch.resize(workers);
  info.flags = options.separateMemory ? 0 : LLMC_DEVICE_HOST_MEMORY;
  info.workers = workers;
  std::string text = fmt::format("{}, {}, {} thread{}", cpuModelName(),
                                 bestIsaLevel().empty() ? "no known ISA level" : bestIsaLevel(),
                                 workers, workers == 1 ? "" : "s");
  size_t size = std::min(text.size(), sizeof(info.description) - 1);
  std::memcpy(info.description, text.data(), size);
  info.description[size] = '\0';
  return device;
}

Status CpuDevice::alloc(uint64_t size, uint32_t kind, llmc_memory &memory) {
  if (size == 0)
    return Status::error(Code::InvalidArgument, "alloc of 0 bytes");
  if (kind != LLMC_MEMORY_DEVICE && kind != LLMC_MEMORY_HOST)
    return Status::error(Code::InvalidArgument, "{} is no kind of memory", kind);
  LLMC_TRY_ASSIGN(std::shared_ptr<CpuMemory> object, CpuMemory::create(size, kind));
  memory.address = reinterpret_cast<uintptr_t>(object->data());
  memory.handle = handles.add(std::move(object));
  return Status::ok();
}

Status CpuDevice::free(llmc_handle handle) {
  if (handle != 0 && !handles.remove(handle))
    return Status::error(Code::InvalidArgument, "free of the unknown handle {}", handle);
  return Status::ok();
}

Status CpuDevice::map(llmc_handle memory, void *&view) const {
  std::shared_ptr<CpuMemory> object = handles.find<CpuMemory>(memory);
  if (!object)
    return Status::error(Code::InvalidArgument, "handle {} is no memory of this device", memory);
  bool visible = !options.separateMemory || object->kind() == LLMC_MEMORY_HOST;
  view = visible ? object->data() : nullptr;
  return Status::ok();
}

Status CpuDevice::loadCode(std::span<const llmc_image> images, llmc_handle &code,
                           uint64_t &chosen) {
  LLMC_TRY_ASSIGN(size_t index, chooseCpuImage(images, options.isaLimit));
  const llmc_image &image = images[index];
  LLMC_TRY_ASSIGN(
      std::shared_ptr<CpuImage> object,
      CpuImage::load(image.name, {static_cast<const std::byte *>(image.bytes), image.size}));
  code = handles.add(std::move(object));
  chosen = index;
  return Status::ok();
}

Status CpuDevice::createProgram(llmc_handle code, std::span<const llmc_step> steps,
                                llmc_handle &program) {
  auto object = std::make_shared<Program>();
  object->image = handles.find<CpuImage>(code);
  if (!object->image && code != 0)
    return Status::error(Code::InvalidArgument, "handle {} is no code of this device", code);
  object->steps.reserve(steps.size());
  uint64_t scratchNeeded = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const llmc_step &step = steps[i];
    llmc_kernel_fn kernel = nullptr;
    if (step.kind == LLMC_STEP_DISPATCH) {
      if (!object->image || !step.kernel)
        return Status::error(Code::InvalidArgument, "step {} is a dispatch without {}", i,
                             step.kernel ? "code" : "a kernel");
      LLMC_TRY_ASSIGN(kernel, object->image->kernel(step.kernel));
    } else if (step.kind != LLMC_STEP_COPY) {
      return Status::error(Code::InvalidArgument, "step {} is of the unknown kind {}", i,
                           step.kind);
    } else if (step.operand_count != 2 || step.scalar_count != 1) {
      return Status::error(Code::InvalidArgument,
                           "step {} is a copy with {} operands and {} scalars, not 2 and 1", i,
                           step.operand_count, step.scalar_count);
    }
    object->steps.push_back({kernel, static_cast<uint32_t>(object->operandCount),
                             static_cast<uint32_t>(object->scalarCount)});
    object->operandCount += step.operand_count;
    object->scalarCount += step.scalar_count;
    if (object->operandCount > UINT32_MAX || object->scalarCount > UINT32_MAX)
      return Status::error(Code::InvalidArgument, "the program has too many operands");
    scratchNeeded = std::max(scratchNeeded, step.scratch_bytes);
  }
  LLMC_TRY(reserveScratch(scratchNeeded));
  program = handles.add(std::move(object));
  return Status::ok();
}

Status CpuDevice::reserveScratch(uint64_t bytes) {
  std::lock_guard guard(teamLock);
  if (bytes <= scratchBytes)
    return Status::ok();
  std::vector<std::shared_ptr<CpuMemory>> larger;
  for (uint32_t worker = 0; worker < team->workers(); ++worker) {
    LLMC_TRY_ASSIGN(std::shared_ptr<CpuMemory> memory,
                    CpuMemory::create(bytes, LLMC_MEMORY_DEVICE));
    larger.push_back(std::move(memory));
  }
  scratch = std::move(larger);
  scratchBytes = bytes;
  return Status::ok();
}

Status CpuDevice::submit(llmc_handle program, const llmc_submit_info &info, uint64_t &ticket) {
  std::shared_ptr<Program> object = handles.find<Program>(program);
  if (!object)
    return Status::error(Code::InvalidArgument, "handle {} is no program of this device", program);
  if (info.operand_count != object->operandCount || info.scalar_count != object->scalarCount)
    return Status::error(Code::InvalidArgument,
                         "submit gives {} operands and {} scalars, but the program takes {} and {}",
                         info.operand_count, info.scalar_count, object->operandCount,
                         object->scalarCount);
  for (size_t i = 0; i < object->steps.size(); ++i)
    if (const Step &step = object->steps[i]; !step.kernel && info.scalars[step.scalarBegin] < 0)
      return Status::error(Code::InvalidArgument, "step {} copies {} bytes", i,
                           info.scalars[step.scalarBegin]);
  Outcome outcome{Status::ok(), {}};
  {
    std::lock_guard guard(teamLock);
    outcome = run(*object, info);
  }
  std::lock_guard guard(ticketLock);
  ticket = ++lastTicket;
  if (!outcome.status.isOk())
    failures.emplace(ticket, std::move(outcome));
  return Status::ok();
}

Status CpuDevice::wait(uint64_t ticket, DriverStep &step) {
  std::lock_guard guard(ticketLock);
  if (ticket == 0 || ticket > lastTicket)
    return Status::error(Code::InvalidArgument, "ticket {} was never given out", ticket);
  auto it = failures.find(ticket);
  if (it == failures.end())
    return Status::ok();
  Outcome outcome = std::move(it->second);
  failures.erase(it);
  step = outcome.step;
  return outcome.status;
}

/// What the workers of one submit share.
struct CpuDevice::Region {
  const CpuDevice &device;
  ThreadTeam &team;
  const Program &program;
  const llmc_submit_info &info;
  /// 0, or (step + 1) << 32 | code of the first failure.
  alignas(kSeparate) std::atomic<uint64_t> failure{0};
};

void CpuDevice::runWorker(void *context, uint32_t worker) {
  auto &region = *static_cast<Region *>(context);
  const llmc_submit_info &info = region.info;
  const uint32_t workers = region.team.workers();
  const std::vector<Step> &steps = region.program.steps;
  const CpuMemory *scratch = region.device.scratch[worker].get();
  // The caller's worker keeps the time; the others would only repeat it.
  uint64_t *times = worker == 0 ? info.step_ns : nullptr;
  auto last = times ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};

  for (uint64_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    const llmc_address *operands = info.operands + step.operandBegin;
    int32_t code = LLMC_KERNEL_OK;
    if (worker == 0 && info.stop && __atomic_load_n(info.stop, __ATOMIC_ACQUIRE) != 0) {
      code = kCancelled;
    } else if (step.kernel) {
      llmc_kernel_args args{reinterpret_cast<void *const *>(operands),
                            info.scalars + step.scalarBegin, scratch ? scratch->data() : nullptr};
      code = step.kernel(&args, worker, workers);
    } else {
      copyPart(operands, info.scalars[step.scalarBegin], worker, workers);
    }
    if (code != LLMC_KERNEL_OK) {
      uint64_t none = 0;
      region.failure.compare_exchange_strong(none, (i + 1) << 32 | static_cast<uint32_t>(code));
    }
    // The end of the region is the last step's barrier.
    if (i + 1 < steps.size() || info.step_ns)
      region.team.sync();
    if (times) {
      auto now = std::chrono::steady_clock::now();
      times[i] = static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count());
      last = now;
    }
    // A quicker worker may already have failed in the next step. Who looks only now must still
    // take part in that step, or the other would wait for it for ever.
    uint64_t failure = region.failure.load();
    if (failure != 0 && failure >> 32 <= i + 1)
      return;
  }
}

CpuDevice::Outcome CpuDevice::run(const Program &program, const llmc_submit_info &info) {
  if (info.step_ns)
    std::fill_n(info.step_ns, program.steps.size(), 0);
  Region region{*this, *team, program, info};
  {
    DefaultFloatMode mode;
    team->run(runWorker, &region);
  }
  uint64_t failure = region.failure.load();
  if (failure == 0)
    return {Status::ok(), {}};
  auto code = static_cast<int32_t>(failure & UINT32_MAX);
  auto step = static_cast<uint32_t>((failure >> 32) - 1);
  if (code == kCancelled)
    return {Status::error(Code::Cancelled, "stopped before step {}", step), {step, 0}};
  return {Status::error(Code::InvalidArgument, "{}", kernelErrorText(code)), {step, code}};
}

} // namespace llmc
