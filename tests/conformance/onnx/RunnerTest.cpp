// SPDX-License-Identifier: Apache-2.0
//
// The runner itself: a test that dies costs that test alone, and a result that
// should fail the run does.
#include "tests/conformance/onnx/ForkedRun.h"
#include "tests/conformance/onnx/ResultReport.h"

#include <csignal>
#include <gtest/gtest.h>
#include <unistd.h>

namespace llmc::conformance {
namespace {

/// Each test does what `deeds` says: passes ('p'), kills its process ('k'), exits ('x') or hangs.
std::vector<TestResult> run(const std::string &deeds, unsigned testsEach) {
  ForkOptions options;
  options.testsEach = testsEach;
  options.secondsPerTest = 2;
  return runForked(deeds.size(), options,
                   [&](const std::vector<size_t> &batch, const std::function<void(size_t)> &begin,
                       const std::function<void(size_t, const TestResult &)> &end) {
                     for (size_t i : batch) {
                       begin(i);
                       if (deeds[i] == 'k')
                         raise(SIGKILL);
                       if (deeds[i] == 'x')
                         _exit(5);
                       if (deeds[i] == 'h')
                         pause();
                       end(i, {Verdict::Passed, "test\n" + std::to_string(i)});
                     }
                   });
}

TEST(ForkedRun, BlamesTheTestThatDied) {
  for (unsigned testsEach : {1, 2, 3, 100}) {
    std::vector<TestResult> results = run("kpxphpk", testsEach);
    const char *const texts[] = {
        "Killed", "test 1", "the process exited with code 5", "test 3", "not done after 2 s",
        "test 5", "Killed"};
    ASSERT_EQ(results.size(), std::size(texts));
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].verdict, i % 2 ? Verdict::Passed : Verdict::Crashed) << i;
      EXPECT_EQ(results[i].text, texts[i]) << i;
    }
  }
}

TEST(ResultReport, FailsWhenItShould) {
  using enum Verdict;
  const ExpectedFailures none, listed = {{"test", "some reason"}};
  auto good = [](Verdict verdict, const ExpectedFailures &expected) {
    return reportResults({"test"}, {{verdict, "text"}}, expected, "");
  };
  EXPECT_TRUE(good(Passed, none));
  EXPECT_TRUE(good(NotInTable, none));
  EXPECT_FALSE(good(Refused, none));
  EXPECT_FALSE(good(Wrong, none));
  EXPECT_FALSE(good(Crashed, none));
  EXPECT_FALSE(good(Passed, listed));
  EXPECT_FALSE(good(NotInTable, listed));
  EXPECT_TRUE(good(Refused, listed));
  EXPECT_TRUE(good(Wrong, listed));
  EXPECT_TRUE(good(Crashed, listed));
}

} // namespace
} // namespace llmc::conformance
