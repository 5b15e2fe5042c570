// SPDX-License-Identifier: Apache-2.0
//
// What OnnxReader leaves for OnnxImporter; private to this folder because it
// names protobuf classes.
#ifndef LLMC_COMPILER_ONNX_ONNXMODELDATA_H
#define LLMC_COMPILER_ONNX_ONNXMODELDATA_H

#include "compiler/onnx/OnnxReader.h"

#include "onnx/onnx_pb.h"

#include <vector>

namespace llmc {

namespace pb = ::onnx;

/// How deeply graphs may nest in graph attributes, and local functions may call each other.
constexpr unsigned kMaxRegionDepth = 128;
constexpr unsigned kMaxCallDepth = 128;
/// Nodes, operands and attributes that inlining local functions may create.
constexpr uint64_t kMaxInlinedCost = uint64_t(1) << 18;

struct OnnxModel::Data {
  std::string path;
  bool hasFolder = false;            // false for a model from memory
  std::shared_ptr<const void> owner; // keeps what `payloads` points to
  pb::ModelProto proto;              // without any raw_data
  /// The raw_data fields of the file. The TensorProto that had one names it by the unknown field
  /// kPayloadField, which the reader alone can set.
  std::vector<llvm::ArrayRef<char>> payloads;
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_ONNXMODELDATA_H
