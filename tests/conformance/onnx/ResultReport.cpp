// SPDX-License-Identifier: Apache-2.0
//
// Text for people and JUnit XML for the harness, from the same judgement.
#include "tests/conformance/onnx/ResultReport.h"

#include <cstdio>
#include <fstream>

namespace llmc::conformance {

namespace {

struct Judgement {
  enum Kind { Pass, Skip, Fail } kind;
  std::string text;
};

Judgement judge(const TestResult &result, const std::string *reason) {
  if (result.verdict == Verdict::NotInTable)
    return reason ? Judgement{Judgement::Fail,
                              "is listed in expected_failures.tsv, but has operators that the "
                              "table lacks: " +
                                  result.text}
                  : Judgement{Judgement::Skip, "has an operator that the op table lacks"};
  bool passed = result.verdict == Verdict::Passed;
  if (reason && passed)
    return {Judgement::Fail, "passes, but is listed in expected_failures.tsv"};
  if (reason)
    return {Judgement::Skip, "expected to fail: " + *reason};
  if (passed)
    return {Judgement::Pass, ""};
  return {Judgement::Fail, std::string(verdictName(result.verdict)) + ": " + result.text};
}

std::string xmlText(const std::string &text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    default: // XML has no place for control characters
      escaped += (unsigned char)c < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

} // namespace

const char *verdictName(Verdict verdict) {
  static constexpr const char *kNames[kVerdicts] = {"passed", "not in the table", "refused",
                                                    "wrong", "crashed"};
  return kNames[unsigned(verdict)];
}

std::optional<ExpectedFailures> readExpectedFailures(const std::string &path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "can't read '%s'\n", path.c_str());
    return std::nullopt;
  }
  ExpectedFailures expected;
  std::string line;
  for (unsigned number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#')
      continue;
    size_t tab = line.find('\t');
    if (tab == 0 || tab == std::string::npos || tab + 1 == line.size() ||
        !expected.emplace(line.substr(0, tab), line.substr(tab + 1)).second) {
      std::fprintf(stderr, "%s:%u: expected a test's name, a tab and a reason, each test once\n",
                   path.c_str(), number);
      return std::nullopt;
    }
  }
  return expected;
}

bool reportResults(const std::vector<std::string> &names, const std::vector<TestResult> &results,
                   const ExpectedFailures &expected, const std::string &xml) {
  unsigned counts[kVerdicts] = {}, failures = 0, skips = 0;
  std::string cases;
  for (size_t i = 0; i < names.size(); ++i) {
    auto listed = expected.find(names[i]);
    Judgement judgement = judge(results[i], listed == expected.end() ? nullptr : &listed->second);
    ++counts[unsigned(results[i].verdict)];
    failures += judgement.kind == Judgement::Fail;
    skips += judgement.kind == Judgement::Skip;
    if (judgement.kind == Judgement::Fail)
      std::printf("FAILED %s: %s\n", names[i].c_str(), judgement.text.c_str());
    cases += "  <testcase classname=\"onnx\" name=\"" + xmlText(names[i]) + "\"";
    if (judgement.kind == Judgement::Pass)
      cases += "/>\n";
    else
      cases += std::string("><") + (judgement.kind == Judgement::Fail ? "failure" : "skipped") +
               " message=\"" + xmlText(judgement.text) + "\"/></testcase>\n";
  }
  for (unsigned i = 0; i < kVerdicts; ++i)
    std::printf("%u %s\n", counts[i], verdictName(Verdict(i)));
  std::printf("%zu tests, %u failures\n", names.size(), failures);
  if (xml.empty())
    return failures == 0;
  std::ofstream file(xml);
  file << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"onnx\" tests=\""
       << names.size() << "\" failures=\"" << failures << "\" skipped=\"" << skips << "\">\n"
       << cases << "</testsuite>\n";
  file.close();
  if (!file)
    std::fprintf(stderr, "can't write '%s'\n", xml.c_str());
  return failures == 0 && bool(file);
}

} // namespace llmc::conformance
