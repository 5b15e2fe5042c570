// SPDX-License-Identifier: Apache-2.0
//
// The named tensors of one model call in files: a folder of .npy or ONNX .pb
// files, or one .npz. Finds them for a model's inputs or outputs, writes
// outputs, and compares what came out with what was expected.
#ifndef LLMC_TOOLS_CLI_TENSOR_SET_H
#define LLMC_TOOLS_CLI_TENSOR_SET_H

#include "tools/cli/OwnedTensor.h"

#include <optional>

namespace llmc::cli {

/// An input or output as the model declares it.
struct TensorSpec {
  std::string name;
  Dtype dtype;
};

enum class Side { Inputs, Outputs };

struct TensorSet {
  std::vector<OwnedTensor> tensors;
  /// For expected outputs: of the same length as `tensors`; Bool, true = compare this element.
  std::vector<std::optional<OwnedTensor>> masks;
};

/// Reads the tensors for `specs` from `path`; those that aren't there are left out.
/// - .npz: keys `in:NAME` (inputs) or `out:NAME`, `mask:NAME` (outputs), or plain NAME.
/// - folder: `input_J.pb` or `output_J.pb`, by the name inside or else by position J; or `NAME.npy`
///   (with `/` written as `_`), `input_J.npy`, `output_J.npy`.
/// Two-byte unsigned integers are taken as bf16 where the model declares bf16.
Result<TensorSet> readTensorSet(const std::string &path, std::span<const TensorSpec> specs,
                                Side side);

/// Writes an .npz when `path` ends so, else `NAME.npy` files into the folder, which is made.
Status writeTensorSet(const std::string &path, std::span<const OwnedTensor> tensors);

struct Tolerance {
  double rtol = 1e-3;
  double atol = 1e-4;
};

struct Comparison {
  bool equal = true;
  /// Says what differs when not equal: dtype, shape, or the worst element.
  std::string text;
  double maxAbsError = 0;
  double maxRelError = 0;
};

/// Elementwise: `|got - want| <= atol + rtol * |want|`, NaN equals NaN, infinities equal
/// themselves. Integers and booleans must be equal, unless atol >= 1, which then is the bound.
/// Floating-point types of different width may be compared.
Comparison compareTensors(const OwnedTensor &got, const OwnedTensor &want, const OwnedTensor *mask,
                          const Tolerance &tolerance);

} // namespace llmc::cli

#endif // LLMC_TOOLS_CLI_TENSOR_SET_H
