// SPDX-License-Identifier: Apache-2.0
//
// Reads an ONNX file without copying its tensor data: the file is mapped, and
// protobuf parses a copy of the message from which all raw_data is left out.
// Invariant: every malformed input is an Error; nothing thrown leaves here.
#ifndef LLMC_COMPILER_ONNX_ONNXREADER_H
#define LLMC_COMPILER_ONNX_ONNXREADER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace llmc {

/// A parsed model. Weights imported from it keep the mapped file alive, so it may be destroyed
/// after importing, which frees the parsed graph.
class OnnxModel {
public:
  struct Data; // protobuf classes stay out of this header
  explicit OnnxModel(std::unique_ptr<Data> data);
  ~OnnxModel();

  /// As given to open(); "<memory>" for fromBytes().
  const std::string &path() const;
  Data &data() { return *content; }

private:
  std::unique_ptr<Data> content;
};

class OnnxReader {
public:
  /// An error that says the file can't be read carries its errno; one that says the file is not a
  /// model that can be read is std::errc::invalid_argument. Both begin with "[LLMC10nn] ".
  static llvm::Expected<std::unique_ptr<OnnxModel>> open(const std::string &path);
  /// External data is refused, since there is no folder it could lie in. Copies nothing but the
  /// graph: `bytes` must live as long as weights imported from it.
  static llvm::Expected<std::unique_ptr<OnnxModel>> fromBytes(llvm::ArrayRef<char> bytes);
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_ONNXREADER_H
