// SPDX-License-Identifier: Apache-2.0
//
// Programs put together by hand; the kernels are built beside the tests.
#include "tests/unit/llm/CountingModel.h"

#include "compiler/bundle/TokenizerCompiler.h"
#include "runtime/llm/UnicodeText.h"
#include "tests/unit/bundle/TestBundle.h"
#include "tests/unit/exec/ProgramBuilder.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>

namespace llmc::test {

namespace {

[[noreturn]] void fail(const std::string &why) {
  std::fprintf(stderr, "can't make a test bundle: %s\n", why.c_str());
  std::abort();
}

/// The dims of one way to keep a cache, as (outer, past, inner) with the batch in `outer`.
struct CacheShape {
  std::vector<int64_t> dims; // kBatch, kPast, or a constant; kBatch * n is kBatchTimes
  uint32_t axis;
  int64_t outer, inner; // of one sequence
};
constexpr int64_t kBatch = -1, kPast = -2, kBatchTimes3 = -3;

CacheShape cacheShape(CountingModel::Layout layout) {
  switch (layout) {
  case CountingModel::HeadsTokens:
    return {{kBatch, 3, kPast, 2}, 2, 3, 2};
  case CountingModel::Combined:
    return {{2, kBatch, 3, kPast, 2}, 3, 6, 2};
  case CountingModel::TokensFirst:
    return {{kBatch, kPast, 4}, 1, 1, 4};
  case CountingModel::TokensLast:
    return {{kBatchTimes3, 2, kPast}, 2, 6, 1};
  }
  std::abort();
}

void addRecompute(ProgramBuilder &p, bool foreign) {
  uint32_t batch = p.symbol("batch_size"), sequence = p.symbol("sequence_length");
  p.beginEntry("run");
  uint32_t b = p.symbolExpr(batch), s = p.symbolExpr(sequence);
  uint32_t v = p.constant(kCountingVocabulary);
  uint32_t ids =
      p.input("input_ids", Dtype::I64, {b, s}, {"batch_size", "sequence_length"}, LLMC_ROLE_IDS);
  if (foreign) {
    p.input("pixel_values", Dtype::F32, {b}, {"batch_size"});
    p.input("encoder_states", Dtype::F32, {b}, {"batch_size"});
  }
  uint32_t logits = p.output("logits", Dtype::F32, {b, s, v}, {"batch_size", "sequence_length"},
                             LLMC_ROLE_LOGITS);
  p.bindInput(batch, 0, 0);
  p.bindInput(sequence, 0, 1);
  p.dispatch(p.kernel("count_all", 2, 1, 3), {ids, logits}, {b, s, v}, "/model/count");
  p.endEntry();
}

void addCache(ProgramBuilder &p, CountingModel::Layout layout) {
  CacheShape shape = cacheShape(layout);
  uint32_t batch = p.symbol("batch_size"), sequence = p.symbol("sequence_length");
  uint32_t past = p.symbol("past_sequence_length");
  p.beginEntry("run");
  uint32_t b = p.symbolExpr(batch), s = p.symbolExpr(sequence), t = p.symbolExpr(past);
  uint32_t v = p.constant(kCountingVocabulary), total = p.add(t, s);
  std::vector<uint32_t> pastDims, presentDims;
  for (int64_t dim : shape.dims) {
    uint32_t expr = dim == kBatch         ? b
                    : dim == kPast        ? t
                    : dim == kBatchTimes3 ? p.mul(b, p.constant(3))
                                          : p.constant(dim);
    pastDims.push_back(expr);
    presentDims.push_back(dim == kPast ? total : expr);
  }
  uint32_t outer = p.constant(shape.outer), inner = p.constant(shape.inner);
  uint32_t ids =
      p.input("input_ids", Dtype::I64, {b, s}, {"batch_size", "sequence_length"}, LLMC_ROLE_IDS);
  uint32_t mask = p.input("attention_mask", Dtype::I64, {b, total}, {}, LLMC_ROLE_MASK);
  uint32_t positions = p.input("position_ids", Dtype::I64, {b, s}, {}, LLMC_ROLE_POSITIONS);
  uint32_t before =
      p.input("past_key_values.0.key", Dtype::F32, pastDims, {}, LLMC_ROLE_PAST, shape.axis);
  uint32_t logits = p.output("logits", Dtype::F32, {b, s, v}, {}, LLMC_ROLE_LOGITS);
  uint32_t after =
      p.output("present.0.key", Dtype::F32, presentDims, {}, LLMC_ROLE_PRESENT, shape.axis);
  p.pair(3, 1);
  p.bindInput(batch, 0, 0);
  p.bindInput(sequence, 0, 1);
  p.bindInput(past, 3, shape.axis);
  p.dispatch(p.kernel("count_cached", 6, 2, 5), {ids, mask, positions, before, logits, after},
             {s, t, outer, inner, v}, "/model/count");
  p.endEntry();
}

void addState(ProgramBuilder &p) {
  uint32_t batch = p.symbol("batch_size"), sequence = p.symbol("sequence_length");
  p.beginEntry("run");
  uint32_t b = p.symbolExpr(batch), s = p.symbolExpr(sequence);
  uint32_t v = p.constant(kCountingVocabulary);
  uint32_t ids = p.input("input_ids", Dtype::I64, {b, s}, {}, LLMC_ROLE_IDS);
  uint32_t positions = p.input("position_ids", Dtype::I64, {b, s}, {}, LLMC_ROLE_POSITIONS);
  uint32_t before = p.input("past_state", Dtype::F32, {b}, {}, LLMC_ROLE_PAST);
  uint32_t logits = p.output("logits", Dtype::F32, {b, v}, {}, LLMC_ROLE_LOGITS);
  uint32_t after = p.output("present_state", Dtype::F32, {b}, {}, LLMC_ROLE_PRESENT);
  p.pair(2, 1);
  p.bindInput(batch, 0, 0);
  p.bindInput(sequence, 0, 1);
  p.dispatch(p.kernel("count_state", 5, 2, 2), {ids, positions, before, logits, after}, {s, v},
             "/model/count");
  p.endEntry();
}

void addBlocks(ProgramBuilder &p) {
  uint32_t sequence = p.symbol("chunk"), past = p.symbol("past");
  p.beginEntry("session", LLMC_ENTRY_SESSION);
  uint32_t one = p.constant(1), s = p.symbolExpr(sequence), t = p.symbolExpr(past);
  uint32_t v = p.constant(kCountingVocabulary);
  uint32_t ids = p.input("input_ids", Dtype::I64, {one, s}, {}, LLMC_ROLE_IDS);
  uint32_t logits = p.output("logits", Dtype::F32, {one, one, v}, {}, LLMC_ROLE_LOGITS);
  uint32_t blocks = p.kv();
  p.bindSession(sequence, LLMC_BIND_SESSION_SEQ);
  p.bindSession(past, LLMC_BIND_SESSION_PAST);
  p.dispatch(p.kernel("count_blocks", 4, 2, 3), {ids, blocks, logits, blocks}, {s, t, v},
             "/model/count");
  p.endEntry();
}

/// A byte is a token; "<end>" is special.
std::string byteTokenizer() {
  nlohmann::json model = {
      {"type", "BPE"}, {"vocab", nlohmann::json::object()}, {"merges", nlohmann::json::array()}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string character;
    appendUtf8(character, characterOfByte(static_cast<uint8_t>(byte)));
    model["vocab"][character] = byte;
  }
  nlohmann::json document = {
      {"model", model},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"added_tokens", {{{"id", 256}, {"content", "<end>"}, {"special", true}}}}};
  TokenizerCompileResult result = compileTokenizer(document.dump(), "");
  if (result.outcome != TokenizerCompileResult::Compiled)
    fail(result.message);
  return result.bytes;
}

void writeBundle(const std::string &path, const ProgramBuilder &program,
                 const CountingModel &model) {
  std::vector<std::byte> bytes = program.encode();
  TestBundle bundle;
  bundle.entries.push_back({LLMC_ENTRY_PROGRAM,
                            std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()),
                            LLMC_ALIGN_DEFAULT});
  if (model.hasTokenizer)
    bundle.entries.push_back({LLMC_ENTRY_TOKENIZER, byteTokenizer(), LLMC_ALIGN_DEFAULT});
  if (!model.generation.empty())
    bundle.entries.push_back({LLMC_ENTRY_GENERATION, model.generation, LLMC_ALIGN_DEFAULT});
  bundle.entries.push_back(
      {"code/x86_64-avx2.so", readFile(LLMC_TEST_IMAGES "/counting.so"), LLMC_ALIGN_CODE});
  bundle.changeManifest = [&](const std::string &text) {
    nlohmann::json manifest = nlohmann::json::parse(text);
    if (model.maxContext == 0)
      manifest["model"].erase("max_context");
    else
      manifest["model"]["max_context"] = model.maxContext;
    return manifest.dump();
  };
  if (std::string error = bundle.write(path); !error.empty())
    fail(error);
}

} // namespace

void CountingModel::write(const std::string &path) const {
  ProgramBuilder program;
  if (way == Cache)
    addCache(program, layout);
  else if (way == State)
    addState(program);
  else
    addRecompute(program, way == Foreign);
  if (way == Blocks)
    addBlocks(program);
  writeBundle(path, program, *this);
}

int32_t countingNext(const std::vector<int32_t> &tokens) {
  int64_t sum = static_cast<int64_t>(tokens.size()) - 1;
  for (int32_t token : tokens)
    sum += token;
  return static_cast<int32_t>(sum % kCountingVocabulary);
}

std::vector<int32_t> countingContinue(std::vector<int32_t> tokens, size_t count) {
  std::vector<int32_t> added;
  for (size_t i = 0; i < count; ++i) {
    added.push_back(countingNext(tokens));
    tokens.push_back(added.back());
  }
  return added;
}

void writeIdentityBundle(const std::string &path) {
  constexpr Dtype kTypes[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8,
                              Dtype::I16, Dtype::I32, Dtype::I64, Dtype::U8,   Dtype::U16,
                              Dtype::U32, Dtype::U64, Dtype::Bool};
  ProgramBuilder p;
  uint32_t rows = p.symbol("rows");
  p.beginEntry("run");
  uint32_t r = p.symbolExpr(rows), two = p.constant(2), count = p.mul(r, two);
  std::vector<uint32_t> from, to, sizes;
  for (Dtype dtype : kTypes) {
    std::string name(dtypeName(dtype));
    from.push_back(p.input("x/" + name, dtype, {r, two}, {"rows"}));
    to.push_back(p.output("y/" + name, dtype, {r, two}, {"rows"}));
    sizes.push_back(p.mul(count, p.constant(static_cast<int64_t>(dtypeSize(dtype)))));
  }
  p.bindInput(rows, 0, 0);
  for (size_t i = 0; i < from.size(); ++i)
    p.dispatch(p.kernel("copy_bytes", 2, 1, 1), {from[i], to[i]}, {sizes[i]}, "/copy");
  p.endEntry();
  writeBundle(path, p, CountingModel());
}

} // namespace llmc::test
