// SPDX-License-Identifier: Apache-2.0
//
// Values of an entry's size expressions. All arithmetic is checked: what
// doesn't fit in an int64, divides by zero or can't be broadcast is an error
// of the call, told in terms of the model's symbols.
#ifndef LLMC_RUNTIME_EXEC_EXPRESSIONS_H
#define LLMC_RUNTIME_EXEC_EXPRESSIONS_H

#include "runtime/abi/BundleFormat.h"
#include "runtime/bundle/Program.h"
#include "runtime/core/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace llmc {

/// Evaluates `exprs` in order. `symbols` has a value per symbol of the program. On failure `values`
/// holds those of the expressions before the failing one.
Status evaluateExprs(const Program &program, std::span<const llmc_expr_record> exprs,
                     std::span<const int64_t> symbols, std::vector<int64_t> &values);

/// "past_sequence_length + sequence_length". Deep expressions are cut with "...".
std::string exprText(const Program &program, std::span<const llmc_expr_record> exprs,
                     uint32_t index);

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_EXPRESSIONS_H
