// SPDX-License-Identifier: Apache-2.0
//
// Opening a bundle: devices, code, tokenizer, defaults.
#include "runtime/llm/Model.h"

#include "runtime/drivers/Drivers.h"

#include <charconv>

namespace llmc {

Result<std::shared_ptr<Model>> Model::open(const std::string &path, const ModelOptions &options) {
  LLMC_TRY_ASSIGN(std::shared_ptr<const BundleReader> reader, BundleReader::open(path));
  return make(std::move(reader), options);
}

Result<std::shared_ptr<Model>> Model::fromMemory(std::span<const std::byte> file,
                                                 std::shared_ptr<const void> owner,
                                                 const ModelOptions &options) {
  LLMC_TRY_ASSIGN(std::shared_ptr<const BundleReader> reader,
                  BundleReader::fromMemory(file, std::move(owner)));
  return make(std::move(reader), options);
}

Result<std::shared_ptr<Model>> Model::make(std::shared_ptr<const BundleReader> reader,
                                           const ModelOptions &options) {
  std::shared_ptr<Model> model(new Model());
  model->reader = std::move(reader);
  LLMC_TRY(model->load(options));
  return model;
}

Status Model::load(const ModelOptions &options) {
  if (options.verify)
    LLMC_TRY(reader->verify());

  DriverRegistry registry;
  LLMC_TRY(registerDrivers(registry));
  std::vector<DriverSetting> settings;
  if (options.threads != 0)
    settings.push_back({"cpu", {"threads", std::to_string(options.threads)}});
  if (!options.isa.empty())
    settings.push_back({"cpu", {"isa", options.isa}});
  LLMC_TRY_ASSIGN(std::vector<std::shared_ptr<Device>> devices,
                  openDevices(registry, program(), settings));
  ExecutorOptions executorOptions;
  executorOptions.hugePages = options.hugePages;
  LLMC_TRY_ASSIGN(sharedExecutor,
                  Executor::create(ExecutorSource::fromBundle(reader), devices, executorOptions));
  if (program().findEntry(uint32_t(LLMC_ENTRY_SESSION))) {
    LLMC_TRY_ASSIGN(pool, KvPool::create(std::move(devices), sharedExecutor->kvBuffers()));
  }

  if (const Archive::Entry *entry = reader->find(LLMC_ENTRY_TOKENIZER)) {
    LLMC_TRY_ASSIGN(loadedTokenizer, Tokenizer::load(entry->bytes, reader));
  }
  if (const Archive::Entry *entry = reader->find(LLMC_ENTRY_GENERATION)) {
    LLMC_TRY_ASSIGN(generation,
                    GenerationConfig::parse(std::string_view(
                        reinterpret_cast<const char *>(entry->bytes.data()), entry->bytes.size())));
  }
  const auto &facts = reader->manifest().model;
  if (auto found = facts.find("max_context"); found != facts.end()) {
    const std::string &text = found->second;
    auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), contextTokens);
    if (failure != std::errc() || end != text.data() + text.size() || contextTokens == 0)
      return Status::error(Code::Corrupt,
                           "the manifest's max_context is '{}', not a number of tokens", text);
  }
  return Status::ok();
}

std::optional<size_t> Model::runEntry() const {
  const llmc_entry_record *entry = program().findEntry(uint32_t(LLMC_ENTRY_RUN));
  if (!entry)
    return std::nullopt;
  return static_cast<size_t>(entry - program().entries().data());
}

Result<std::unique_ptr<Session>> Model::createSession(uint64_t context) {
  return Session::create(sharedExecutor, pool, context == 0 ? contextTokens : context);
}

Result<Tokenizer> Model::tokenizer() const {
  if (!loadedTokenizer)
    return Status::error(Code::NotFound,
                         "the bundle has no tokenizer: compile the model with its tokenizer.json "
                         "beside it, or pass token ids");
  return *loadedTokenizer;
}

std::unique_ptr<ExecContext> Model::takeContext() {
  {
    std::lock_guard guard(lock);
    if (!idleContexts.empty()) {
      std::unique_ptr<ExecContext> context = std::move(idleContexts.back());
      idleContexts.pop_back();
      return context;
    }
  }
  return sharedExecutor->createContext();
}

void Model::giveContext(std::unique_ptr<ExecContext> context) {
  std::lock_guard guard(lock);
  idleContexts.push_back(std::move(context));
}

} // namespace llmc
