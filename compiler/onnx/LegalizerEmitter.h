// SPDX-License-Identifier: Apache-2.0
//
// Builds `llm` ops with their types. Whatever is known about the elements is
// folded on the way, so rows never distinguish shape arithmetic from data.
// A null Tensor stands for a reported error and passes through every function.
#ifndef LLMC_COMPILER_ONNX_LEGALIZEREMITTER_H
#define LLMC_COMPILER_ONNX_LEGALIZEREMITTER_H

#include "compiler/onnx/LegalizerContent.h"

#include "mlir/IR/Builders.h"

#include <deque>

namespace llmc::onnx {

using Sizes = llvm::SmallVector<mlir::AffineExpr, 4>;

/// A tensor of the function being legalized: a value, known elements that become a value when one
/// is asked for, or both.
class Tensor {
public:
  Tensor() = default;
  explicit operator bool() const { return info; }

  mlir::RankedTensorType type() const { return info->type; }
  mlir::Type elementType() const { return info->type.getElementType(); }
  int64_t rank() const { return info->type.getRank(); }
  Sizes dims() const { return llm::dimsOf(info->type); }
  mlir::AffineExpr dim(int64_t i) const { return dims()[i]; }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(elementType()); }
  /// Null when nothing is known.
  const Content *content() const { return info->content ? &*info->content : nullptr; }

private:
  friend class Emitter;
  struct Info {
    mlir::RankedTensorType type;
    mlir::Value value;
    std::optional<Content> content;
    mlir::Location loc;
  };
  explicit Tensor(Info *info) : info(info) {}
  Info *info = nullptr;
};

class Emitter {
public:
  Emitter(llm::Symbols &symbols, mlir::OpBuilder builder)
      : symbols(symbols), builder(builder), loc(builder.getUnknownLoc()) {}

  llm::Symbols &symbols;
  mlir::OpBuilder builder;
  mlir::Location loc;

  /// Reports an error at the current node and returns null.
  Tensor fail(int code, const llvm::Twine &text);
  bool failed() const { return hasFailed; }

  mlir::AffineExpr size(int64_t value) const { return symbols.constant(value); }
  mlir::Type i64() { return builder.getI64Type(); }
  mlir::Type i1() { return builder.getI1Type(); }
  /// `[2, s1 + 3]` with the symbols' names.
  std::string text(llvm::ArrayRef<mlir::AffineExpr> dims) const;

  //===-- Sources ---------------------------------------------------------===//
  Tensor wrap(mlir::Value value, std::optional<Content> content = std::nullopt);
  Tensor known(Content content, mlir::Type elementType);
  Tensor constant(mlir::DenseElementsAttr value);
  /// Rank 0.
  Tensor scalar(double value, mlir::Type elementType);
  Tensor integer(mlir::AffineExpr value, mlir::Type elementType);
  /// Rank 1, i64.
  Tensor sizes(llvm::ArrayRef<mlir::AffineExpr> values);
  Tensor filled(llvm::ArrayRef<mlir::AffineExpr> dims, double value, mlir::Type elementType);
  /// `start + i * step` for i < count.
  Tensor iota(mlir::AffineExpr start, int64_t step, mlir::AffineExpr count, mlir::Type elementType);

  /// The value, made at the current place when there is none yet.
  mlir::Value value(Tensor tensor);

  //===-- Elementwise -----------------------------------------------------===//
  /// Operands broadcast. The result has the last operand's element type, or `resultElement`.
  Tensor elementwise(llm::ElementKind kind, llvm::ArrayRef<Tensor> operands,
                     mlir::Type resultElement = {});
  Tensor cast(Tensor x, mlir::Type elementType);
  Tensor add(Tensor a, Tensor b) { return elementwise(llm::ElementKind::Add, {a, b}); }
  Tensor sub(Tensor a, Tensor b) { return elementwise(llm::ElementKind::Sub, {a, b}); }
  Tensor mul(Tensor a, Tensor b) { return elementwise(llm::ElementKind::Mul, {a, b}); }
  Tensor div(Tensor a, Tensor b) { return elementwise(llm::ElementKind::Div, {a, b}); }
  /// i1 result.
  Tensor compare(llm::ElementKind kind, Tensor a, Tensor b);
  Tensor select(Tensor condition, Tensor yes, Tensor no);
  /// `x` op a constant of its type.
  Tensor with(llm::ElementKind kind, Tensor x, double constant);

  //===-- Shape -----------------------------------------------------------===//
  /// Nothing when they contradict each other, which is reported.
  std::optional<Sizes> broadcastDims(llvm::ArrayRef<mlir::AffineExpr> a,
                                     llvm::ArrayRef<mlir::AffineExpr> b);
  /// The one of two sizes that must be equal to go on with; checks what isn't evident. Null after
  /// an error.
  mlir::AffineExpr agree(mlir::AffineExpr a, mlir::AffineExpr b, const llvm::Twine &what);
  /// `x` as a tensor of these dims, which must be equal to its own.
  Tensor withDims(Tensor x, llvm::ArrayRef<mlir::AffineExpr> dims, const llvm::Twine &what);
  Tensor reshape(Tensor x, llvm::ArrayRef<mlir::AffineExpr> dims);
  /// `x` broadcasts to `dims` exactly.
  Tensor broadcast(Tensor x, llvm::ArrayRef<mlir::AffineExpr> dims);
  Tensor transpose(Tensor x, llvm::ArrayRef<int64_t> permutation);
  Tensor swapLast(Tensor x);
  /// Inserts a dimension of size 1.
  Tensor unsqueeze(Tensor x, int64_t axis);
  Tensor slice(Tensor x, llvm::ArrayRef<mlir::AffineExpr> starts, llvm::ArrayRef<int64_t> steps,
               llvm::ArrayRef<mlir::AffineExpr> dims);
  /// One dimension sliced with step 1.
  Tensor sliceAxis(Tensor x, int64_t axis, mlir::AffineExpr start, mlir::AffineExpr count);
  Tensor concat(int64_t axis, llvm::ArrayRef<Tensor> inputs);
  Tensor tile(Tensor x, llvm::ArrayRef<mlir::AffineExpr> repeats);
  Tensor gather(Tensor x, Tensor indices, int64_t axis);

  //===-- Contraction and reduction ---------------------------------------===//
  Tensor matmul(Tensor a, Tensor b, bool transposeRhs = false);
  Tensor reduce(llm::ReduceKind kind, Tensor x, llvm::ArrayRef<int64_t> axes, bool keepDims,
                bool lastIndex = false);
  Tensor softmax(Tensor x, int64_t axis, bool log = false);

  /// An op of one result of type (`dims`, `elementType`), with `attributes` set by name.
  template <typename Op, typename... Args>
  Tensor make(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type elementType, Args &&...args) {
    return wrap(
        Op::create(builder, loc, llm::tensorOf(dims, elementType), std::forward<Args>(args)...));
  }

protected:
  bool hasFailed = false;

private:
  /// The known tensor when `content` is complete; else what `emit` makes, with the content.
  Tensor finish(std::optional<Content> content, mlir::Type elementType,
                llvm::function_ref<Tensor()> emit);

  std::deque<Tensor::Info> tensors;
};

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LEGALIZEREMITTER_H
