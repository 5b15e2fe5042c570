// SPDX-License-Identifier: Apache-2.0
//
// Builds the body of @main: graphs, their nodes, graph attributes as regions,
// and calls of local functions inlined. Names are resolved by lexical scope,
// the innermost first; a function's body sees nothing outside of it.
#ifndef LLMC_COMPILER_ONNX_GRAPHIMPORTER_H
#define LLMC_COMPILER_ONNX_GRAPHIMPORTER_H

#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/AttributeImporter.h"
#include "compiler/onnx/ImportDiagnostics.h"
#include "compiler/onnx/LocalFunctions.h"
#include "compiler/onnx/NodeOrder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc {

/// Opset versions by domain, as one model or function imports them.
using Opsets = llvm::StringMap<int64_t>;

class GraphImporter {
public:
  GraphImporter(OnnxModel::Data &model, WeightStore &store, ImportDiagnostics &diagnostics,
                LocalFunctions &functions, mlir::MLIRContext *context)
      : model(model), diagnostics(diagnostics), functions(functions),
        tensors(model, store, context), attributes(tensors, context), builder(context) {}

  /// Fills the empty function `main` from the model's graph.
  void importMain(mlir::func::FuncOp main, const Opsets &opsets);
  /// Checks the versions in `imports` and files them by normal domain.
  Opsets importOpsets(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto> &imports,
                      mlir::Location location);

private:
  struct Scope;
  struct Frame;

  /// What a name in a scope stands for.
  struct Entry {
    mlir::Value value = {};                       // null for an initializer not used yet
    const pb::TensorProto *initializer = nullptr; // at most one of these two
    const pb::SparseTensorProto *sparse = nullptr;
    const pb::NodeProto *producer = nullptr; // null for inputs and initializers
  };

  /// The names of one graph or function body.
  struct Scope {
    Scope *parent = nullptr;         // null for the main graph and for a function's body
    mlir::Block *block = nullptr;    // where its weights go
    mlir::Operation *last = nullptr; // the last weight made there
    llvm::StringMap<Entry> names;
  };

  /// An attribute with the place where it stands in the file, which a graph's captures and an
  /// attribute's references depend on.
  struct BoundAttribute {
    llvm::StringRef name; // on the node that has it; a reference may rename
    const pb::AttributeProto *attribute;
    Scope *scope;
    const Frame *frame;
  };

  /// One call of a local function that is being inlined; the outermost is the model itself.
  struct Frame {
    const Opsets *opsets = nullptr;
    std::string prefix; // of locations: "call/inner call/"
    llvm::StringMap<BoundAttribute> attributes;
    bool isCall = false;
  };

  void declareInitializers(const pb::GraphProto &graph, Scope &scope);
  void declareProducers(const google::protobuf::RepeatedPtrField<pb::NodeProto> &nodes,
                        Scope &scope, const Frame &frame);
  void importNodes(const google::protobuf::RepeatedPtrField<pb::NodeProto> &nodes, Scope &scope,
                   const Frame &frame);
  void importNode(const pb::NodeProto &node, Scope &scope, const Frame &frame);
  void importConstant(const pb::NodeProto &node, Scope &scope, const Frame &frame);
  void inlineCall(const pb::NodeProto &node, const pb::FunctionProto &function, Scope &scope,
                  const Frame &frame);
  void importRegion(const pb::GraphProto &graph, mlir::Region &region, Scope *parent,
                    const Frame &frame);
  llvm::SmallVector<mlir::Value> importInputs(const pb::NodeProto &node, Scope &scope,
                                              const Frame &frame);

  /// The attributes of `node` with references followed; those that lead nowhere are left out.
  llvm::SmallVector<BoundAttribute> bind(const pb::NodeProto &node, Scope &scope,
                                         const Frame &frame);
  int64_t versionOf(const pb::NodeProto &node, const Frame &frame);

  /// The value of `name`, or null when no scope has it. Makes weights at their first use.
  mlir::Value lookup(llvm::StringRef name, Scope &scope);
  mlir::Value makeWeight(llvm::StringRef name, Entry &entry, Scope &scope);
  void define(llvm::StringRef name, mlir::Value value, Scope &scope);
  mlir::Value none();

  mlir::NameLoc nameLocation(llvm::StringRef name);
  mlir::Location locationOf(const pb::NodeProto &node, const Frame &frame);
  void reportDuplicate(llvm::StringRef name, const pb::NodeProto &second, const Entry &first,
                       const Frame &frame);

  OnnxModel::Data &model;
  ImportDiagnostics &diagnostics;
  LocalFunctions &functions;
  TensorReader tensors;
  AttributeImporter attributes;
  Captures captures;
  mlir::OpBuilder builder;
  mlir::func::FuncOp main;
  mlir::Value noneValue;
  unsigned regionDepth = 0, callDepth = 0;
  uint64_t inlinedNodes = 0;
  llvm::DenseMap<const pb::FunctionProto *, Opsets> functionOpsets;
  llvm::StringMap<bool> unknownDomains; // those warned about
};

/// "node 'name' (Op)", or "node producing 'x' (Op)" for one without a name.
std::string describeNode(const pb::NodeProto &node);

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_GRAPHIMPORTER_H
