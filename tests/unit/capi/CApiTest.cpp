// SPDX-License-Identifier: Apache-2.0
//
// The C API as a caller meets it: only llmc.h is used to reach the runtime.
#include "llmc/llmc.h"
#include "tests/unit/bundle/TestBundle.h"
#include "tests/unit/llm/CountingModel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace llmc::test {
namespace {

/// An error out-parameter that frees itself.
struct Error {
  llmc_error *object = nullptr;
  ~Error() { llmc_error_free(object); }
  llmc_error **operator&() {
    llmc_error_free(object);
    object = nullptr;
    return &object;
  }
  std::string message() const { return llmc_error_message(object); }
};

llmc_tensor tensorOf(const char *name, llmc_dtype dtype, std::vector<int64_t> dims, void *data,
                     size_t byteSize) {
  llmc_tensor tensor = {};
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.rank = uint32_t(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  tensor.data = data;
  tensor.byte_size = byteSize;
  return tensor;
}

class CApi : public testing::Test {
protected:
  void open(const CountingModel &model, const llmc_bundle_options *options = nullptr) {
    path = folder.path("model.llmc");
    model.write(path);
    ASSERT_EQ(llmc_bundle_open(path.c_str(), options, &bundle, &error), LLMC_OK) << error.message();
  }
  void TearDown() override { llmc_bundle_release(bundle); }

  TemporaryFolder folder;
  std::string path;
  llmc_bundle *bundle = nullptr;
  Error error;
};

TEST_F(CApi, OpensAndDescribesABundle) {
  CountingModel model;
  model.way = CountingModel::Cache;
  model.maxContext = 99;
  open(model);
  llmc_bundle_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(llmc_bundle_get_info(bundle, &info, &error), LLMC_OK);
  EXPECT_EQ(info.input_count, 4u);
  EXPECT_EQ(info.output_count, 2u);
  EXPECT_TRUE(info.can_generate);
  EXPECT_FALSE(info.has_tokenizer);
  EXPECT_EQ(info.default_context, 99u);
  EXPECT_EQ(info.vocabulary, uint64_t(kCountingVocabulary));
  EXPECT_NE(std::string(info.manifest, info.manifest_size).find("\"format\""), std::string::npos);
  EXPECT_NE(std::string(info.device), "");

  llmc_io_info io = {};
  io.struct_size = sizeof io;
  ASSERT_EQ(llmc_bundle_get_input(bundle, 0, &io, &error), LLMC_OK);
  EXPECT_STREQ(io.name, "input_ids");
  EXPECT_EQ(io.dtype, LLMC_I64);
  ASSERT_EQ(io.rank, 2u);
  EXPECT_EQ(io.dims[0], -1);
  EXPECT_STREQ(io.dim_names[1], "sequence_length");
  EXPECT_STREQ(io.role, "ids");
  ASSERT_EQ(llmc_bundle_get_output(bundle, 1, &io, &error), LLMC_OK);
  EXPECT_STREQ(io.name, "present.0.key");
  EXPECT_EQ(io.dims[1], 3);
  EXPECT_STREQ(io.dim_names[1], "3");
  EXPECT_STREQ(io.role, "present");
  EXPECT_EQ(llmc_bundle_get_input(bundle, 4, &io, &error), LLMC_INVALID_ARGUMENT);
  EXPECT_NE(error.message().find("has 4"), std::string::npos) << error.message();
}

TEST_F(CApi, SmallerStructsOfOlderCallersAreFilledAsFarAsTheyGo) {
  open(CountingModel());
  llmc_bundle_info info;
  std::memset(&info, 0x55, sizeof info);
  info.struct_size = offsetof(llmc_bundle_info, output_count);
  ASSERT_EQ(llmc_bundle_get_info(bundle, &info, &error), LLMC_OK);
  EXPECT_EQ(info.input_count, 1u);
  EXPECT_EQ(info.output_count, size_t(0x5555555555555555));
  info.struct_size = 0;
  EXPECT_EQ(llmc_bundle_get_info(bundle, &info, &error), LLMC_INVALID_ARGUMENT);
}

TEST_F(CApi, LargerOptionsOfNewerCallersAreTakenUnlessTheySetSomethingNew) {
  struct {
    llmc_bundle_options known;
    uint64_t unknown;
  } options = {LLMC_BUNDLE_OPTIONS_INIT, 0};
  options.known.struct_size = sizeof options;
  open(CountingModel(), &options.known);
  llmc_bundle *second = nullptr;
  options.unknown = 1;
  EXPECT_EQ(llmc_bundle_open(path.c_str(), &options.known, &second, &error), LLMC_INCOMPATIBLE);
  EXPECT_EQ(second, nullptr);
}

TEST_F(CApi, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(llmc_bundle_open("/nonexistent/x.llmc", nullptr, &bundle, &error), LLMC_NOT_FOUND);
  EXPECT_EQ(llmc_error_status(error.object), LLMC_NOT_FOUND);
  EXPECT_NE(error.message().find("/nonexistent/x.llmc"), std::string::npos);
  EXPECT_EQ(llmc_bundle_open("/nonexistent/x.llmc", nullptr, &bundle, nullptr), LLMC_NOT_FOUND);
  EXPECT_EQ(llmc_bundle_open(nullptr, nullptr, &bundle, &error), LLMC_INVALID_ARGUMENT);
  EXPECT_EQ(llmc_bundle_open("x", nullptr, nullptr, &error), LLMC_INVALID_ARGUMENT);
  writeFile(folder.path("bad.llmc"), "this is no bundle");
  EXPECT_EQ(llmc_bundle_open(folder.path("bad.llmc").c_str(), nullptr, &bundle, &error),
            LLMC_CORRUPT);
  EXPECT_EQ(bundle, nullptr);
  llmc_bundle_options options = LLMC_BUNDLE_OPTIONS_INIT;
  options.isa = "z80";
  path = folder.path("good.llmc");
  CountingModel().write(path);
  EXPECT_NE(llmc_bundle_open(path.c_str(), &options, &bundle, &error), LLMC_OK);
  EXPECT_NE(error.message().find("z80"), std::string::npos) << error.message();
  EXPECT_EQ(llmc_error_status(nullptr), LLMC_OK);
  llmc_error_free(nullptr);
  llmc_bundle_release(nullptr);
  llmc_session_free(nullptr);
}

TEST_F(CApi, ASuccessClearsTheError) {
  llmc_error *object = nullptr;
  ASSERT_NE(llmc_bundle_open("/nonexistent", nullptr, &bundle, &object), LLMC_OK);
  ASSERT_NE(object, nullptr);
  llmc_error *first = object;
  path = folder.path("good.llmc");
  CountingModel().write(path);
  EXPECT_EQ(llmc_bundle_open(path.c_str(), nullptr, &bundle, &object), LLMC_OK);
  EXPECT_EQ(object, nullptr);
  llmc_error_free(first);
}

TEST_F(CApi, OpensFromMemory) {
  CountingModel model;
  model.write(folder.path("m.llmc"));
  AlignedCopy copy(readFile(folder.path("m.llmc")));
  ASSERT_EQ(llmc_bundle_open_memory(copy.span.data(), copy.span.size(), nullptr, &bundle, &error),
            LLMC_OK)
      << error.message();
  llmc_bundle *other = nullptr;
  EXPECT_EQ(
      llmc_bundle_open_memory(copy.span.data() + 1, copy.span.size() - 1, nullptr, &other, &error),
      LLMC_INVALID_ARGUMENT);
}

TEST_F(CApi, RunsOnNamedTensorsOfAnyOrderAndAlignment) {
  CountingModel model;
  model.way = CountingModel::Cache;
  open(model);
  std::vector<int64_t> ids = {4, 5}, mask = {1, 1}, positions = {0, 1};
  llmc_tensor inputs[] = {
      tensorOf("position_ids", LLMC_I64, {1, 2}, positions.data(), 16),
      tensorOf("past_key_values.0.key", LLMC_F32, {1, 3, 0, 2}, nullptr, 0),
      tensorOf("attention_mask", LLMC_I64, {1, 2}, mask.data(), 16),
      tensorOf("input_ids", LLMC_I64, {1, 2}, ids.data(), 16),
  };
  llmc_tensor shapes[2] = {};
  shapes[0].name = "present.0.key";
  shapes[1].name = "logits";
  ASSERT_EQ(llmc_output_shapes(bundle, inputs, 4, shapes, 2, &error), LLMC_OK) << error.message();
  EXPECT_EQ(shapes[0].rank, 4u);
  EXPECT_EQ(shapes[0].dims[2], 2);
  EXPECT_EQ(shapes[0].byte_size, size_t(3 * 2 * 2 * 4));
  EXPECT_EQ(shapes[1].dtype, LLMC_F32);
  EXPECT_EQ(shapes[1].byte_size, size_t(2 * kCountingVocabulary * 4));

  // Only one output, at an odd address; one input at an odd address too.
  std::vector<char> room(shapes[1].byte_size + 1), oddIds(17);
  std::memcpy(oddIds.data() + 1, ids.data(), 16);
  inputs[3].data = oddIds.data() + 1;
  llmc_tensor logits = shapes[1];
  logits.data = room.data() + 1;
  ASSERT_EQ(llmc_run(bundle, inputs, 4, &logits, 1, &error), LLMC_OK) << error.message();
  std::vector<float> values(2 * kCountingVocabulary);
  std::memcpy(values.data(), logits.data, logits.byte_size);
  EXPECT_EQ(values[size_t(countingNext({4}))], 10.0f);
  EXPECT_EQ(values[size_t(kCountingVocabulary + countingNext({4, 5}))], 10.0f);
}

TEST_F(CApi, RunRefusesWrongTensors) {
  open(CountingModel());
  std::vector<int64_t> ids = {4, 5};
  std::vector<float> room(2 * kCountingVocabulary);
  llmc_tensor input = tensorOf("input_ids", LLMC_I64, {1, 2}, ids.data(), 16);
  llmc_tensor output = tensorOf("logits", LLMC_F32, {}, room.data(), room.size() * 4);
  auto run = [&](size_t inputs, const llmc_tensor &changed) {
    llmc_tensor both[] = {changed, changed};
    return llmc_run(bundle, both, inputs, &output, 1, &error);
  };
  EXPECT_EQ(run(1, input), LLMC_OK) << error.message();
  EXPECT_EQ(run(0, input), LLMC_INVALID_ARGUMENT);
  EXPECT_NE(error.message().find("missing: 'input_ids'"), std::string::npos) << error.message();
  EXPECT_EQ(run(2, input), LLMC_INVALID_ARGUMENT);
  EXPECT_NE(error.message().find("given twice"), std::string::npos);
  llmc_tensor wrong = input;
  wrong.name = "ids";
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  EXPECT_NE(error.message().find("'input_ids'"), std::string::npos) << error.message();
  wrong = input;
  wrong.dtype = LLMC_I32;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  wrong = input;
  wrong.rank = 1;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  wrong = input;
  wrong.rank = 17;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  wrong = input;
  wrong.dims[0] = -1;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  wrong = input;
  wrong.dims[0] = wrong.dims[1] = int64_t(1) << 40;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  wrong = input;
  wrong.byte_size = 15;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  wrong = input;
  wrong.data = nullptr;
  EXPECT_EQ(run(1, wrong), LLMC_INVALID_ARGUMENT);
  ids[1] = 1000; // the model itself refuses it
  EXPECT_EQ(run(1, input), LLMC_INVALID_ARGUMENT) << error.message();
  ids[1] = 5;
  output.byte_size -= 1;
  EXPECT_EQ(run(1, input), LLMC_RESOURCE_EXHAUSTED);
  output.byte_size += 1;
  output.name = "losses";
  EXPECT_EQ(run(1, input), LLMC_NOT_FOUND);
  output.name = "logits";
  EXPECT_EQ(run(1, input), LLMC_OK);
}

TEST_F(CApi, RunsFromSeveralThreads) {
  open(CountingModel());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 20; ++i) {
        std::vector<int64_t> ids(size_t(1 + (i + t) % 5), t);
        auto count = int64_t(ids.size());
        std::vector<float> room(ids.size() * kCountingVocabulary);
        llmc_tensor input = tensorOf("input_ids", LLMC_I64, {1, count}, ids.data(), ids.size() * 8);
        llmc_tensor output = tensorOf("logits", LLMC_F32, {}, room.data(), room.size() * 4);
        int64_t next = (count * t + count - 1) % kCountingVocabulary;
        if (llmc_run(bundle, &input, 1, &output, 1, nullptr) == LLMC_OK &&
            room[size_t((count - 1) * kCountingVocabulary + next)] == 10.0f)
          ++right;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 80);
}

TEST_F(CApi, TokenizesAndDetokenizes) {
  CountingModel model;
  model.hasTokenizer = true;
  open(model);
  size_t count = 0;
  ASSERT_EQ(llmc_tokenize(bundle, "Hi <end>!", 9, nullptr, nullptr, 0, &count, &error), LLMC_OK)
      << error.message();
  ASSERT_EQ(count, 5u);
  std::vector<int32_t> ids(count);
  EXPECT_EQ(llmc_tokenize(bundle, "Hi <end>!", 9, nullptr, ids.data(), 4, &count, &error),
            LLMC_RESOURCE_EXHAUSTED);
  ASSERT_EQ(llmc_tokenize(bundle, "Hi <end>!", 9, nullptr, ids.data(), 5, &count, &error), LLMC_OK);
  EXPECT_EQ(ids, (std::vector<int32_t>{'H', 'i', ' ', 256, '!'}));

  llmc_detokenize_options keep = LLMC_DETOKENIZE_OPTIONS_INIT;
  keep.keep_special_tokens = 1;
  for (const auto &[options, want] :
       {std::pair{(const llmc_detokenize_options *)nullptr, std::string("Hi !")},
        std::pair{(const llmc_detokenize_options *)&keep, std::string("Hi <end>!")}}) {
    size_t size = 0;
    ASSERT_EQ(llmc_detokenize(bundle, ids.data(), 5, options, nullptr, 0, &size, &error), LLMC_OK);
    std::string text(size, '?');
    ASSERT_EQ(llmc_detokenize(bundle, ids.data(), 5, options, text.data(), size, &size, &error),
              LLMC_OK);
    EXPECT_EQ(text, want);
  }
}

TEST_F(CApi, WithoutATokenizerTextIsRefused) {
  open(CountingModel());
  size_t count = 0;
  EXPECT_EQ(llmc_tokenize(bundle, "x", 1, nullptr, nullptr, 0, &count, &error), LLMC_NOT_FOUND);
}

class CApiSession : public CApi {
protected:
  void SetUp() override {
    CountingModel model;
    model.way = CountingModel::Blocks;
    model.hasTokenizer = true;
    open(model);
    llmc_session_options options = LLMC_SESSION_OPTIONS_INIT;
    options.context = 64;
    ASSERT_EQ(llmc_session_create(bundle, &options, &session, &error), LLMC_OK) << error.message();
  }
  void TearDown() override {
    llmc_session_free(session);
    CApi::TearDown();
  }
  llmc_session *session = nullptr;
};

TEST_F(CApiSession, PrefillsDecodesAndRewinds) {
  EXPECT_EQ(llmc_session_capacity(session), 64u);
  EXPECT_EQ(llmc_session_logits(session, nullptr), nullptr);
  const int32_t ids[] = {1, 2, 3};
  ASSERT_EQ(llmc_session_prefill(session, ids, 3, &error), LLMC_OK) << error.message();
  size_t count = 0;
  const float *logits = llmc_session_logits(session, &count);
  ASSERT_EQ(count, size_t(kCountingVocabulary));
  EXPECT_EQ(logits[countingNext({1, 2, 3})], 10.0f);
  ASSERT_EQ(llmc_session_decode(session, 4, &error), LLMC_OK);
  EXPECT_EQ(llmc_session_length(session), 4u);
  EXPECT_EQ(llmc_session_logits(session, nullptr)[countingNext({1, 2, 3, 4})], 10.0f);
  ASSERT_EQ(llmc_session_rewind(session, 2, &error), LLMC_OK);
  ASSERT_EQ(llmc_session_decode(session, 9, &error), LLMC_OK);
  EXPECT_EQ(llmc_session_logits(session, nullptr)[countingNext({1, 2, 9})], 10.0f);
  EXPECT_EQ(llmc_session_rewind(session, 10, &error), LLMC_INVALID_ARGUMENT);
  EXPECT_EQ(llmc_session_decode(session, -1, &error), LLMC_INVALID_ARGUMENT);
  EXPECT_EQ(llmc_session_prefill(session, nullptr, 3, &error), LLMC_INVALID_ARGUMENT);
  std::vector<int32_t> many(62, 1);
  EXPECT_EQ(llmc_session_prefill(session, many.data(), 62, &error), LLMC_RESOURCE_EXHAUSTED);
  EXPECT_EQ(llmc_session_length(session), 3u);
}

struct Collected {
  std::vector<int32_t> ids;
  std::string text;
  size_t stopAfter = SIZE_MAX;
};

int collect(void *user, const llmc_token_event *event) {
  auto *collected = static_cast<Collected *>(user);
  if (event->id >= 0)
    collected->ids.push_back(event->id);
  collected->text.append(event->text, event->text_size);
  return collected->ids.size() >= collected->stopAfter;
}

TEST_F(CApiSession, Generates) {
  const int32_t prompt[] = {72, 105};
  llmc_generate_options options = LLMC_GENERATE_OPTIONS_INIT;
  options.max_tokens = 5;
  options.greedy = 1;
  llmc_generate_result result = {};
  result.struct_size = sizeof result;
  Collected got;
  ASSERT_EQ(llmc_session_generate(session, prompt, 2, &options, collect, &got, &result, &error),
            LLMC_OK)
      << error.message();
  EXPECT_EQ(got.ids, countingContinue({72, 105}, 5));
  EXPECT_EQ(got.text, std::string(got.ids.begin(), got.ids.end()));
  EXPECT_EQ(result.finish, LLMC_FINISH_LENGTH);
  EXPECT_EQ(result.prompt_tokens, 2u);
  EXPECT_EQ(result.generated_tokens, 5u);

  ASSERT_EQ(llmc_session_rewind(session, 0, &error), LLMC_OK);
  std::string stopText = got.text.substr(2, 2);
  const char *stops[] = {stopText.c_str()};
  options.stop = stops;
  options.stop_count = 1;
  std::string whole = got.text;
  got = {};
  ASSERT_EQ(llmc_session_generate(session, prompt, 2, &options, collect, &got, &result, &error),
            LLMC_OK);
  EXPECT_EQ(got.text, whole.substr(0, whole.find(stopText)));
  EXPECT_EQ(result.finish, LLMC_FINISH_STOP_STRING);

  ASSERT_EQ(llmc_session_rewind(session, 0, &error), LLMC_OK);
  options.top_p = 2.0f;
  EXPECT_EQ(llmc_session_generate(session, prompt, 2, &options, nullptr, nullptr, nullptr, &error),
            LLMC_INVALID_ARGUMENT);
}

TEST_F(CApiSession, TheCallbackStopsAGeneration) {
  const int32_t prompt[] = {72, 105};
  llmc_generate_options options = LLMC_GENERATE_OPTIONS_INIT;
  Collected got;
  got.stopAfter = 3;
  llmc_generate_result result = {};
  result.struct_size = sizeof result;
  EXPECT_EQ(llmc_session_generate(session, prompt, 2, &options, collect, &got, &result, &error),
            LLMC_CANCELLED);
  EXPECT_EQ(got.ids.size(), 3u);
  EXPECT_EQ(result.finish, LLMC_FINISH_CANCELLED);
  EXPECT_EQ(result.generated_tokens, 3u);
}

TEST_F(CApiSession, AnotherThreadStopsAGeneration) {
  llmc_session_options large = LLMC_SESSION_OPTIONS_INIT;
  large.context = 1000000;
  llmc_session *endless = nullptr;
  ASSERT_EQ(llmc_session_create(bundle, &large, &endless, &error), LLMC_OK) << error.message();
  std::atomic<bool> started = false;
  std::thread other([&] {
    while (!started)
      std::this_thread::yield();
    llmc_session_cancel(endless);
  });
  auto onToken = [](void *user, const llmc_token_event *) {
    static_cast<std::atomic<bool> *>(user)->store(true);
    return 0;
  };
  const int32_t prompt[] = {1};
  llmc_generate_options options = LLMC_GENERATE_OPTIONS_INIT;
  EXPECT_EQ(llmc_session_generate(endless, prompt, 1, &options, onToken, &started, nullptr, &error),
            LLMC_CANCELLED);
  other.join();
  EXPECT_GT(llmc_session_length(endless), 0u);
  EXPECT_EQ(llmc_session_decode(endless, 1, &error), LLMC_OK) << error.message();
  llmc_session_free(endless);
}

TEST_F(CApiSession, KeepsItsBundleAlive) {
  llmc_bundle_retain(bundle);
  llmc_bundle_release(bundle);
  llmc_bundle_release(bundle); // the test's own reference; the session has one too
  bundle = nullptr;
  const int32_t ids[] = {1, 2, 3};
  ASSERT_EQ(llmc_session_prefill(session, ids, 3, &error), LLMC_OK) << error.message();
  EXPECT_EQ(llmc_session_logits(session, nullptr)[countingNext({1, 2, 3})], 10.0f);
}

TEST(CApiDtype, NamesAndSizes) {
  EXPECT_STREQ(llmc_dtype_name(LLMC_BF16), "bf16");
  EXPECT_EQ(llmc_dtype_size(LLMC_BF16), 2u);
  EXPECT_STREQ(llmc_dtype_name(static_cast<llmc_dtype>(99)), "invalid");
  EXPECT_EQ(llmc_dtype_size(static_cast<llmc_dtype>(99)), 0u);
  EXPECT_STREQ(llmc_version(), "0.1.0");
}

} // namespace
} // namespace llmc::test
