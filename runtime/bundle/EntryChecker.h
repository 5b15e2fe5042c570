// SPDX-License-Identifier: Apache-2.0
//
// Checks the records of one entry point, whose ranges were checked before.
// Private to runtime/bundle, part of ProgramChecker.
#ifndef LLMC_RUNTIME_BUNDLE_ENTRYCHECKER_H
#define LLMC_RUNTIME_BUNDLE_ENTRYCHECKER_H

#include "runtime/bundle/ProgramChecker.h"

#include <vector>

namespace llmc {

class EntryChecker {
public:
  EntryChecker(const ProgramChecker &owner, const llmc_entry_record &entry);
  /// Each step may rely on what the ones before it checked.
  Status check();

private:
  Status checkExprs() const;
  Status checkIos(std::span<const llmc_io_record> ios, bool isInput) const;
  Status checkIo(const llmc_io_record &io, bool isInput) const;
  Status checkPairs() const;
  Status checkBindings() const;
  Status checkConditions() const;
  Status checkBuffers() const;
  Status checkBuffer(const llmc_buffer_record &buffer) const;
  Status checkIoBuffers(std::span<const llmc_io_record> ios, uint32_t bufferKind,
                        const char *kind) const;
  Status checkInstructions();
  Status checkInstruction(uint32_t index, const llmc_instruction_record &instruction);
  Status checkDispatch(const llmc_instruction_record &instruction,
                       std::span<const uint32_t> args) const;
  Status checkCopy(const llmc_instruction_record &instruction,
                   std::span<const uint32_t> args) const;
  Status checkUse(uint32_t index, uint32_t buffer, bool isRead, bool isWritten);

  Status checkIndex(uint32_t index, size_t count, const char *what) const;
  Status checkIndexList(llmc_range range, uint64_t limit, size_t count, const char *what) const;
  /// The buffer whose memory `buffer` names: itself, or what it is an alias of.
  uint32_t rootOf(uint32_t buffer) const {
    return buffers[buffer].kind == LLMC_BUFFER_ALIAS ? buffers[buffer].source : buffer;
  }

  const ProgramChecker &owner;
  const Program &program;
  const llmc_entry_record &entry;
  std::span<const llmc_io_record> inputs;
  std::span<const llmc_io_record> outputs;
  std::span<const llmc_expr_record> exprs;
  std::span<const llmc_buffer_record> buffers;
  std::span<const llmc_instruction_record> instructions;
  std::vector<bool> written; ///< per buffer, before the instruction that is being checked
};

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_ENTRYCHECKER_H
