// SPDX-License-Identifier: Apache-2.0
//
// What exporters put beside a model: the files of a folder by their usual
// names, and the facts of config.json that a bundle keeps.
#ifndef LLMC_COMPILER_DRIVER_MODEL_FOLDER_H
#define LLMC_COMPILER_DRIVER_MODEL_FOLDER_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace llmc {

struct ModelFolder {
  std::string model; ///< path of the .onnx file
  std::string name;  ///< for people: the folder's or file's name
  std::string config, generationConfig, tokenizer, tokenizerConfig; ///< contents, empty if absent
  std::map<std::string, std::string> files; ///< name -> path of every file read here

  /// n_positions, max_position_embeddings, … of config.json; 0 when it has none.
  int64_t contextLength() const;

  /// `path` is an .onnx file or a folder with exactly one candidate. Errors say what was found.
  static llvm::Expected<ModelFolder> find(const std::string &path);
};

/// SHA-256 of a file in hex digits.
llvm::Expected<std::string> hashFile(const std::string &path);

} // namespace llmc

#endif // LLMC_COMPILER_DRIVER_MODEL_FOLDER_H
