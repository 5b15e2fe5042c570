// SPDX-License-Identifier: Apache-2.0
//
// Reads ONNX's TensorProto (the .pb files of its test data) without protobuf:
// the few fields a tensor has, by their wire numbers.
#ifndef LLMC_TOOLS_CLI_TENSOR_PROTO_H
#define LLMC_TOOLS_CLI_TENSOR_PROTO_H

#include "tools/cli/OwnedTensor.h"

namespace llmc::cli {

/// The tensor in `bytes`, which must be one whole TensorProto with its data inside. Corrupt when
/// the bytes are damaged, InvalidArgument for element types and storage that the runtime doesn't
/// have.
Result<OwnedTensor> parseTensorProto(std::span<const std::byte> bytes);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_TENSOR_PROTO_H
