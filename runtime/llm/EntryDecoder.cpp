// SPDX-License-Identifier: Apache-2.0
//
// One run of an entry.
#include "runtime/llm/EntryDecoder.h"

namespace llmc {

EntryDecoder::EntryDecoder(const std::shared_ptr<Executor> &executor, size_t entry,
                           SequenceInputs inputs, LogitsReader reader)
    : program(executor->program()), entry(entry), inputs(std::move(inputs)),
      logitsReader(std::move(reader)), outputs(program.entries()[entry].outputs.count),
      execContext(executor->createContext()) {}

Status EntryDecoder::runEntry(std::span<const ConstTensor> given, const CallOptions &options) {
  LLMC_TRY_ASSIGN(std::vector<Shape> shapes, execContext->outputShapes(entry, given, options));
  std::span<const llmc_io_record> ios = program.outputs(program.entries()[entry]);
  std::vector<Tensor> results(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    LLMC_TRY_ASSIGN(results[i], outputs.prepare(i, Dtype(ios[i].dtype), shapes[i]));
  }
  LLMC_TRY(execContext->run(entry, given, results, options));
  return logitsReader.read(results[logitsReader.output()]);
}

} // namespace llmc
