// SPDX-License-Identifier: Apache-2.0
//
// Finding files by the names that exporters use.
#include "compiler/driver/ModelFolder.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <openssl/evp.h>

namespace llmc {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// Configuration files are small; anything larger is not one.
static constexpr uint64_t kMaxConfigBytes = uint64_t(256) << 20;

static llvm::Error environmentError(const llvm::Twine &text) {
  return llvm::createStringError(std::make_error_code(std::errc::no_such_file_or_directory), text);
}

static llvm::Error readOptional(const std::string &folder, const char *name, std::string &contents,
                                std::map<std::string, std::string> &files) {
  llvm::SmallString<256> file(folder);
  path::append(file, name);
  uint64_t size = 0;
  if (!fs::is_regular_file(file))
    return llvm::Error::success();
  if (fs::file_size(file, size) || size > kMaxConfigBytes)
    return environmentError("[LLMC1503] '" + file + "' is larger than any " + name + " (256 MiB)");
  auto buffer =
      llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return llvm::createStringError(buffer.getError(), "[LLMC1502] cannot read '" + file +
                                                          "': " + buffer.getError().message());
  contents = (*buffer)->getBuffer().str();
  files[name] = file.str().str();
  return llvm::Error::success();
}

llvm::Expected<ModelFolder> ModelFolder::find(const std::string &given) {
  ModelFolder found;
  std::string folder;
  if (fs::is_directory(given)) {
    folder = given;
    // The usual name first, then the only .onnx file of the folder or of its "onnx" subfolder.
    for (const char *sub : {"", "onnx"}) {
      llvm::SmallString<256> place(given);
      path::append(place, sub);
      llvm::SmallString<256> usual(place);
      path::append(usual, "model.onnx");
      if (fs::is_regular_file(usual)) {
        found.model = usual.str().str();
        break;
      }
      std::vector<std::string> candidates;
      std::error_code error;
      for (fs::directory_iterator it(place, error), end; it != end && !error; it.increment(error))
        if (path::extension(it->path()) == ".onnx")
          candidates.push_back(it->path());
      llvm::sort(candidates);
      if (candidates.size() > 1)
        return environmentError("[LLMC1501] '" + given +
                                "' has several models and none is called model.onnx: name one of " +
                                llvm::join(candidates, ", "));
      if (candidates.size() == 1) {
        found.model = candidates[0];
        break;
      }
    }
    if (found.model.empty())
      return environmentError("[LLMC1501] '" + given + "' has no .onnx file");
    found.name =
        path::filename(path::remove_leading_dotslash(llvm::StringRef(given).rtrim('/'))).str();
  } else {
    if (!fs::exists(given))
      return environmentError("[LLMC1501] '" + given + "' does not exist");
    found.model = given;
    folder = path::parent_path(given).str();
    if (folder.empty())
      folder = ".";
    found.name = path::stem(given).str();
  }
  if (auto error = readOptional(folder, "config.json", found.config, found.files))
    return error;
  if (auto error =
          readOptional(folder, "generation_config.json", found.generationConfig, found.files))
    return error;
  if (auto error = readOptional(folder, "tokenizer.json", found.tokenizer, found.files))
    return error;
  if (auto error =
          readOptional(folder, "tokenizer_config.json", found.tokenizerConfig, found.files))
    return error;
  return found;
}

int64_t ModelFolder::contextLength() const {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(config);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return 0;
  }
  const llvm::json::Object *object = parsed->getAsObject();
  for (const llvm::json::Object *level :
       {object, object ? object->getObject("text_config") : nullptr})
    if (level)
      for (const char *key :
           {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"})
        if (auto value = level->getInteger(key); value && *value > 0)
          return *value;
  return 0;
}

llvm::Expected<std::string> hashFile(const std::string &file) {
  llvm::Expected<fs::file_t> handle = fs::openNativeFileForRead(file);
  if (!handle)
    return handle.takeError();
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr);
  std::vector<char> buffer(size_t(1) << 20);
  while (true) {
    llvm::Expected<size_t> count = fs::readNativeFile(*handle, buffer);
    if (!count) {
      fs::closeFile(*handle);
      return count.takeError();
    }
    if (*count == 0)
      break;
    EVP_DigestUpdate(hash.get(), buffer.data(), *count);
  }
  fs::closeFile(*handle);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(hash.get(), digest, &length);
  return llvm::toHex(llvm::ArrayRef<uint8_t>(digest, length), /*LowerCase=*/true);
}

} // namespace llmc
