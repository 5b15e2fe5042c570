// SPDX-License-Identifier: Apache-2.0
//
// Copies a serialized ModelProto without what the importer must not have in
// memory: raw_data of tensors (replaced by an index into a list of spans) and
// parts it never reads (documentation, value_info, metadata, training).
// Lengths are 64 bits, so the file may exceed protobuf's 2 GB; the copy may not.
#ifndef LLMC_COMPILER_ONNX_PAYLOADSTRIPPER_H
#define LLMC_COMPILER_ONNX_PAYLOADSTRIPPER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace llmc {

/// Field of a stripped TensorProto (a varint): index of its raw_data in `payloads`. The largest
/// number protobuf allows; a field of that number in the input is dropped.
constexpr uint32_t kPayloadField = (1u << 29) - 1;

struct StrippedModel {
  std::string message;
  std::vector<llvm::ArrayRef<char>> payloads;
};

llvm::Expected<StrippedModel> stripPayloads(llvm::ArrayRef<char> model);

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_PAYLOADSTRIPPER_H
