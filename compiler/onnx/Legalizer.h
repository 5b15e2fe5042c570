// SPDX-License-Identifier: Apache-2.0
//
// Turns a function of `onnx.node` into one of `llm` ops, node by node. A row of
// the op table sees the current node through `Lowering`. Problems are collected:
// results of a node that failed are poison, and what depends on them is skipped.
#ifndef LLMC_COMPILER_ONNX_LEGALIZER_H
#define LLMC_COMPILER_ONNX_LEGALIZER_H

#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/LegalizerEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::onnx {

class Lowering : public Emitter {
public:
  Lowering(llm::Symbols &symbols, mlir::func::FuncOp function);

  /// The whole function. Reports every problem.
  mlir::LogicalResult run();

  //===-- The current node ------------------------------------------------===//
  NodeOp node;
  int64_t version() { return node.getVersion(); }
  unsigned numInputs() { return node.getInputs().size(); }
  bool has(unsigned i);
  /// Reports an error and returns null when the input is absent.
  Tensor input(unsigned i);
  llvm::SmallVector<Tensor> inputs();
  /// Like `input`, but also a weight of a type that is only stored, such as int4.
  Tensor storedInput(unsigned i);
  /// The bytes of an input that is a weight of the file as elements of another static type with as
  /// many bits. Reports an error otherwise; `what` names the input.
  Tensor weightInput(unsigned i, mlir::RankedTensorType type, llvm::StringRef what);
  /// Whether the elements are a weight's or known: the same in every call.
  bool isStored(Tensor tensor);
  /// Whether something uses output `i`.
  bool wants(unsigned i);

  /// Elements of an input that must be known at compile time. Reports an error otherwise.
  std::optional<Sizes> knownSizes(unsigned i, llvm::StringRef what);
  std::optional<llvm::SmallVector<int64_t>> knownInts(unsigned i, llvm::StringRef what);
  std::optional<int64_t> knownInt(unsigned i, llvm::StringRef what);
  std::optional<double> knownNumber(unsigned i, llvm::StringRef what);

  //===-- Attributes ------------------------------------------------------===//
  mlir::Attribute attr(llvm::StringRef name);
  int64_t intAttr(llvm::StringRef name, int64_t otherwise);
  double floatAttr(llvm::StringRef name, double otherwise);
  llvm::StringRef stringAttr(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> intsAttr(llvm::StringRef name);
  /// The element type with ONNX's number `number`; null (reported) for one without a counterpart.
  mlir::Type elementTypeOf(int64_t number);

  /// `axis` counted from the front; nothing (reported) outside [-rank, rank).
  std::optional<int64_t> axisOf(int64_t axis, int64_t rank);
  /// The same for a list, which must not repeat an axis.
  std::optional<llvm::SmallVector<int64_t>> axesOf(llvm::ArrayRef<int64_t> axes, int64_t rank);

  //===-- Results ---------------------------------------------------------===//
  mlir::LogicalResult result(Tensor tensor) { return results({tensor}); }
  /// May be fewer than the node has as long as nothing uses the others.
  mlir::LogicalResult results(llvm::ArrayRef<Tensor> tensors);
  /// Lowers the ops of a graph attribute in place of the node; its outputs become the results.
  mlir::LogicalResult inlineBody(mlir::Region &body);
  /// Lowers the ops of a graph attribute with these inputs; what it yields, or nothing after an
  /// error that was reported.
  std::optional<llvm::SmallVector<Tensor>> lowerBody(mlir::Region &body,
                                                     llvm::ArrayRef<Tensor> inputs);

private:
  bool legalizeArguments();
  void lowerOps(mlir::Block &block);
  void lowerNode(NodeOp op);
  void lowerWeight(WeightOp op);
  bool legalizeReturn(mlir::func::ReturnOp op);
  void reportUnsupported();
  void eraseOnnx();
  /// Replaces sizes that the checks decide.
  void applyChecks();

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, Tensor> tensors;
  /// Values of types that have no tensor here, e.g. strings.
  llvm::DenseMap<mlir::Value, mlir::Type> foreign;
  /// The keys of inputs that are weights.
  llvm::DenseMap<mlir::Value, WeightOp> weights;
  llvm::SmallVector<std::pair<NodeOp, llvm::StringRef>> unsupported; // with the reason, if any
  bool anyFailed = false;
};

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LEGALIZER_H
