// SPDX-License-Identifier: Apache-2.0
//
// Dense tensors from ONNX's sparse ones, computed while they are read: a file
// of a few bytes can stand for a tensor larger than memory.
#ifndef LLMC_COMPILER_ONNX_SPARSETENSOR_H
#define LLMC_COMPILER_ONNX_SPARSETENSOR_H

#include "compiler/ir/WeightStore.h"

namespace llmc {

/// Whether `values` [n] and `indices` ([n] linear or [n, rank]; int64, ascending, inside `dims`)
/// are a sparse tensor of shape `dims`. sparseToDense needs this to hold.
llvm::Error checkSparse(const Weight &values, const Weight &indices, llvm::ArrayRef<int64_t> dims);

/// (values, indices) -> dense tensor of shape `dims`.
std::unique_ptr<const WeightTransform> sparseToDense(llvm::ArrayRef<int64_t> dims);

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_SPARSETENSOR_H
