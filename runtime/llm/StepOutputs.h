// SPDX-License-Identifier: Apache-2.0
//
// Memory for an entry's outputs that is kept from step to step.
#ifndef LLMC_RUNTIME_LLM_STEP_OUTPUTS_H
#define LLMC_RUNTIME_LLM_STEP_OUTPUTS_H

#include "runtime/core/Tensor.h"
#include "runtime/llm/HostBuffer.h"

#include <vector>

namespace llmc {

class StepOutputs {
public:
  explicit StepOutputs(size_t count) : buffers(count) {}

  /// Output `index` as a tensor of that type and shape, in memory of its own.
  Result<Tensor> prepare(size_t index, Dtype dtype, const Shape &shape) {
    LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(dtype, shape));
    LLMC_TRY(buffers[index].reserve(bytes, bytes + bytes / 4));
    return Tensor{dtype, shape, buffers[index].data()};
  }

private:
  std::vector<HostBuffer> buffers;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_STEP_OUTPUTS_H
