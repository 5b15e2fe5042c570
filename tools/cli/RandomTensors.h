// SPDX-License-Identifier: Apache-2.0
//
// Inputs made up for a model: the same for the same seed on every machine.
#ifndef LLMC_TOOLS_CLI_RANDOM_TENSORS_H
#define LLMC_TOOLS_CLI_RANDOM_TENSORS_H

#include "runtime/bundle/Program.h"
#include "tools/cli/OwnedTensor.h"

#include <map>

namespace llmc::cli {

/// Shapes given on the command line, by input.
using ShapeMap = std::map<std::string, Shape>;

/// Adds "name=2x7" ("name=" for a scalar) to `shapes`.
Status parseShape(const std::string &text, ShapeMap &shapes);

/// Random inputs for the entry: floats normal, token ids below 100, masks full of ones, positions
/// counted up, other integers 0 or 1. Dimensions that `shapes` leaves open follow from those it
/// gives; else a batch is 1, a sequence 8 and a past 0.
Result<std::vector<OwnedTensor>> randomInputs(const Program &program, size_t entry,
                                              const ShapeMap &shapes, uint64_t seed);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_RANDOM_TENSORS_H
