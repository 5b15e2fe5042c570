// SPDX-License-Identifier: Apache-2.0
//
// What can be known of an entry before any call: which memory each buffer
// stands for, and its instructions cut into device programs, transfers and
// waits. Built once by the executor, then only read.
#ifndef LLMC_RUNTIME_EXEC_ENTRY_PLAN_H
#define LLMC_RUNTIME_EXEC_ENTRY_PLAN_H

#include "runtime/abi/BundleFormat.h"
#include "runtime/bundle/Program.h"
#include "runtime/core/Status.h"
#include "runtime/device/Device.h"
#include "runtime/exec/KvState.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace llmc {

/// A buffer that lives in a device's arena: an ARENA buffer, or an input or output of a device that
/// can't work in the caller's memory. Aliases share their root's slot.
struct ArenaSlot {
  uint32_t buffer = 0; // the root
  uint32_t device = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t io = LLMC_NONE;       // input or output it is a copy of
  bool isOutput = false;         // which of the two
  std::vector<uint32_t> members; // the root and its aliases
};

/// A maximal run of instructions that the executor hands on as one.
struct Segment {
  enum class Kind { Program, Transfer, Wait };
  Kind kind = Kind::Program;
  uint32_t device = 0; // of a transfer: the destination's
  uint32_t first = 0;  // instruction; a transfer or wait is one instruction
  uint32_t count = 0;
  DeviceObject program;
  uint32_t operandBegin = 0; // its part of the entry's tables
  uint32_t operandCount = 0;
  uint32_t scalarBegin = 0;
  uint32_t scalarCount = 0;
};

struct EntryPlan {
  /// Cuts `entry` up and makes its device programs. `codes` per device, 0 where no code was loaded.
  static Result<std::unique_ptr<EntryPlan>> build(const Program &program,
                                                  const llmc_entry_record &entry,
                                                  std::span<const std::shared_ptr<Device>> devices,
                                                  std::span<const llmc_handle> codes);

  const Program *program = nullptr;
  const llmc_entry_record *entry = nullptr;
  std::span<const llmc_io_record> inputs;
  std::span<const llmc_io_record> outputs;
  std::span<const llmc_expr_record> exprs;
  std::span<const llmc_binding_record> bindings;
  std::span<const llmc_check_record> checks;
  std::span<const llmc_buffer_record> buffers;
  std::span<const llmc_instruction_record> instructions;

  std::vector<uint32_t> roots;   // per buffer: itself, or what it is an alias of
  std::vector<uint32_t> slotOf;  // per buffer: the slot of its root, or LLMC_NONE
  std::vector<uint32_t> kvIndex; // per buffer: its place among the KV buffers, or LLMC_NONE
  std::vector<KvBufferSpec> kvBuffers;
  std::vector<ArenaSlot> slots;
  std::vector<bool> grows; // per binding: counts the past, which grows from call to call

  std::vector<Segment> segments;
  std::vector<uint32_t> operands; // per operand of all programs: the root buffer
  std::vector<uint32_t> scalars;  // per scalar of all programs: the expression

private:
  void findMemory(std::span<const std::shared_ptr<Device>> devices);
  Status cutSegments(std::span<const std::shared_ptr<Device>> devices,
                     std::span<const llmc_handle> codes);
  Status makeProgram(Segment &segment, Device &device, llmc_handle code);
};

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_ENTRY_PLAN_H
