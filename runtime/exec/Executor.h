// SPDX-License-Identifier: Apache-2.0
//
// Runs a bundle's program. An Executor holds what all callers share and never
// changes after create(): devices, code, resolved kernels, weights. An
// ExecContext holds what one caller at a time needs: the arena, its cached
// packings, operand tables, the profile. The host interprets control, copies
// and waits; each maximal run of dispatches on a device is one device program.
#ifndef LLMC_RUNTIME_EXEC_EXECUTOR_H
#define LLMC_RUNTIME_EXEC_EXECUTOR_H

#include "runtime/bundle/BundleReader.h"
#include "runtime/core/Status.h"
#include "runtime/core/Tensor.h"
#include "runtime/device/Device.h"
#include "runtime/exec/DeviceCopier.h"
#include "runtime/exec/EntryPlan.h"
#include "runtime/exec/HugePageMover.h"
#include "runtime/exec/KvState.h"
#include "runtime/exec/WeightPlacement.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

struct ExecutorOptions {
  /// Bytes that one context's arenas may take, over all devices.
  uint64_t arenaLimit = UINT64_MAX;
  /// Move weights of a mapped file into 2 MB pages, in the background after the first call.
  bool hugePages = true;
};

/// What an executor runs. A BundleReader has all of it; tests put it together by hand.
struct ExecutorSource {
  struct Image {
    std::string name; // "x86_64-avx2.so"
    std::span<const std::byte> bytes;
  };

  static ExecutorSource fromBundle(std::shared_ptr<const BundleReader> bundle);

  std::shared_ptr<const Program> program;
  std::span<const std::byte> weights; // starts at a multiple of 64
  bool weightsAreMapped = false;      // from a file, for this source alone
  std::vector<Image> images;
  std::shared_ptr<const void> owner; // of weights and images; may be null
};

/// A setting for the devices of one driver.
struct DriverSetting {
  std::string driver;
  DeviceOption option;
};

/// Opens a program's device instances, in the order of its device records.
Result<std::vector<std::shared_ptr<Device>>> openDevices(const DriverRegistry &registry,
                                                         const Program &program,
                                                         std::span<const DriverSetting> settings);

/// A request to stop, given by any thread. A call that sees it ends with Cancelled.
class CancelFlag {
public:
  void set() { __atomic_store_n(&word, 1, __ATOMIC_RELEASE); }
  void clear() { __atomic_store_n(&word, 0, __ATOMIC_RELEASE); }
  bool isSet() const { return __atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0; }
  /// For drivers, which read it between steps.
  const int32_t *address() const { return &word; }

private:
  int32_t word = 0;
};

struct CallOptions {
  /// Session entries: the cache to extend, and how many tokens this call adds (>= 1). The tokens
  /// already in it are the call's past; on success its length has grown by `sequence`.
  KvState *kv = nullptr;
  int64_t sequence = 0;
  /// May be null.
  const CancelFlag *cancel = nullptr;
  /// Add to the context's profile. Costs a clock read per instruction.
  bool profile = false;
};

/// Accumulated over a context's profiled calls, one row per (entry, instruction).
struct ProfileRow {
  std::string label;  // the ONNX node
  std::string kernel; // the kernel's label, "copy" or "transfer"
  uint64_t calls = 0;
  double microseconds = 0;
  /// Sizes of all operands, over all calls: at most what was read and written, since a kernel may
  /// need only some rows of a table. Of a cache, the tokens held.
  double bytes = 0;
  /// Multiplications and additions of matrix products and attention, over all calls.
  double arithmetic = 0;
};

/// One execution of an instruction in a profiled call. The texts live as long as the executor.
struct TraceEvent {
  std::string_view label;  // the ONNX node
  std::string_view kernel; // as in ProfileRow
  uint32_t device = 0;
  std::chrono::steady_clock::time_point begin;
  std::chrono::nanoseconds duration{0};
};

class ExecContext;

class Executor : public std::enable_shared_from_this<Executor> {
public:
  /// `devices` parallel to the program's device records. Loads code, resolves every kernel, brings
  /// weights to devices that don't use host memory.
  static Result<std::shared_ptr<Executor>> create(ExecutorSource source,
                                                  std::vector<std::shared_ptr<Device>> devices,
                                                  const ExecutorOptions &options = {});
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  const Program &program() const { return *source.program; }
  std::span<const std::shared_ptr<Device>> devices() const { return deviceList; }
  const ExecutorOptions &options() const { return settings; }
  /// The image each device runs, e.g. "x86_64-avx2.so"; empty where no kernel runs.
  std::span<const std::string> codeNames() const { return chosenImages; }
  /// The KV buffers that all session entries share; empty when there is no session entry.
  const std::vector<KvBufferSpec> &kvBuffers() const { return kvSpecs; }

  /// A context for one thread at a time; keeps the executor alive.
  std::unique_ptr<ExecContext> createContext();
  /// Null when the weights stay where they are.
  HugePageMover *hugePageMover() const { return mover.get(); }

private:
  friend class ExecContext;
  Executor() = default;
  Status loadCode(uint32_t device);
  Status planEntries();

  ExecutorSource source;
  ExecutorOptions settings;
  std::vector<std::shared_ptr<Device>> deviceList;
  std::vector<DeviceCode> codes; // per device
  std::vector<std::string> chosenImages;
  std::vector<WeightPlacement> weights;          // per device
  std::vector<std::unique_ptr<EntryPlan>> plans; // per entry
  std::vector<KvBufferSpec> kvSpecs;
  std::unique_ptr<HugePageMover> mover; // last: it stops before what it moves goes
};

/// What one caller at a time needs to run entries.
class ExecContext {
public:
  ~ExecContext();
  ExecContext(const ExecContext &) = delete;
  ExecContext &operator=(const ExecContext &) = delete;

  /// The shapes of `entry`'s outputs for these inputs, whose data is not looked at. Reports every
  /// error of the call that does not depend on data.
  Result<std::vector<Shape>> outputShapes(size_t entry, std::span<const ConstTensor> inputs,
                                          const CallOptions &options = {});

  /// Runs `entry`. Inputs and outputs in the entry's order, all in host memory; outputs have the
  /// dtypes and shapes of outputShapes() and are complete on return. An output may share memory
  /// with inputs, but not with another output. After a failure outputs' contents are undefined, and
  /// the cache's length is what it was.
  Status run(size_t entry, std::span<const ConstTensor> inputs, std::span<const Tensor> outputs,
             const CallOptions &options = {});

  /// Bytes of arena memory held.
  uint64_t arenaBytes() const;
  /// How often a packing was made; for tests and tuning.
  uint64_t packingCount() const { return packings; }
  std::vector<ProfileRow> profile() const;
  void clearProfile();
  /// From now on profiled calls also keep their events, kMaxTraceEvents at most.
  void startTrace() { tracing = true; }
  const std::vector<TraceEvent> &trace() const { return events; }
  static constexpr size_t kMaxTraceEvents = size_t(1) << 20;

private:
  friend class Executor;
  struct Packing;
  struct EntryState;
  explicit ExecContext(std::shared_ptr<Executor> executor);

  Result<EntryState *> stateOf(size_t entry);
  Status evaluate(EntryState &state, std::span<const ConstTensor> inputs,
                  const CallOptions &options);
  Status bindSymbols(EntryState &state, std::span<const ConstTensor> inputs,
                     const CallOptions &options);
  Status checkInputDims(EntryState &state, std::span<const ConstTensor> inputs) const;
  Status checkOutputs(const EntryState &state, std::span<const Tensor> outputs) const;
  Status checkSizes(EntryState &state) const;
  static uint64_t slotSize(const EntryPlan &plan, const ArenaSlot &slot,
                           std::span<const int64_t> values);
  Result<const Packing *> pack(EntryState &state);
  /// Null when there is no packing for the key that serves this call's sizes.
  Result<const Packing *> findPacking(EntryState &state, bool rounded);
  Status growArenas(const Packing &packing);
  Status stageInputs(const EntryState &state, std::span<const ConstTensor> inputs,
                     std::span<const Tensor> outputs);
  void bindPlaces(EntryState &state, const Packing &packing, std::span<const Tensor> outputs,
                  const CallOptions &options);
  Status execute(EntryState &state, const CallOptions &options);
  Status submit(EntryState &state, uint32_t segment, const CallOptions &options);
  Status drain(EntryState &state, uint32_t device, bool profile);
  Status drainAll(EntryState &state, bool profile);
  void count(EntryState &state, size_t instruction, uint32_t device,
             std::chrono::steady_clock::time_point begin, std::chrono::nanoseconds duration);

  std::shared_ptr<Executor> executor;
  std::vector<std::unique_ptr<EntryState>> states; // per entry, made at its first call
  std::vector<DeviceMemory> arenas;                // per device
  std::vector<DeviceCopier> copiers;               // per device
  std::vector<std::vector<std::byte>> stagedInputs;
  std::vector<const void *> inputData; // of the running call
  uint64_t packings = 0;
  bool tracing = false;
  std::vector<TraceEvent> events;
};

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_EXECUTOR_H
