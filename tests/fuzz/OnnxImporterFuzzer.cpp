// SPDX-License-Identifier: Apache-2.0
//
// Any bytes must give an error, or a module that verifies and whose weights can
// be read to the last byte. A failure without a diagnostic counts as a bug too.
#include "compiler/onnx/OnnxImporter.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using namespace llmc;

/// The ends of a weight: computed ones can be far larger than their file.
void touch(const Weight &weight) {
  constexpr uint64_t kPart = 1 << 14;
  std::vector<char> part(std::min(kPart, weight.byteSize()));
  weight.read(0, part);
  weight.read(weight.byteSize() - part.size(), part);
  (void)weight.sampleHash();
}

} // namespace

/// LLVM's libraries are not instrumented: what inlined code poisons, theirs hands out again.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // An exact copy, so that reading past its end is seen.
  std::vector<char> bytes(data, data + size);
  llvm::Expected<std::unique_ptr<OnnxModel>> model = OnnxReader::fromBytes(bytes);
  if (!model) {
    if (toString(model.takeError()).empty())
      abort();
    return 0;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  size_t errors = 0;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
  });
  WeightStore store;
  mlir::OwningOpRef<mlir::ModuleOp> module = importOnnx(**model, store, &context);
  if (!module != (errors != 0) || (module && failed(mlir::verify(*module))))
    abort();
  model->reset();
  for (const std::unique_ptr<const Weight> &weight : store.weights())
    touch(*weight);
  return 0;
}
