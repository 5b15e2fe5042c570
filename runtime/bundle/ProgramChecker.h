// SPDX-License-Identifier: Apache-2.0
//
// Finds the tables of a program and checks every record of them, once. Private
// to runtime/bundle: others use a Program, which exists only after the check.
#ifndef LLMC_RUNTIME_BUNDLE_PROGRAMCHECKER_H
#define LLMC_RUNTIME_BUNDLE_PROGRAMCHECKER_H

#include "runtime/bundle/Program.h"

namespace llmc {

class ProgramChecker {
public:
  ProgramChecker(Program &program, std::span<const std::byte> bytes, uint64_t weightsSize)
      : program(program), bytes(bytes), weightsSize(weightsSize) {}
  /// Fills the program's tables; afterwards its accessors may be used.
  Status check();

private:
  Status readTables();
  Status checkText() const;
  Status checkString(llmc_str text, const char *what, bool mayBeEmpty = false) const;
  Status checkDevices() const;
  Status checkSymbols() const;
  Status checkKernels() const;
  Status checkEntries() const;

  template <typename T>
  Status readTable(const llmc_table &table, const char *name, uint64_t limit,
                   std::span<const T> &result) const;

  friend class EntryChecker;
  Program &program;
  std::span<const std::byte> bytes;
  uint64_t weightsSize;
};

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_PROGRAMCHECKER_H
