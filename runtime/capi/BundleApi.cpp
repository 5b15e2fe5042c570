// SPDX-License-Identifier: Apache-2.0
//
// llmc.h: versions, opening and looking at bundles, tokenizing.
#include "runtime/capi/BundleHandle.h"
#include "runtime/capi/CBoundary.h"
#include "runtime/llm/IoRole.h"

#include <limits>

#define LLMC_TEXT_INNER(x) #x
#define LLMC_TEXT(x) LLMC_TEXT_INNER(x)

using namespace llmc;
using namespace llmc::capi;

namespace {

/// The last dimension of the logits of whichever entry has them, where it is constant.
uint64_t fixedVocabulary(const Program &program) {
  for (const llmc_entry_record &entry : program.entries()) {
    for (const llmc_io_record &io : program.outputs(entry)) {
      if (io.role != LLMC_ROLE_LOGITS || io.dims.count == 0)
        continue;
      const llmc_expr_record &expr = program.exprs(entry)[program.pool(io.dims).back()];
      if (expr.op == LLMC_EXPR_CONST)
        return static_cast<uint64_t>(expr.value);
    }
  }
  return 0;
}

template <typename Open>
Status openBundle(const llmc_bundle_options *given, llmc_bundle **bundle, Open &&open) {
  LLMC_TRY(checkGiven(bundle, "bundle"));
  *bundle = nullptr;
  LLMC_TRY_ASSIGN(llmc_bundle_options options,
                  readOptions(given, LLMC_BUNDLE_OPTIONS_INIT, "options"));
  ModelOptions modelOptions;
  modelOptions.threads = options.threads;
  modelOptions.verify = options.verify != 0;
  modelOptions.hugePages = options.no_huge_pages == 0;
  if (options.isa)
    modelOptions.isa = options.isa;
  LLMC_TRY_ASSIGN(std::shared_ptr<Model> model, open(modelOptions));
  *bundle = new llmc_bundle(std::move(model));
  return Status::ok();
}

Status getIo(const std::vector<std::unique_ptr<IoText>> &list, size_t index, const char *kind,
             llmc_io_info *out) {
  if (index >= list.size())
    return Status::error(Code::InvalidArgument, "there is no {} {}: the bundle has {}", kind, index,
                         list.size());
  const IoText &io = *list[index];
  llmc_io_info info = {};
  info.name = io.name.c_str();
  info.dtype = static_cast<llmc_dtype>(io.dtype);
  info.rank = static_cast<uint32_t>(io.dims.size());
  info.dims = io.dims.data();
  info.dim_names = io.dimPointers.data();
  info.role = io.role;
  return writeStruct(info, out, "info");
}

} // namespace

IoText::IoText(const Program &program, const llmc_entry_record &entry, const llmc_io_record &io)
    : name(program.string(io.name)), dtype(Dtype(io.dtype)), role(roleName(io.role)) {
  std::span<const uint32_t> exprs = program.pool(io.dims);
  for (uint32_t axis = 0; axis < exprs.size(); ++axis) {
    const llmc_expr_record &expr = program.exprs(entry)[exprs[axis]];
    bool fixed = expr.op == LLMC_EXPR_CONST;
    dims.push_back(fixed ? expr.value : -1);
    dimNames.emplace_back(fixed ? std::to_string(expr.value)
                                : std::string(program.dimName(io, axis)));
  }
  for (const std::string &text : dimNames)
    dimPointers.push_back(text.c_str());
}

llmc_bundle::llmc_bundle(std::shared_ptr<Model> opened) : model(std::move(opened)) {
  const Program &program = model->program();
  if (auto run = model->runEntry()) {
    const llmc_entry_record &entry = program.entries()[*run];
    for (const llmc_io_record &io : program.inputs(entry))
      inputs.push_back(std::make_unique<IoText>(program, entry, io));
    for (const llmc_io_record &io : program.outputs(entry))
      outputs.push_back(std::make_unique<IoText>(program, entry, io));
  }
  canGenerate = Decoder::check(program).isOk();
  vocabulary = fixedVocabulary(program);
  if (!model->executor()->devices().empty())
    device = model->executor()->devices()[0]->description();
}

const char *llmc_version(void) {
  return LLMC_TEXT(LLMC_VERSION_MAJOR) "." LLMC_TEXT(LLMC_VERSION_MINOR) "." LLMC_TEXT(
      LLMC_VERSION_PATCH);
}

// A C caller may pass any number for an enum; C++'s rule that it can't is not ours to enforce.
#define LLMC_ANY_ENUM_VALUE __attribute__((no_sanitize("enum")))

LLMC_ANY_ENUM_VALUE size_t llmc_dtype_size(llmc_dtype dtype) {
  return dtypeSize(static_cast<Dtype>(static_cast<uint32_t>(dtype)));
}

LLMC_ANY_ENUM_VALUE const char *llmc_dtype_name(llmc_dtype dtype) {
  // The views are of literals, so they end with a NUL.
  return dtypeName(static_cast<Dtype>(static_cast<uint32_t>(dtype))).data();
}

llmc_status llmc_bundle_open(const char *path, const llmc_bundle_options *options,
                             llmc_bundle **bundle, llmc_error **error) {
  return guarded(error, [&] {
    return openBundle(options, bundle,
                      [&](const ModelOptions &modelOptions) -> Result<std::shared_ptr<Model>> {
                        LLMC_TRY(checkGiven(path, "path"));
                        return Model::open(path, modelOptions);
                      });
  });
}

llmc_status llmc_bundle_open_memory(const void *data, size_t size,
                                    const llmc_bundle_options *options, llmc_bundle **bundle,
                                    llmc_error **error) {
  return guarded(error, [&] {
    return openBundle(options, bundle,
                      [&](const ModelOptions &modelOptions) -> Result<std::shared_ptr<Model>> {
                        LLMC_TRY(checkGiven(data, "data"));
                        if (reinterpret_cast<uintptr_t>(data) % 64 != 0)
                          return Status::error(Code::InvalidArgument,
                                               "'data' does not start at a multiple of 64 bytes");
                        return Model::fromMemory({static_cast<const std::byte *>(data), size},
                                                 nullptr, modelOptions);
                      });
  });
}

void llmc_bundle_retain(llmc_bundle *bundle) {
  bundle->references.fetch_add(1, std::memory_order_relaxed);
}

void llmc_bundle_release(llmc_bundle *bundle) {
  if (bundle && bundle->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete bundle;
}

llmc_status llmc_bundle_get_info(const llmc_bundle *bundle, llmc_bundle_info *info,
                                 llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    llmc_bundle_info value = {};
    value.input_count = bundle->inputs.size();
    value.output_count = bundle->outputs.size();
    value.can_generate = bundle->canGenerate;
    value.has_tokenizer = bundle->model->tokenizer().isOk();
    value.default_context = bundle->model->defaultContext();
    value.vocabulary = bundle->vocabulary;
    value.manifest = bundle->model->bundle().manifestText().data();
    value.manifest_size = bundle->model->bundle().manifestText().size();
    value.device = bundle->device.c_str();
    return writeStruct(value, info, "info");
  });
}

llmc_status llmc_bundle_get_input(const llmc_bundle *bundle, size_t index, llmc_io_info *info,
                                  llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    return getIo(bundle->inputs, index, "input", info);
  });
}

llmc_status llmc_bundle_get_output(const llmc_bundle *bundle, size_t index, llmc_io_info *info,
                                   llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    return getIo(bundle->outputs, index, "output", info);
  });
}

llmc_status llmc_tokenize(llmc_bundle *bundle, const char *text, size_t text_size,
                          const llmc_tokenize_options *given, int32_t *ids, size_t capacity,
                          size_t *count, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    LLMC_TRY(checkGiven(count, "count"));
    if (text_size > 0)
      LLMC_TRY(checkGiven(text, "text"));
    if (capacity > 0)
      LLMC_TRY(checkGiven(ids, "ids"));
    LLMC_TRY_ASSIGN(llmc_tokenize_options options,
                    readOptions(given, LLMC_TOKENIZE_OPTIONS_INIT, "options"));
    LLMC_TRY_ASSIGN(Tokenizer tokenizer, bundle->model->tokenizer());
    LLMC_TRY_ASSIGN(std::vector<uint32_t> tokens,
                    tokenizer.encode({text, text_size}, options.no_special_tokens == 0));
    *count = tokens.size();
    if (capacity > 0 && capacity < tokens.size())
      return Status::error(Code::ResourceExhausted,
                           "the text has {} tokens, but there is room "
                           "for {}",
                           tokens.size(), capacity);
    if (capacity > 0)
      std::copy(tokens.begin(), tokens.end(), ids);
    return Status::ok();
  });
}

llmc_status llmc_detokenize(llmc_bundle *bundle, const int32_t *ids, size_t count,
                            const llmc_detokenize_options *given, char *text, size_t capacity,
                            size_t *text_size, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    LLMC_TRY(checkGiven(text_size, "text_size"));
    if (count > 0)
      LLMC_TRY(checkGiven(ids, "ids"));
    if (capacity > 0)
      LLMC_TRY(checkGiven(text, "text"));
    LLMC_TRY_ASSIGN(llmc_detokenize_options options,
                    readOptions(given, LLMC_DETOKENIZE_OPTIONS_INIT, "options"));
    LLMC_TRY_ASSIGN(Tokenizer tokenizer, bundle->model->tokenizer());
    std::vector<uint32_t> tokens(ids, ids + count);
    LLMC_TRY_ASSIGN(std::string result, tokenizer.decode(tokens, options.keep_special_tokens == 0));
    *text_size = result.size();
    if (capacity > 0 && capacity < result.size())
      return Status::error(Code::ResourceExhausted,
                           "the text has {} bytes, but there is room "
                           "for {}",
                           result.size(), capacity);
    if (capacity > 0)
      result.copy(text, result.size());
    return Status::ok();
  });
}
