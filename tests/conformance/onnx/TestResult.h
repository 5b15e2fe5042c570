// SPDX-License-Identifier: Apache-2.0
//
// What became of one test; apart from NodeTest.h, so that counting results
// needs nothing of the compiler.
#ifndef LLMC_TESTS_CONFORMANCE_ONNX_TESTRESULT_H
#define LLMC_TESTS_CONFORMANCE_ONNX_TESTRESULT_H

#include <cstdint>
#include <string>

namespace llmc::conformance {

enum class Verdict : uint8_t {
  Passed,
  NotInTable, ///< has an operator without a row that lowers it
  Refused,    ///< the compiler reported an error
  Wrong,      ///< the runtime reported an error, or other outputs came out
  Crashed,    ///< the process died, or the test took too long
};
inline constexpr unsigned kVerdicts = 5;
const char *verdictName(Verdict verdict);

struct TestResult {
  Verdict verdict = Verdict::Crashed;
  std::string text; ///< one line; empty when passed
};

} // namespace llmc::conformance

#endif // LLMC_TESTS_CONFORMANCE_ONNX_TESTRESULT_H
