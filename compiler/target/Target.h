// SPDX-License-Identifier: Apache-2.0
//
// What the compiler may ask of a family of devices without knowing it. A target
// turns kernels into images and says in which form its kernels read weights.
// Targets are attached to the `rt` dialect, so passes find them in the context
// and there is no global registry.
#ifndef LLMC_COMPILER_TARGET_TARGET_H
#define LLMC_COMPILER_TARGET_TARGET_H

#include "compiler/ir/WeightStore.h"
#include "compiler/ir/rt/RtDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectInterface.h"

#include <memory>
#include <string>
#include <vector>

namespace llmc {

/// One loadable file of machine code: all kernels of a program for one level of one architecture.
struct CodeImage {
  std::string entry;  ///< name in the bundle, "code/x86_64-avx2.so"
  std::string driver; ///< runtime driver that loads it, "cpu"
  std::string arch;   ///< "x86_64"
  std::string level;  ///< "avx2"
  std::string bytes;
};

struct EmitOptions {
  /// Levels to emit, by name; validated by `parseLevels`.
  std::vector<std::string> levels;
  /// Whether hot kernels get hand-scheduled code. Without it every kernel is plain loops.
  bool tunedKernels = true;
  /// Whether code of every level is made of the instructions of its architecture's lowest level, so
  /// that its logic can be tested on any machine.
  bool emulate = false;
};

class Target {
public:
  virtual ~Target();

  /// The driver that runs its images, "cpu".
  virtual llvm::StringRef name() const = 0;

  /// Level names of a `--target` list such as "avx2,avx512" or "host", or what is wrong with it.
  virtual llvm::Expected<std::vector<std::string>> parseLevels(llvm::StringRef list) const = 0;

  /// The layout in which a kernel made of `op` wants the weight that is its operand number
  /// `operand`; "plain" for row-major.
  virtual std::string weightLayout(mlir::Operation *op, unsigned operand) const = 0;

  /// The transform to a layout that `weightLayout` has named: from a row-major weight, whose two
  /// dimensions are exchanged first with `transposed`, or from canonical rows of a quantized one.
  virtual std::unique_ptr<WeightTransform> packing(llvm::StringRef layout,
                                                   bool transposed) const = 0;

  /// Compiles every `rt.kernel` of `program` for each level. Sets `rt.scratch` (bytes a worker) on
  /// kernels that need memory of their own. Diagnostics are located at the op without code.
  virtual llvm::FailureOr<std::vector<CodeImage>> emit(mlir::ModuleOp program,
                                                       const EmitOptions &options) const = 0;
};

/// The targets a compiler was composed with.
class TargetSet : public mlir::DialectInterface::Base<TargetSet> {
public:
  using TargetList = std::vector<std::unique_ptr<const Target>>;
  TargetSet(mlir::Dialect *dialect, TargetList targets)
      : Base(dialect), targets(std::move(targets)) {}

  /// Null when there is none of that name, or no targets were registered.
  static const Target *find(mlir::MLIRContext *context, llvm::StringRef name);

private:
  TargetList targets;
};

} // namespace llmc

#endif // LLMC_COMPILER_TARGET_TARGET_H
