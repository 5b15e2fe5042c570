// SPDX-License-Identifier: Apache-2.0
//
// A program as text for people (`llmc inspect`). Not a format: nothing reads it
// back, and it may change in any release.
#ifndef LLMC_RUNTIME_BUNDLE_PROGRAMPRINTER_H
#define LLMC_RUNTIME_BUNDLE_PROGRAMPRINTER_H

#include "runtime/bundle/Program.h"

#include <string>

namespace llmc {

/// Entries with inputs, outputs, checks, buffers and instructions.
std::string printProgram(const Program &program);
/// Symbols and where each entry gets their values.
std::string printSymbols(const Program &program);
/// Kernels, with how many instructions dispatch them.
std::string printKernels(const Program &program);
/// Expression `index` of an entry with its operands written out, e.g. `(past + sequence) * 4`.
std::string printExpr(const Program &program, const llmc_entry_record &entry, uint32_t index);

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_PROGRAMPRINTER_H
