// SPDX-License-Identifier: Apache-2.0
//
// A bundle made ready to run: its devices, its code, its tokenizer. What the C
// API calls a bundle. Immutable once open and shared by threads; sessions and
// runs keep it alive.
#ifndef LLMC_RUNTIME_LLM_MODEL_H
#define LLMC_RUNTIME_LLM_MODEL_H

#include "runtime/bundle/BundleReader.h"
#include "runtime/exec/Executor.h"
#include "runtime/llm/GenerationConfig.h"
#include "runtime/llm/Session.h"
#include "runtime/llm/Tokenizer.h"

#include <mutex>
#include <optional>

namespace llmc {

struct ModelOptions {
  uint32_t threads = 0;  ///< of each CPU device; 0 = one per core
  bool verify = false;   ///< hash the weights too
  std::string isa;       ///< the highest ISA level to use; empty = the best there is
  bool hugePages = true; ///< move weights into 2 MB pages after the first call
};

class Model : public std::enable_shared_from_this<Model> {
public:
  static Result<std::shared_ptr<Model>> open(const std::string &path, const ModelOptions &options);
  /// See BundleReader::fromMemory.
  static Result<std::shared_ptr<Model>> fromMemory(std::span<const std::byte> file,
                                                   std::shared_ptr<const void> owner,
                                                   const ModelOptions &options);

  const BundleReader &bundle() const { return *reader; }
  const Program &program() const { return reader->program(); }
  const std::shared_ptr<Executor> &executor() const { return sharedExecutor; }

  /// The entry with the model's own inputs and outputs, if there is one.
  std::optional<size_t> runEntry() const;

  /// The tokens a session holds unless told otherwise: what the bundle says, else kDefaultContext.
  uint64_t defaultContext() const { return contextTokens; }
  /// `context`: tokens; 0 = defaultContext().
  Result<std::unique_ptr<Session>> createSession(uint64_t context);

  /// NotFound when the bundle has none.
  Result<Tokenizer> tokenizer() const;
  /// Sampling and stop tokens as the model's authors set them.
  const GenerationConfig &generationConfig() const { return generation; }

  /// An execution context for one call at a time, taken from those that earlier calls gave back.
  std::unique_ptr<ExecContext> takeContext();
  void giveContext(std::unique_ptr<ExecContext> context);

  static constexpr uint64_t kDefaultContext = 4096;

private:
  Model() = default;
  static Result<std::shared_ptr<Model>> make(std::shared_ptr<const BundleReader> reader,
                                             const ModelOptions &options);
  Status load(const ModelOptions &options);

  std::shared_ptr<const BundleReader> reader;
  std::shared_ptr<Executor> sharedExecutor;
  std::shared_ptr<KvPool> pool; // null without a SESSION entry
  std::optional<Tokenizer> loadedTokenizer;
  GenerationConfig generation;
  uint64_t contextTokens = kDefaultContext;
  std::mutex lock; // guards the next
  std::vector<std::unique_ptr<ExecContext>> idleContexts;
};

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_MODEL_H
