// SPDX-License-Identifier: Apache-2.0
//
// Stop strings must give the same text however it is cut into parts.
#include "runtime/llm/StopConditions.h"
#include "runtime/llm/RandomSource.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

StopStrings makeStops(std::vector<std::string> strings) {
  auto stops = StopStrings::create(std::move(strings));
  EXPECT_TRUE(stops.isOk());
  return *stops;
}

/// All text given out for `parts`, and whether it stopped.
std::pair<std::string, bool> run(StopStrings stops, const std::vector<std::string> &parts) {
  std::string out;
  for (const std::string &text : parts) {
    StopStrings::Part part = stops.push(text);
    out += part.text;
    if (part.isStopped)
      return {out, true};
  }
  return {out + stops.finish(), false};
}

TEST(StopStrings, HoldsBackWhatMayBeTheBeginning) {
  StopStrings stops = makeStops({"\n\nUser:"});
  EXPECT_EQ(stops.push("Hi\n").text, "Hi");
  EXPECT_EQ(stops.push("\n").text, "");
  EXPECT_EQ(stops.push("\n").text, "\n");
  EXPECT_EQ(stops.push("Use").text, "");
  EXPECT_EQ(stops.push("d").text, "\n\nUsed");
  EXPECT_EQ(stops.push("\n\nUs").text, "");
  StopStrings::Part part = stops.push("er: more");
  EXPECT_TRUE(part.isStopped);
  EXPECT_EQ(part.text, "");
  EXPECT_TRUE(stops.push("x").isStopped);
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, GivesOutWhatIsHeldAtTheEnd) {
  EXPECT_EQ(run(makeStops({"END"}), {"the E", "N"}), std::pair("the EN" + std::string(), false));
  EXPECT_EQ(run(makeStops({}), {"a", "b"}), std::pair(std::string("ab"), false));
}

TEST(StopStrings, TakesTheOneCompletedFirst) {
  EXPECT_EQ(run(makeStops({"abc", "b"}), {"xabc"}), std::pair(std::string("xa"), true));
  EXPECT_EQ(run(makeStops({"b", "ab"}), {"xab"}), std::pair(std::string("x"), true));
}

TEST(StopStrings, RefusesAnEmptyString) { EXPECT_FALSE(StopStrings::create({"a", ""}).isOk()); }

TEST(StopStrings, DoesNotDependOnTheCuts) {
  RandomSource random(3);
  auto letters = [&](size_t size) {
    std::string text;
    while (text.size() < size)
      text += static_cast<char>('a' + random.next() % 2);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> strings;
    for (size_t i = 0; i < 1 + round % 3u; ++i)
      strings.push_back(letters(2 + random.next() % 6));
    std::string text = letters(random.next() % 40);
    // The plain search: the first end at which a string is complete, the longest of them.
    std::pair<std::string, bool> expected = {text, false};
    for (size_t end = 1; end <= text.size() && !expected.second; ++end)
      for (size_t start = 0; start < end && !expected.second; ++start)
        for (const std::string &string : strings)
          if (text.substr(start, end - start) == string)
            expected = {text.substr(0, start), true};
    std::vector<std::string> parts;
    for (size_t at = 0; at < text.size();) {
      size_t size = 1 + random.next() % 5;
      parts.push_back(text.substr(at, size));
      at += size;
    }
    ASSERT_EQ(run(makeStops(strings), parts), expected) << text;
    stopped += expected.second;
  }
  EXPECT_GT(stopped, 500);
  EXPECT_LT(stopped, 1900);
}

TEST(StopTokens, ContainsItsTokens) {
  StopTokens stops({7, 2, 7});
  EXPECT_TRUE(stops.contains(2) && stops.contains(7));
  EXPECT_FALSE(stops.contains(3) || StopTokens({}).contains(0));
}

} // namespace
} // namespace llmc
