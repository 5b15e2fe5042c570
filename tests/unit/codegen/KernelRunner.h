// SPDX-License-Identifier: Apache-2.0
//
// Compiles `rt.kernel`s given as text and calls them in this process, worker
// after worker, as a driver would with a team.
#ifndef LLMC_TESTS_UNIT_CODEGEN_KERNEL_RUNNER_H
#define LLMC_TESTS_UNIT_CODEGEN_KERNEL_RUNNER_H

#include "compiler/target/Target.h"
#include "runtime/abi/KernelAbi.h"

#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>
#include <vector>

namespace llmc::test {

struct Level {
  std::string name;
  bool emulate = false;
  bool tuned = true;
};

/// All levels, emulated where this machine lacks them; says on stdout which.
std::vector<Level> testLevels();

class KernelRunner {
public:
  /// Fails the running test (and gives null) when `text` doesn't compile.
  static std::unique_ptr<KernelRunner> compile(const std::string &text, const Level &level);
  ~KernelRunner();
  /// Only the image, which this machine need not be able to run; empty after a failure.
  static std::string compileImage(const std::string &text, const Level &level);

  /// The first error that a worker returns.
  int32_t run(const std::string &kernel, std::vector<void *> buffers, std::vector<int64_t> scalars,
              int64_t workers = 1) const;
  llmc_kernel_fn function(const std::string &kernel) const;
  size_t scratchBytes(const std::string &kernel) const;
  const std::string &image() const { return bytes; }
  static const Target &target(mlir::MLIRContext *context);

private:
  static std::unique_ptr<KernelRunner> emit(const std::string &text, const Level &level);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string bytes;
  void *library = nullptr;
};

/// `source` (row-major, `columns` to a row) in the layout that kernels read, in reads of `step`
/// bytes.
std::vector<char> pack(const std::string &layout, bool transposed, ElementType element,
                       int64_t rows, int64_t columns, const void *source,
                       size_t step = size_t(1) << 20);

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_CODEGEN_KERNEL_RUNNER_H
