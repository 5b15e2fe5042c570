// SPDX-License-Identifier: Apache-2.0
//
// Chooses among the three ways to decode.
#include "runtime/llm/Decoder.h"

#include "runtime/llm/BlockDecoder.h"
#include "runtime/llm/CacheDecoder.h"
#include "runtime/llm/RecomputeDecoder.h"

#include <algorithm>

namespace llmc {

namespace {

enum class Way { Blocks, Cache, Recompute };

struct Choice {
  Way way;
  size_t entry;
};

Result<Choice> choose(const Program &program) {
  auto indexOf = [&](const llmc_entry_record *entry) {
    return static_cast<size_t>(entry - program.entries().data());
  };
  if (const auto *session = program.findEntry(uint32_t(LLMC_ENTRY_SESSION)))
    return Choice{Way::Blocks, indexOf(session)};
  const auto *run = program.findEntry(uint32_t(LLMC_ENTRY_RUN));
  if (!run)
    return Status::error(Code::InvalidArgument, "can't generate: the bundle has no entry point");
  bool hasPast = std::ranges::any_of(
      program.inputs(*run), [](const llmc_io_record &io) { return io.role == LLMC_ROLE_PAST; });
  return Choice{hasPast ? Way::Cache : Way::Recompute, indexOf(run)};
}

} // namespace

Status Decoder::check(const Program &program) {
  LLMC_TRY_ASSIGN(Choice choice, choose(program));
  LLMC_TRY(SequenceInputs::create(program, choice.entry).status());
  if (choice.way == Way::Cache)
    LLMC_TRY(CacheDecoder::pairTensors(program, program.entries()[choice.entry]).status());
  return LogitsReader::create(program, program.entries()[choice.entry]).status();
}

Result<std::unique_ptr<Decoder>> Decoder::create(const std::shared_ptr<Executor> &executor,
                                                 std::shared_ptr<KvPool> pool, int64_t capacity) {
  LLMC_TRY_ASSIGN(Choice choice, choose(executor->program()));
  switch (choice.way) {
  case Way::Blocks:
    return BlockDecoder::create(executor, choice.entry, std::move(pool), capacity);
  case Way::Cache:
    return CacheDecoder::create(executor, choice.entry, capacity);
  case Way::Recompute:
    break;
  }
  return RecomputeDecoder::create(executor, choice.entry);
}

} // namespace llmc
