// SPDX-License-Identifier: Apache-2.0
//
// `generate`: a prompt in, text or token ids out, as they come.
#include "runtime/llm/Generator.h"
#include "tools/cli/Commands.h"
#include "tools/cli/ModelOptionsFlags.h"
#include "tools/cli/ReadFile.h"
#include "tools/cli/ResourceUsage.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <cstdio>

namespace llmc::cli {

namespace {

struct GenerateFlags {
  std::string bundle;
  ModelOptions model;
  std::string prompt;
  std::string promptFile;
  std::string promptIds;
  uint64_t maxTokens = 128;
  uint64_t context = 0;
  std::vector<std::string> stop;
  bool ids = false;
  bool stats = false;
  bool ignoreStopTokens = false;
  SamplingWishes sampling;
};

Result<std::vector<int32_t>> parseIds(const std::string &text) {
  std::vector<int32_t> ids;
  const char *at = text.data(), *end = text.data() + text.size();
  while (true) {
    while (at != end && (*at == ' ' || *at == ','))
      ++at;
    if (at == end)
      return ids;
    int32_t id;
    auto [rest, failure] = std::from_chars(at, end, id);
    if (failure != std::errc() || id < 0 || (rest != end && *rest != ',' && *rest != ' '))
      return Status::error(Code::InvalidArgument,
                           "--prompt-ids takes token ids such as 1,2,3; '{}' is none",
                           std::string(at, std::find(at, end, ',')));
    ids.push_back(id);
    at = rest;
  }
}

/// The text of --prompt or --prompt-file; "-" reads standard input.
Result<std::string> promptText(const GenerateFlags &flags) {
  std::string path = flags.promptFile;
  if (path.empty() && flags.prompt != "-")
    return flags.prompt;
  if (path.empty() || path == "-")
    path = "/dev/stdin";
  LLMC_TRY_ASSIGN(Bytes bytes, readFile(path));
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

GenerateOptions toOptions(const GenerateFlags &flags, const Model &model) {
  GenerateOptions options;
  options.maxTokens = flags.maxTokens;
  options.sampling = resolveSampling(model.generationConfig().sampling, flags.sampling);
  if (!flags.ignoreStopTokens)
    options.stopTokens = model.generationConfig().endTokens;
  options.stop = flags.stop;
  return options;
}

void printStats(const GenerateResult &result, double loadSeconds) {
  double perToken = result.generatedTokens > 1
                        ? result.decodeSeconds / double(result.generatedTokens - 1) * 1e3
                        : 0;
  std::fprintf(stderr,
               "load %.1f ms; prompt %llu tokens in %.1f ms (%.1f tokens/s); generated %llu tokens "
               "in %.1f ms (%.2f ms each); peak memory %.1f MB\n",
               loadSeconds * 1e3, static_cast<unsigned long long>(result.promptTokens),
               result.prefillSeconds * 1e3,
               result.prefillSeconds > 0 ? double(result.promptTokens) / result.prefillSeconds : 0,
               static_cast<unsigned long long>(result.generatedTokens), result.decodeSeconds * 1e3,
               perToken, double(peakMemoryBytes()) / 1e6);
}

Status generateText(const GenerateFlags &flags) {
  auto start = std::chrono::steady_clock::now();
  LLMC_TRY_ASSIGN(std::shared_ptr<Model> model, openModel(flags.bundle, flags.model));
  std::chrono::duration<double> loadTime = std::chrono::steady_clock::now() - start;

  auto tokenizer = model->tokenizer();
  // Nothing is missing on this machine: the request doesn't fit the bundle.
  if (!tokenizer.isOk() && (flags.promptIds.empty() || !flags.ids))
    return Status::error(Code::InvalidArgument, "{}; --ids prints ids",
                         tokenizer.status().message());
  std::vector<int32_t> prompt;
  if (!flags.promptIds.empty()) {
    LLMC_TRY_ASSIGN(prompt, parseIds(flags.promptIds));
  } else {
    LLMC_TRY_ASSIGN(std::string text, promptText(flags));
    LLMC_TRY_ASSIGN(std::vector<uint32_t> ids, tokenizer->encode(text, true));
    prompt.assign(ids.begin(), ids.end());
    if (auto begin = model->generationConfig().beginToken; prompt.empty() && begin)
      prompt.push_back(int32_t(*begin));
  }
  LLMC_TRY_ASSIGN(std::unique_ptr<Session> session, model->createSession(flags.context));
  bool first = true, canWrite = true;
  auto onToken = [&](const TokenEvent &event) {
    if (!flags.ids) {
      std::fwrite(event.text.data(), 1, event.text.size(), stdout);
    } else if (event.id >= 0) {
      std::printf(first ? "%d" : " %d", event.id);
      first = false;
    }
    canWrite = std::fflush(stdout) == 0;
    return canWrite;
  };
  GenerateResult result;
  Status status = generate(*session, tokenizer.isOk() ? &*tokenizer : nullptr, prompt,
                           toOptions(flags, *model), onToken, result);
  std::printf("\n");
  if (!canWrite)
    return Status::error(Code::Unavailable, "can't write to standard output");
  LLMC_TRY(status);
  if (result.finish == FinishReason::ContextFull)
    std::fprintf(stderr, "note: stopped because the context of %llu tokens is full\n",
                 static_cast<unsigned long long>(session->capacity()));
  if (flags.stats)
    printStats(result, loadTime.count());
  return Status::ok();
}

} // namespace

void addGenerateCommand(CLI::App &app, int &exitCode) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App *command = app.add_subcommand("generate", "Continue a prompt");
  addModelFlags(*command, flags->bundle, flags->model);
  CLI::Option_group *prompt = command->add_option_group("prompt", "One of these is needed");
  prompt->add_option("--prompt", flags->prompt, "The text to continue; - reads standard input");
  prompt->add_option("--prompt-file", flags->promptFile, "A file with the text to continue");
  prompt->add_option("--prompt-ids", flags->promptIds, "Token ids to continue, such as 1,2,3");
  prompt->require_option(1);
  command
      ->add_option("-n,--max-tokens", flags->maxTokens,
                   "How many tokens to generate at most; 0 = until the context is full")
      ->capture_default_str();
  command->add_option("--context", flags->context,
                      "The most tokens of prompt and answer together (default: the bundle's)");
  command->add_option("--temperature", flags->sampling.temperature,
                      "Below 1 likelier tokens are preferred, above 1 less so; 0 = greedy");
  command->add_option("--top-k", flags->sampling.topK,
                      "Choose among the K likeliest tokens; 0 = all");
  command->add_option("--top-p", flags->sampling.topP,
                      "Choose among the likeliest tokens that make up this probability; 1 = all");
  command->add_option("--min-p", flags->sampling.minP,
                      "Leave out tokens less likely than this times the likeliest; 0 = none");
  command->add_option("--repetition-penalty", flags->sampling.repetitionPenalty,
                      "Above 1: make tokens that occurred already less likely");
  command->add_option("--seed", flags->sampling.seed, "The same seed gives the same text");
  command->add_flag("--greedy", flags->sampling.greedy, "Always take the likeliest token");
  command->add_option("--stop", flags->stop, "End before this text (repeat for more)")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", flags->ignoreStopTokens,
                    "Go on after the model's end-of-text tokens");
  command->add_flag("--ids", flags->ids, "Print only the new token ids, separated by spaces");
  command->add_flag("--stats", flags->stats, "Print times and memory to standard error");
  command->footer(examples(app,
                           {
                               "$0 generate austen.llmc --prompt \"It is a truth\" -n 60",
                               "$0 generate austen.llmc --prompt-file letter.txt --temperature 0.8 "
                               "--top-p 0.95 --seed 1",
                               "echo \"Dear Jane,\" | $0 generate austen.llmc --prompt - --stats",
                               "$0 generate gpt2.llmc --prompt-ids 464,3290 -n 8 --greedy --ids",
                           }) +
                  "\n\nSampling follows the model's generation_config.json unless told otherwise.");
  command->callback([flags, &exitCode] {
    Status status = generateText(*flags);
    exitCode = status.isOk() ? int(kOk) : reportFailure(status);
  });
}

} // namespace llmc::cli
