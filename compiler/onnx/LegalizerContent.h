// SPDX-License-Identifier: Apache-2.0
//
// What the legalizer knows about a small tensor's elements: constants, and
// sizes as polynomials. Shape arithmetic of exporters is evaluated on these and
// so leaves the program. Invariant: a known element is exact; what can't be
// represented is unknown, never approximated.
#ifndef LLMC_COMPILER_ONNX_LEGALIZERCONTENT_H
#define LLMC_COMPILER_ONNX_LEGALIZERCONTENT_H

#include "compiler/ir/llm/Symbols.h"

#include <optional>

namespace llmc::onnx {

/// One element. Integers and booleans (0 or 1) have `size`; floats have `real`, or, when they come
/// from sizes, the quotient `size / divisor`.
struct Element {
  mlir::AffineExpr size;
  int64_t divisor = 1;
  std::optional<double> real;

  static Element of(mlir::AffineExpr size) { return {size, 1, std::nullopt}; }
  static Element of(double value) { return {{}, 1, value}; }

  bool known() const { return size || real; }
  std::optional<int64_t> integer() const {
    return size && divisor == 1 ? llm::constantOf(size) : std::nullopt;
  }
  /// The value of a constant of any type.
  std::optional<double> number() const;
};

/// The elements of a tensor with static shape, row-major.
struct Content {
  llvm::SmallVector<int64_t, 2> shape;
  llvm::SmallVector<Element, 4> elements;

  bool complete() const {
    return llvm::all_of(elements, [](const Element &e) { return e.known(); });
  }
  bool anyKnown() const {
    return elements.empty() || llvm::any_of(elements, [](const Element &e) { return e.known(); });
  }
};

/// Larger tensors have no content.
inline constexpr int64_t kMaxContent = 64;

/// Whether tensors of this type may have content: static, small, numbers or booleans.
bool mayHaveContent(mlir::RankedTensorType type);

/// Null content when `type` may not have any.
std::optional<Content> contentOf(mlir::DenseElementsAttr value);

/// The constant with these elements, or null when one isn't constant.
mlir::DenseElementsAttr constantOf(const Content &content, mlir::Type elementType,
                                   mlir::MLIRContext *context);

/// A scalar function on elements of `type` with a result of `resultType`. Unknown when it can't be
/// told exactly.
Element evaluate(llm::ElementKind kind, llvm::ArrayRef<Element> operands, mlir::Type type,
                 mlir::Type resultType, llm::Symbols &symbols);

/// `kind` over the elements of one group, of type `type`.
Element evaluateReduction(llm::ReduceKind kind, llvm::ArrayRef<Element> group, mlir::Type type,
                          llm::Symbols &symbols);

/// Visits the index of each element of `shape` in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> use);

/// Row-major position of `index` in `shape`; entries of size 1 broadcast, missing leading
/// dimensions of `shape` are skipped.
int64_t broadcastOffset(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> shape);

} // namespace llmc::onnx

#endif // LLMC_COMPILER_ONNX_LEGALIZERCONTENT_H
