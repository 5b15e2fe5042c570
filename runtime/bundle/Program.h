// SPDX-License-Identifier: Apache-2.0
//
// A program (layout: runtime/abi/BundleFormat.h) after every field of it was
// checked. What the accessors return can be used without further checks: each
// index, range and string of a record is valid, enum fields hold known values,
// an expression refers to earlier ones only, and every size fits. Values that
// depend on a call (sizes from symbols) are not known here.
#ifndef LLMC_RUNTIME_BUNDLE_PROGRAM_H
#define LLMC_RUNTIME_BUNDLE_PROGRAM_H

#include "runtime/abi/BundleFormat.h"
#include "runtime/core/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace llmc {

class Program {
public:
  /// Copies `bytes`, so that nobody can change a program after its check, and checks the copy.
  /// `weightsSize`: bytes of the weights that the program's weight buffers lie in.
  static Result<std::shared_ptr<const Program>> load(std::span<const std::byte> bytes,
                                                     uint64_t weightsSize);

  std::span<const llmc_device_record> devices() const { return deviceTable; }
  std::span<const llmc_symbol_record> symbols() const { return symbolTable; }
  std::span<const llmc_kernel_record> kernels() const { return kernelTable; }
  std::span<const llmc_entry_record> entries() const { return entryTable; }
  /// The entry of that name, else null.
  const llmc_entry_record *findEntry(std::string_view name) const;
  /// The first entry of that kind (LLMC_ENTRY_RUN, LLMC_ENTRY_SESSION), else null.
  const llmc_entry_record *findEntry(uint32_t kind) const;

  std::string_view string(llmc_str text) const {
    return stringTable.substr(text.offset, text.size);
  }
  std::string_view label(const llmc_instruction_record &instruction) const {
    return string({instruction.label_offset, instruction.label_size});
  }
  /// An index list: an instruction's args and scalars, an io's dims.
  std::span<const uint32_t> pool(llmc_range range) const { return slice(poolTable, range); }
  /// Name of dim `dim` of an input or output; empty when it has none.
  std::string_view dimName(const llmc_io_record &io, uint32_t dim) const {
    std::span<const uint32_t> words = pool(io.dim_names);
    return string({words[2 * dim], words[2 * dim + 1]});
  }

  // The records of one entry; their indices are relative to these spans.
  std::span<const llmc_io_record> inputs(const llmc_entry_record &entry) const {
    return slice(ioTable, entry.inputs);
  }
  std::span<const llmc_io_record> outputs(const llmc_entry_record &entry) const {
    return slice(ioTable, entry.outputs);
  }
  std::span<const llmc_expr_record> exprs(const llmc_entry_record &entry) const {
    return slice(exprTable, entry.exprs);
  }
  std::span<const llmc_binding_record> bindings(const llmc_entry_record &entry) const {
    return slice(bindingTable, entry.bindings);
  }
  std::span<const llmc_check_record> checks(const llmc_entry_record &entry) const {
    return slice(checkTable, entry.checks);
  }
  std::span<const llmc_buffer_record> buffers(const llmc_entry_record &entry) const {
    return slice(bufferTable, entry.buffers);
  }
  std::span<const llmc_instruction_record> instructions(const llmc_entry_record &entry) const {
    return slice(instructionTable, entry.instructions);
  }

private:
  friend class EntryChecker;
  friend class ProgramChecker;
  Program() = default;

  template <typename T>
  static std::span<const T> slice(std::span<const T> table, llmc_range range) {
    return table.subspan(range.begin, range.count);
  }

  std::unique_ptr<uint64_t[]> storage; ///< 8-byte aligned copy of the file
  std::string_view stringTable;
  std::span<const uint32_t> poolTable;
  std::span<const llmc_device_record> deviceTable;
  std::span<const llmc_symbol_record> symbolTable;
  std::span<const llmc_kernel_record> kernelTable;
  std::span<const llmc_entry_record> entryTable;
  std::span<const llmc_expr_record> exprTable;
  std::span<const llmc_binding_record> bindingTable;
  std::span<const llmc_check_record> checkTable;
  std::span<const llmc_buffer_record> bufferTable;
  std::span<const llmc_io_record> ioTable;
  std::span<const llmc_instruction_record> instructionTable;
};

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_PROGRAM_H
