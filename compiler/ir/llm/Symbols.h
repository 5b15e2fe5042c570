// SPDX-License-Identifier: Apache-2.0
//
// The module's run-time sizes. A symbol is either bound by a call (an input's
// dimension, a session's length) or computed from others; a computed one is
// made once per (kind, operands), so that equal sizes are equal symbols.
#ifndef LLMC_COMPILER_IR_LLM_SYMBOLS_H
#define LLMC_COMPILER_IR_LLM_SYMBOLS_H

#include "compiler/ir/llm/Dims.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace llmc::llm {

inline constexpr llvm::StringLiteral kSymbolsAttr = "llm.symbols";
inline constexpr llvm::StringLiteral kChecksAttr = "llm.checks";

class Symbols {
public:
  /// Reads `llm.symbols` and `llm.checks` of the module, which may lack both.
  explicit Symbols(mlir::ModuleOp module);

  /// Writes both attributes back.
  void store();

  mlir::MLIRContext *context() const { return ctx; }
  mlir::AffineExpr constant(int64_t value) const {
    return mlir::getAffineConstantExpr(value, context());
  }
  llvm::ArrayRef<SymbolAttr> all() const { return symbols; }
  llvm::ArrayRef<CheckAttr> checks() const { return conditions; }

  /// The symbol of that name, made if new.
  mlir::AffineExpr named(llvm::StringRef name, SymbolKind kind = SymbolKind::Input);

  /// Parses a dimension's text as an exporter writes it, `past_sequence_length + sequence_length`,
  /// `s16 + s17`, `2*batch`: sums and products of identifiers and integers become expressions, any
  /// other text one opaque symbol. With `onlyKnown`, composite text becomes an expression only when
  /// all its identifiers are known symbols.
  mlir::AffineExpr parse(llvm::StringRef text, bool onlyKnown);

  mlir::AffineExpr add(mlir::AffineExpr a, mlir::AffineExpr b) const { return canonical(a + b); }
  mlir::AffineExpr sub(mlir::AffineExpr a, mlir::AffineExpr b) const { return canonical(a - b); }
  mlir::AffineExpr mul(mlir::AffineExpr a, mlir::AffineExpr b) const { return canonical(a * b); }
  /// Whether `expr` is >= 0 in every call. False when unknown.
  bool nonNegative(mlir::AffineExpr expr) const { return nonNegative(expr, /*depth=*/4); }
  /// 1 when `expr` is negative, else 0.
  mlir::AffineExpr isNegative(mlir::AffineExpr expr);
  /// Floor division and its rest; exact quotients stay polynomials. `b` must not be constant 0.
  mlir::AffineExpr floorDiv(mlir::AffineExpr a, mlir::AffineExpr b);
  mlir::AffineExpr mod(mlir::AffineExpr a, mlir::AffineExpr b);
  mlir::AffineExpr min(mlir::AffineExpr a, mlir::AffineExpr b);
  mlir::AffineExpr max(mlir::AffineExpr a, mlir::AffineExpr b);

  /// The size of broadcasting `a` with `b`. Null when two constants contradict each other. May add
  /// a check: of min(t, 1024) with t the result is t, which then must not exceed 1024.
  mlir::AffineExpr broadcast(mlir::AffineExpr a, mlir::AffineExpr b, llvm::StringRef what);

  /// Requires `a == b` (or `a <= b`) of every call; nothing is added when it is evident.
  void requireEqual(mlir::AffineExpr a, mlir::AffineExpr b, const llvm::Twine &message);
  void requireAtMost(mlir::AffineExpr a, mlir::AffineExpr b, const llvm::Twine &message);

  /// The constant that a check equates `expr` with; else `expr`.
  mlir::AffineExpr checked(mlir::AffineExpr expr) const;

  /// What a minimum is when a check decides it: with "s0 is at most 1024", min(s0, 1024) is s0.
  /// Null for other symbols.
  mlir::AffineExpr decided(unsigned position) const;

  /// Readable text: names instead of positions, `past_sequence_length + sequence_length`.
  std::string text(mlir::AffineExpr expr) const;

private:
  bool nonNegative(mlir::AffineExpr expr, int depth) const;
  bool nonNegativeSymbol(unsigned position, int depth) const;
  mlir::AffineExpr computed(SymbolKind kind, mlir::AffineExpr a, mlir::AffineExpr b);
  void require(CheckKind kind, mlir::AffineExpr a, mlir::AffineExpr b, const llvm::Twine &message);

  mlir::ModuleOp module;
  mlir::MLIRContext *ctx;
  llvm::SmallVector<SymbolAttr> symbols;
  llvm::SmallVector<CheckAttr> conditions;
};

} // namespace llmc::llm

#endif // LLMC_COMPILER_IR_LLM_SYMBOLS_H
