// SPDX-License-Identifier: Apache-2.0
//
// Runs tests in forked processes, many in each, so that one that dies takes no
// other along and LLVM starts up a few times only. Every test gets a result.
#ifndef LLMC_TESTS_CONFORMANCE_ONNX_FORKEDRUN_H
#define LLMC_TESTS_CONFORMANCE_ONNX_FORKEDRUN_H

#include "tests/conformance/onnx/TestResult.h"

#include <functional>
#include <vector>

namespace llmc::conformance {

struct ForkOptions {
  unsigned processes = 2;        ///< at a time
  unsigned testsEach = 64;       ///< that one process runs at most
  unsigned secondsPerTest = 120; ///< of wall time; then the test counts as crashed
};

/// Called in a forked process, once, with the indices of the tests it is to run; it must call
/// `begin(i)` before and `end(i, result)` after each.
using BatchBody =
    std::function<void(const std::vector<size_t> &batch, const std::function<void(size_t)> &begin,
                       const std::function<void(size_t, const TestResult &)> &end)>;

/// Results of the tests 0 … count - 1. Call it before anything starts threads.
std::vector<TestResult> runForked(size_t count, const ForkOptions &options, const BatchBody &body);

} // namespace llmc::conformance

#endif // LLMC_TESTS_CONFORMANCE_ONNX_FORKEDRUN_H
