// SPDX-License-Identifier: Apache-2.0
//
// From named tensors to an entry's ordered inputs and outputs.
#include "tools/cli/ModelRun.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace llmc::cli {

namespace {

std::vector<TensorSpec> specsOf(const Program &program, std::span<const llmc_io_record> ios) {
  std::vector<TensorSpec> specs;
  for (const llmc_io_record &io : ios)
    specs.push_back({std::string(program.string(io.name)), Dtype(io.dtype)});
  return specs;
}

} // namespace

std::vector<TensorSpec> inputSpecs(const Program &program, size_t entry) {
  return specsOf(program, program.inputs(program.entries()[entry]));
}

std::vector<TensorSpec> outputSpecs(const Program &program, size_t entry) {
  return specsOf(program, program.outputs(program.entries()[entry]));
}

Result<ModelRun> ModelRun::create(Model &model) {
  auto entry = model.runEntry();
  if (!entry)
    return Status::error(Code::InvalidArgument,
                         "the bundle has no entry for runs, only for sessions");
  ModelRun run;
  run.entryIndex = *entry;
  run.inputList = inputSpecs(model.program(), *entry);
  run.outputList = outputSpecs(model.program(), *entry);
  run.execContext = model.executor()->createContext();
  return run;
}

Status ModelRun::bind(std::span<const OwnedTensor> tensors) {
  bound.clear();
  std::vector<std::string> missing;
  for (const TensorSpec &spec : inputList) {
    auto found = std::ranges::find(tensors, spec.name, &OwnedTensor::name);
    if (found == tensors.end()) {
      missing.push_back(fmt::format("'{}'", spec.name));
      continue;
    }
    bound.push_back({found->dtype, found->dims, found->data.data()});
  }
  if (!missing.empty())
    return Status::error(Code::InvalidArgument, "these inputs are missing: {}",
                         fmt::join(missing, ", "));
  LLMC_TRY_ASSIGN(std::vector<Shape> shapes, execContext->outputShapes(entryIndex, bound));
  outputTensors.clear();
  for (size_t i = 0; i < shapes.size(); ++i) {
    OwnedTensor tensor;
    tensor.name = outputList[i].name;
    tensor.dtype = outputList[i].dtype;
    tensor.dims = shapes[i];
    LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(tensor.dtype, tensor.dims));
    tensor.data.resize(bytes);
    outputTensors.push_back(std::move(tensor));
  }
  return Status::ok();
}

Status ModelRun::run(bool profile) {
  std::vector<Tensor> results;
  for (OwnedTensor &tensor : outputTensors)
    results.push_back({tensor.dtype, tensor.dims, tensor.data.data()});
  CallOptions options;
  options.profile = profile;
  return execContext->run(entryIndex, bound, results, options);
}

} // namespace llmc::cli
