// SPDX-License-Identifier: Apache-2.0
//
// Runs a model's `run` entry on tensors that own their memory.
#ifndef LLMC_TOOLS_CLI_MODEL_RUN_H
#define LLMC_TOOLS_CLI_MODEL_RUN_H

#include "runtime/llm/Model.h"
#include "tools/cli/TensorSet.h"

namespace llmc::cli {

std::vector<TensorSpec> inputSpecs(const Program &program, size_t entry);
std::vector<TensorSpec> outputSpecs(const Program &program, size_t entry);

class ModelRun {
public:
  /// InvalidArgument when the bundle has no `run` entry.
  static Result<ModelRun> create(Model &model);

  size_t entry() const { return entryIndex; }
  const std::vector<TensorSpec> &inputs() const { return inputList; }
  const std::vector<TensorSpec> &outputs() const { return outputList; }
  ExecContext &context() { return *execContext; }

  /// Binds `tensors`, found by their names, which stay the caller's, and makes room for the
  /// outputs. InvalidArgument names all inputs that are missing.
  Status bind(std::span<const OwnedTensor> tensors);
  /// Runs once with what was bound.
  Status run(bool profile = false);
  /// In the model's order.
  const std::vector<OwnedTensor> &results() const { return outputTensors; }

private:
  ModelRun() = default;
  size_t entryIndex = 0;
  std::vector<TensorSpec> inputList;
  std::vector<TensorSpec> outputList;
  std::unique_ptr<ExecContext> execContext;
  std::vector<ConstTensor> bound;
  std::vector<OwnedTensor> outputTensors;
};

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_MODEL_RUN_H
