// SPDX-License-Identifier: Apache-2.0
//
// A model's own functions. The importer inlines every call, so recursion and
// expansions that would not end in reasonable time are found here, before
// anything is built.
#ifndef LLMC_COMPILER_ONNX_LOCALFUNCTIONS_H
#define LLMC_COMPILER_ONNX_LOCALFUNCTIONS_H

#include "compiler/onnx/ImportDiagnostics.h"
#include "compiler/onnx/OnnxModelData.h"

#include "llvm/ADT/StringMap.h"

namespace llmc {

/// "ai.onnx" and "" are the same domain; this gives "".
inline llvm::StringRef normalDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? llvm::StringRef() : domain;
}

class LocalFunctions {
public:
  explicit LocalFunctions(const pb::ModelProto &model) : model(model) {}

  /// Reports functions defined twice, calls that recurse and expansions that are too large or deep.
  /// Inline calls only if this added no error.
  void check(ImportDiagnostics &diagnostics, mlir::Location location);
  /// The function that `node` calls; null when it is an operator.
  const pb::FunctionProto *callee(const pb::NodeProto &node) const;

private:
  struct Entry {
    const pb::FunctionProto *function = nullptr;
    enum { New, Open, Done } state = New;
    uint64_t cost = 0;   // of everything in it, with all calls inlined
    unsigned height = 0; // calls on the longest path from it down
  };
  /// Adds to `sum` the cost of `nodes`, and raises its height to that of their calls.
  template <typename Nodes> void addCost(const Nodes &nodes, unsigned callDepth, Entry &sum);
  void addCall(Entry &callee, unsigned callDepth, Entry &sum);

  const pb::ModelProto &model;
  llvm::StringMap<Entry> functions;
  std::string problem; // the first one
  int problemCode = 0;
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_LOCALFUNCTIONS_H
