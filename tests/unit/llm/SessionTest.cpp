// SPDX-License-Identifier: Apache-2.0
//
// Sessions over a model whose answers are known, in each of the ways in which a
// program can keep its cache: the answers must never depend on the way.
#include "runtime/llm/Session.h"
#include "runtime/llm/Generator.h"
#include "runtime/llm/Model.h"
#include "tests/unit/bundle/TestBundle.h"
#include "tests/unit/llm/CountingModel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace llmc {
namespace {

using test::countingContinue;
using test::CountingModel;
using Ids = std::vector<int32_t>;

std::shared_ptr<Model> openModel(const CountingModel &counting, uint32_t threads = 2) {
  test::TemporaryFolder folder;
  std::string path = folder.path("counting.llmc");
  counting.write(path);
  ModelOptions options;
  options.threads = threads;
  auto model = Model::open(path, options);
  EXPECT_TRUE(model.isOk()) << model.status().message();
  return model.isOk() ? *model : nullptr;
}

int32_t likeliest(const Session &session) {
  std::span<const float> logits = session.logits();
  return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Ids someTokens(size_t count) {
  Ids ids(count);
  for (size_t i = 0; i < count; ++i)
    ids[i] = int32_t(i * 7 % 100);
  return ids;
}

/// Every way and layout.
std::vector<std::pair<std::string, CountingModel>> allWays() {
  std::vector<std::pair<std::string, CountingModel>> models;
  auto add = [&](const char *name, CountingModel::Way way,
                 CountingModel::Layout layout = CountingModel::HeadsTokens) {
    CountingModel model;
    model.way = way;
    model.layout = layout;
    models.emplace_back(name, model);
  };
  add("Recompute", CountingModel::Recompute);
  add("State", CountingModel::State);
  add("Blocks", CountingModel::Blocks);
  add("HeadsTokens", CountingModel::Cache, CountingModel::HeadsTokens);
  add("Combined", CountingModel::Cache, CountingModel::Combined);
  add("TokensFirst", CountingModel::Cache, CountingModel::TokensFirst);
  add("TokensLast", CountingModel::Cache, CountingModel::TokensLast);
  return models;
}

class EveryWay : public testing::TestWithParam<std::pair<std::string, CountingModel>> {
protected:
  void SetUp() override {
    model = openModel(GetParam().second);
    ASSERT_TRUE(model);
    auto made = model->createSession(2048);
    ASSERT_TRUE(made.isOk()) << made.status().message();
    session = std::move(*made);
  }
  void append(const Ids &ids) {
    Status status = session->append(ids);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  /// The session's next `count` greedy tokens are the right ones.
  void expectContinues(size_t count) {
    Ids sequence(session->tokens().begin(), session->tokens().end());
    for (int32_t want : countingContinue(sequence, count)) {
      ASSERT_EQ(likeliest(*session), want) << "after " << session->tokens().size() << " tokens";
      append({want});
    }
  }
  std::shared_ptr<Model> model;
  std::unique_ptr<Session> session;
};

TEST_P(EveryWay, PromptThenTokens) {
  append({3, 1, 4, 1, 5});
  expectContinues(20);
}

TEST_P(EveryWay, OneTokenPrompt) {
  append({9});
  expectContinues(3);
}

TEST_P(EveryWay, PromptLongerThanAStepThenAcrossBlocks) {
  append(someTokens(kStepTokens + 37));
  expectContinues(130);
}

TEST_P(EveryWay, SeveralPrompts) {
  append(someTokens(10));
  append(someTokens(70));
  append(someTokens(3));
  expectContinues(5);
}

TEST_P(EveryWay, RewindForgetsTheEnd) {
  append(someTokens(90));
  for (uint64_t length : {80, 64, 63, 1}) {
    ASSERT_TRUE(session->rewind(length).isOk());
    EXPECT_EQ(session->tokens().size(), length);
    EXPECT_TRUE(session->logits().empty());
    append({5, 6});
    expectContinues(4);
    ASSERT_TRUE(session->rewind(length).isOk());
  }
  ASSERT_TRUE(session->rewind(0).isOk());
  append({2, 7});
  expectContinues(4);
  EXPECT_EQ(session->rewind(100).code(), Code::InvalidArgument);
}

TEST_P(EveryWay, AFailedStepLeavesTheSequence) {
  append({3, 1, 4});
  Status status = session->append(Ids{5, 100000});
  EXPECT_EQ(status.code(), Code::InvalidArgument) << status.message();
  EXPECT_EQ(session->tokens().size(), 3u);
  EXPECT_TRUE(session->logits().empty());
  append({5});
  expectContinues(3);
}

TEST_P(EveryWay, AFailureInALaterStepForgetsTheEarlierOnes) {
  append({3, 1, 4});
  Ids ids = someTokens(kStepTokens + 10);
  ids.back() = 100000;
  EXPECT_FALSE(session->append(ids).isOk());
  EXPECT_EQ(session->tokens().size(), 3u);
  append({5});
  expectContinues(3);
}

TEST_P(EveryWay, RefusesNegativeIdsAndNothing) {
  EXPECT_EQ(session->append(Ids{1, -2}).code(), Code::InvalidArgument);
  EXPECT_EQ(session->append(Ids{}).code(), Code::InvalidArgument);
  EXPECT_TRUE(session->logits().empty());
}

TEST_P(EveryWay, FullContextIsRefusedBeforeAnythingIsComputed) {
  auto small = model->createSession(4);
  ASSERT_TRUE(small.isOk()) << small.status().message();
  ASSERT_TRUE((*small)->append(Ids{1, 2, 3}).isOk());
  int32_t next = likeliest(**small);
  Status status = (*small)->append(Ids{4, 5});
  EXPECT_EQ(status.code(), Code::ResourceExhausted);
  EXPECT_NE(status.message().find("3 tokens of at most 4, and 2 more"), std::string::npos)
      << status.message();
  EXPECT_EQ((*small)->tokens().size(), 3u);
  EXPECT_EQ(likeliest(**small), next);
  EXPECT_TRUE((*small)->append(Ids{4}).isOk());
  EXPECT_EQ((*small)->append(Ids{4}).code(), Code::ResourceExhausted);
}

TEST_P(EveryWay, ACancelStopsOneCall) {
  append({3, 1, 4});
  session->cancel();
  EXPECT_EQ(session->append(Ids{1}).code(), Code::Cancelled);
  EXPECT_EQ(session->tokens().size(), 3u);
  append({1});
  expectContinues(2);
}

TEST_P(EveryWay, SessionsOfOneModelDoNotDisturbEachOther) {
  auto other = model->createSession(300);
  ASSERT_TRUE(other.isOk());
  append({3, 1, 4});
  ASSERT_TRUE((*other)->append(someTokens(100)).isOk());
  expectContinues(5);
  EXPECT_EQ(likeliest(**other), test::countingNext(someTokens(100)));
}

TEST_P(EveryWay, SessionsRunInThreads) {
  std::vector<std::thread> threads;
  std::vector<Ids> got(4);
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      auto own = model->createSession(300);
      if (!own.isOk() || !(*own)->append(someTokens(10 + i)).isOk())
        return;
      for (int n = 0; n < 20; ++n) {
        int32_t id = likeliest(**own);
        got[i].push_back(id);
        if (!(*own)->append(std::span(&id, 1)).isOk())
          return;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], countingContinue(someTokens(10 + i), 20)) << i;
}

INSTANTIATE_TEST_SUITE_P(Session, EveryWay, testing::ValuesIn(allWays()),
                         [](const auto &info) { return info.param.first; });

TEST(Session, NamesInputsThatTokensCannotMake) {
  CountingModel counting;
  counting.way = CountingModel::Foreign;
  std::shared_ptr<Model> model = openModel(counting);
  ASSERT_TRUE(model);
  auto session = model->createSession(16);
  ASSERT_FALSE(session.isOk());
  EXPECT_EQ(session.status().code(), Code::InvalidArgument);
  for (const char *name : {"'pixel_values'", "'encoder_states'"})
    EXPECT_NE(session.status().message().find(name), std::string::npos)
        << session.status().message();
}

TEST(Session, ContextComesFromTheBundle) {
  CountingModel counting;
  counting.maxContext = 7;
  std::shared_ptr<Model> model = openModel(counting);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->defaultContext(), 7u);
  auto session = model->createSession(0);
  ASSERT_TRUE(session.isOk());
  EXPECT_EQ((*session)->capacity(), 7u);
  EXPECT_FALSE(model->createSession(uint64_t(1) << 40).isOk());
}

// -------------------------------------------------------------------- generate

struct Generated {
  Status status = Status::ok();
  Ids ids;
  std::string text;
  GenerateResult result;
};

Generated runGenerate(Session &session, const Tokenizer *tokenizer, const Ids &prompt,
                      const GenerateOptions &options, size_t stopAfter = SIZE_MAX) {
  Generated generated;
  auto onToken = [&](const TokenEvent &event) {
    if (event.id >= 0)
      generated.ids.push_back(event.id);
    generated.text += event.text;
    return generated.ids.size() < stopAfter;
  };
  generated.status = generate(session, tokenizer, prompt, options, onToken, generated.result);
  return generated;
}

class Generate : public testing::Test {
protected:
  void SetUp() override {
    CountingModel counting;
    counting.way = CountingModel::Blocks;
    counting.hasTokenizer = true;
    counting.generation = R"({"eos_token_ids": [65, 300]})";
    model = openModel(counting);
    ASSERT_TRUE(model);
    auto made = model->createSession(256);
    ASSERT_TRUE(made.isOk());
    session = std::move(*made);
    auto loaded = model->tokenizer();
    ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
    tokenizer = *loaded;
    options.maxTokens = 12;
  }
  std::string textOf(const Ids &ids) { return std::string(ids.begin(), ids.end()); }

  std::shared_ptr<Model> model;
  std::unique_ptr<Session> session;
  std::optional<Tokenizer> tokenizer;
  GenerateOptions options;
  Ids prompt = {72, 101, 108};
};

TEST_F(Generate, GivesTheModelsTokensAndTheirText) {
  Generated got = runGenerate(*session, &*tokenizer, prompt, options);
  ASSERT_TRUE(got.status.isOk()) << got.status.message();
  Ids want = countingContinue(prompt, 12);
  EXPECT_EQ(got.ids, want);
  EXPECT_EQ(got.text, textOf(want));
  EXPECT_EQ(got.result.finish, FinishReason::Length);
  EXPECT_EQ(got.result.promptTokens, 3u);
  EXPECT_EQ(got.result.generatedTokens, 12u);
  EXPECT_EQ(session->tokens().size(), 3u + 11u); // the last one isn't appended
}

TEST_F(Generate, StopsAtAStopToken) {
  Ids want = countingContinue(prompt, 12);
  options.stopTokens = {uint32_t(want[5])};
  auto first = std::find(want.begin(), want.end(), want[5]);
  Generated got = runGenerate(*session, &*tokenizer, prompt, options);
  ASSERT_TRUE(got.status.isOk());
  EXPECT_EQ(got.ids, Ids(want.begin(), first));
  EXPECT_EQ(got.result.finish, FinishReason::StopToken);
}

TEST_F(Generate, StopsBeforeAStopText) {
  std::string whole = textOf(countingContinue(prompt, 12));
  options.stop = {whole.substr(4, 3)};
  Generated got = runGenerate(*session, &*tokenizer, prompt, options);
  ASSERT_TRUE(got.status.isOk());
  EXPECT_EQ(got.text, whole.substr(0, whole.find(options.stop[0])));
  EXPECT_EQ(got.result.finish, FinishReason::StopString);
}

TEST_F(Generate, GivesHeldBackTextAtTheEnd) {
  std::string whole = textOf(countingContinue(prompt, 12));
  options.stop = {whole.substr(10) + "and more"};
  Generated got = runGenerate(*session, &*tokenizer, prompt, options);
  ASSERT_TRUE(got.status.isOk());
  EXPECT_EQ(got.text, whole);
  EXPECT_EQ(got.ids.size(), 12u);
}

TEST_F(Generate, StopsWhenTheContextIsFull) {
  auto small = model->createSession(8);
  ASSERT_TRUE(small.isOk());
  options.maxTokens = 0;
  Generated got = runGenerate(**small, &*tokenizer, prompt, options);
  ASSERT_TRUE(got.status.isOk());
  EXPECT_EQ(got.result.finish, FinishReason::ContextFull);
  EXPECT_EQ(got.ids, countingContinue(prompt, 6)); // five fit, and the sixth needs no room
}

TEST_F(Generate, StopsWhenTheCallerSaysSo) {
  Generated got = runGenerate(*session, &*tokenizer, prompt, options, 3);
  EXPECT_EQ(got.status.code(), Code::Cancelled);
  EXPECT_EQ(got.ids.size(), 3u);
  EXPECT_EQ(got.result.finish, FinishReason::Cancelled);
  EXPECT_EQ(got.result.generatedTokens, 3u);
}

TEST_F(Generate, WorksWithoutATokenizerButNotForStopTexts) {
  Generated got = runGenerate(*session, nullptr, prompt, options);
  ASSERT_TRUE(got.status.isOk());
  EXPECT_EQ(got.ids, countingContinue(prompt, 12));
  EXPECT_EQ(got.text, "");
  options.stop = {"x"};
  EXPECT_EQ(runGenerate(*session, nullptr, prompt, options).status.code(), Code::InvalidArgument);
}

TEST_F(Generate, ContinuesASequence) {
  ASSERT_TRUE(session->append(prompt).isOk());
  Generated got = runGenerate(*session, nullptr, {}, options);
  ASSERT_TRUE(got.status.isOk()) << got.status.message();
  EXPECT_EQ(got.ids, countingContinue(prompt, 12));
  ASSERT_TRUE(session->rewind(0).isOk());
  EXPECT_EQ(runGenerate(*session, nullptr, {}, options).status.code(), Code::InvalidArgument);
}

TEST_F(Generate, TheSameSeedGivesTheSameTokens) {
  SamplingWishes wishes;
  wishes.temperature = 3;
  wishes.seed = 11;
  options.sampling = resolveSampling(SamplingOptions(), wishes);
  EXPECT_FALSE(options.sampling.isGreedy);
  Generated first = runGenerate(*session, nullptr, prompt, options);
  ASSERT_TRUE(session->rewind(0).isOk());
  Generated second = runGenerate(*session, nullptr, prompt, options);
  ASSERT_TRUE(first.status.isOk()) << first.status.message();
  EXPECT_EQ(first.ids, second.ids);
  EXPECT_NE(first.ids, countingContinue(prompt, 12));
}

TEST(ResolveSampling, WishesWinOverTheModelsChoice) {
  SamplingOptions model;
  model.isGreedy = false;
  model.temperature = 0.7f;
  model.topK = 50;
  SamplingWishes wishes;
  wishes.topK = 5;
  wishes.seed = 1;
  SamplingOptions options = resolveSampling(model, wishes);
  EXPECT_EQ(options.temperature, 0.7f);
  EXPECT_EQ(options.topK, 5u);
  EXPECT_FALSE(options.isGreedy);
  wishes.greedy = true;
  EXPECT_TRUE(resolveSampling(model, wishes).isGreedy);
  EXPECT_TRUE(resolveSampling(SamplingOptions(), SamplingWishes()).isGreedy);
  // Without a seed, two generations differ.
  wishes = SamplingWishes();
  EXPECT_NE(resolveSampling(model, wishes).seed, resolveSampling(model, wishes).seed);
}

TEST(Model, ReportsADamagedGenerationConfig) {
  test::TemporaryFolder folder;
  CountingModel counting;
  counting.generation = R"({"temperature": "hot"})";
  counting.write(folder.path("x.llmc"));
  auto model = Model::open(folder.path("x.llmc"), ModelOptions());
  ASSERT_FALSE(model.isOk());
  EXPECT_EQ(model.status().code(), Code::Corrupt);
}

} // namespace
} // namespace llmc
