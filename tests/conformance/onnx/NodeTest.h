// SPDX-License-Identifier: Apache-2.0
//
// One of ONNX's node tests, from its model file to a verdict: what the compiler
// and the runtime make of it, against the outputs that come with it.
#ifndef LLMC_TESTS_CONFORMANCE_ONNX_NODETEST_H
#define LLMC_TESTS_CONFORMANCE_ONNX_NODETEST_H

#include "tests/conformance/onnx/TestResult.h"

#include "mlir/IR/MLIRContext.h"

namespace llmc::conformance {

struct Settings {
  std::string tests;  ///< the folder with a folder for each test
  std::string target; ///< CPU level list
  bool optimize = false;
  unsigned threads = 1;
};

/// Compiles the model of test `name` to the file `bundle` and runs its data sets. `context` must
/// know all dialects and targets; it may serve any number of tests.
TestResult runNodeTest(const Settings &settings, const std::string &name, const std::string &bundle,
                       mlir::MLIRContext &context);

} // namespace llmc::conformance

#endif // LLMC_TESTS_CONFORMANCE_ONNX_NODETEST_H
