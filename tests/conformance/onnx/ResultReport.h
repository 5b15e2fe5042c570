// SPDX-License-Identifier: Apache-2.0
//
// Which results are failures: everything but a pass of a test whose operators
// the table has, save what expected_failures.tsv names with a reason.
#ifndef LLMC_TESTS_CONFORMANCE_ONNX_RESULTREPORT_H
#define LLMC_TESTS_CONFORMANCE_ONNX_RESULTREPORT_H

#include "tests/conformance/onnx/TestResult.h"

#include <map>
#include <optional>
#include <vector>

namespace llmc::conformance {

/// Test name -> why it can't pass.
using ExpectedFailures = std::map<std::string, std::string>;

/// Lines of name, tab, reason; `#` begins a comment line. Nothing, with the problem printed, when
/// the file is missing or malformed.
std::optional<ExpectedFailures> readExpectedFailures(const std::string &path);

/// Prints a line for each failure and the counts; writes JUnit XML unless `xml` is empty. True
/// when nothing failed.
bool reportResults(const std::vector<std::string> &names, const std::vector<TestResult> &results,
                   const ExpectedFailures &expected, const std::string &xml);

} // namespace llmc::conformance

#endif // LLMC_TESTS_CONFORMANCE_ONNX_RESULTREPORT_H
