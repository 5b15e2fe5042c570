// SPDX-License-Identifier: Apache-2.0
//
// Runs a bundle's program. An Executor holds what all callers share and never
// changes after create(): devices, code, resolved kernels, weights. An
// ExecContext holds what one caller at a time needs: the arena, its cached
// packings, operand tables, the profile. The host interprets control, copies
// and waits; each maximal run of dispatches on a device is one device program.
#ifndef LLMC_RUNTIME_EXEC_EXECUTOR_H
#define LLMC_RUNTIME_EXEC_EXECUTOR_H

#include "runtime/core/Status.h"
#include "runtime/core/Tensor.h"
#include "runtime/device/Device.h"
#include "runtime/exec/KvState.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace llmc {

class BundleReader;

struct ExecutorOptions {
  /// Bytes that one context's arenas may take, over all devices.
  uint64_t arenaLimit = UINT64_MAX;
};

/// Opens a program's device instances: for each of its device records the driver it names, with
/// `options`, in the records' order.
Result<std::vector<std::shared_ptr<Device>>> openDevices(const DriverRegistry &registry,
                                                         const BundleReader &bundle,
                                                         std::span<const DeviceOption> options);

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
};

class ExecContext;

class Executor : public std::enable_shared_from_this<Executor> {
public:
  /// `devices` parallel to the program's device records. Loads code, resolves every kernel, brings
  /// weights to devices that don't use host memory.
  static Result<std::shared_ptr<Executor>> create(std::shared_ptr<const BundleReader> bundle,
                                                  std::vector<std::shared_ptr<Device>> devices,
                                                  const ExecutorOptions &options = {});
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  const BundleReader &bundle() const;
  std::span<const std::shared_ptr<Device>> devices() const;

  /// A context for one thread at a time; keeps the executor alive.
  std::unique_ptr<ExecContext> createContext();
  /// The KV buffers that all session entries share; empty when there is no session entry.
  std::vector<KvBufferSpec> kvBuffers() const;

private:
  friend class ExecContext;
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

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
  /// with an input. After a failure the outputs' contents are undefined.
  Status run(size_t entry, std::span<const ConstTensor> inputs, std::span<const Tensor> outputs,
             const CallOptions &options = {});

  /// Bytes of arena memory held.
  uint64_t arenaBytes() const;
  std::vector<ProfileRow> profile() const;
  void clearProfile();

private:
  friend class Executor;
  struct Impl;
  explicit ExecContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_EXECUTOR_H
