// SPDX-License-Identifier: Apache-2.0
//
// llmc_onnx_conformance: every node test of ONNX through the compiler and the
// runtime. Fails when one fails whose operators the op table has.
#include "codegen/Targets.h"
#include "compiler/driver/Compiler.h"
#include "passes/Passes.h"
#include "tests/conformance/onnx/ForkedRun.h"
#include "tests/conformance/onnx/NodeTest.h"
#include "tests/conformance/onnx/ResultReport.h"

#include "llvm/Support/Regex.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <unistd.h>

using namespace llmc;
using namespace llmc::conformance;

static constexpr const char *kUsage =
    R"(usage: llmc_onnx_conformance --tests=FOLDER [--expected=FILE] [--report=XML] [--filter=REGEX]
         [--target=LEVELS] [--optimize=0|2] [--threads=N] [--processes=N] [--batch=N] [--verbose]

FOLDER is what make_node_tests.py writes; FILE names tests that fail, with reasons.
)";

static std::vector<std::string> testNames(const std::string &folder, const std::string &filter) {
  std::vector<std::string> names;
  std::error_code error;
  llvm::Regex regex(filter);
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    if (std::filesystem::exists(entry.path() / "model.onnx") &&
        (filter.empty() || regex.match(entry.path().filename().string())))
      names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

int main(int argc, char **argv) {
  std::map<std::string, std::string> flags = {
      {"tests", ""},     {"expected", ""}, {"report", ""},     {"filter", ""}, {"target", "host"},
      {"optimize", "0"}, {"threads", "1"}, {"processes", "2"}, {"batch", "64"}};
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t equals = argument.find('=');
    bool isFlag = argument.rfind("--", 0) == 0 && equals != std::string::npos;
    auto flag = isFlag ? flags.find(argument.substr(2, equals - 2)) : flags.end();
    if (argument == "--verbose") {
      verbose = true;
    } else if (flag == flags.end()) {
      std::fprintf(stderr, "unknown argument '%s'\n%s", argv[i], kUsage);
      return 2;
    } else {
      flag->second = argument.substr(equals + 1);
    }
  }

  ExpectedFailures expected;
  if (!flags["expected"].empty()) {
    std::optional<ExpectedFailures> read = readExpectedFailures(flags["expected"]);
    if (!read)
      return 2;
    expected = std::move(*read);
  }
  std::vector<std::string> names = testNames(flags["tests"], flags["filter"]);
  if (names.empty()) {
    std::fprintf(stderr, "no tests in '%s'\n%s", flags["tests"].c_str(), kUsage);
    return 2;
  }
  bool listIsValid = true;
  if (flags["filter"].empty())
    for (const auto &[name, reason] : expected)
      if (!std::binary_search(names.begin(), names.end(), name)) {
        std::printf("FAILED %s: listed in expected_failures.tsv, but there is no such test\n",
                    name.c_str());
        listIsValid = false;
      }

  std::string scratch =
      (std::filesystem::temp_directory_path() / "llmc-conformance-XXXXXX").string();
  if (!mkdtemp(scratch.data())) {
    std::perror("can't make a temporary folder");
    return 3;
  }
  Settings settings{flags["tests"], flags["target"], flags["optimize"] == "2",
                    unsigned(std::atoi(flags["threads"].c_str()))};
  ForkOptions forks;
  forks.processes = std::max(1, std::atoi(flags["processes"].c_str()));
  forks.testsEach = std::max(1, std::atoi(flags["batch"].c_str()));

  registerLlmcPasses();
  std::vector<TestResult> results =
      runForked(names.size(), forks,
                [&](const std::vector<size_t> &batch, const std::function<void(size_t)> &begin,
                    const std::function<void(size_t, const TestResult &)> &end) {
                  mlir::DialectRegistry registry;
                  registerCompilerDialects(registry);
                  registerTargets(registry);
                  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
                  context.loadAllAvailableDialects();
                  std::string bundle = scratch + "/" + std::to_string(getpid()) + ".llmc";
                  for (size_t i : batch) {
                    begin(i);
                    end(i, runNodeTest(settings, names[i], bundle, context));
                  }
                });
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  if (verbose)
    for (size_t i = 0; i < names.size(); ++i)
      std::printf("%s\t%s\t%s\n", names[i].c_str(), verdictName(results[i].verdict),
                  results[i].text.c_str());
  bool good = reportResults(names, results, expected, flags["report"]);
  return good && listIsValid ? 0 : 1;
}
