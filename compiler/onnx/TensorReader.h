// SPDX-License-Identifier: Apache-2.0
//
// Puts TensorProtos into the WeightStore, whichever of ONNX's ways to store
// them was used, after checking that bytes and shape agree. Each TensorProto is
// put there once, however often it is asked for.
#ifndef LLMC_COMPILER_ONNX_TENSORREADER_H
#define LLMC_COMPILER_ONNX_TENSORREADER_H

#include "compiler/ir/WeightStore.h"
#include "compiler/onnx/ExternalFiles.h"
#include "compiler/onnx/OnnxModelData.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace llmc {

/// Tensors up to this many bytes are also attributes in the IR.
constexpr uint64_t kInlineBytes = 4096;

class TensorReader {
public:
  TensorReader(OnnxModel::Data &model, WeightStore &store, mlir::MLIRContext *context)
      : model(model), store(store), context(context), files(model.path, model.hasFolder) {}

  /// `name` is the key wanted and what errors call the tensor. Not for string tensors.
  llvm::Expected<const Weight *> weight(const pb::TensorProto &tensor, llvm::StringRef name);
  /// The dense tensor that a sparse one stands for; zeros are made while it is read.
  llvm::Expected<const Weight *> denseWeight(const pb::SparseTensorProto &tensor,
                                             llvm::StringRef name);
  /// Bytes made by the importer, e.g. for `value_ints`.
  const Weight *owned(WeightType type, std::string bytes, llvm::StringRef name);

  static bool isString(const pb::TensorProto &tensor) {
    return tensor.data_type() == pb::TensorProto::STRING;
  }
  llvm::Expected<mlir::ElementsAttr> strings(const pb::TensorProto &tensor, llvm::StringRef name);
  /// False also when one of them can't be read.
  bool sameContent(const pb::TensorProto &a, const pb::TensorProto &b, llvm::StringRef name);
  /// Null for a weight of more than kInlineBytes.
  mlir::ElementsAttr inlineValue(const Weight &weight);

private:
  llvm::Expected<WeightType> typeOf(const pb::TensorProto &tensor, llvm::StringRef name) const;
  llvm::Expected<const Weight *> read(const pb::TensorProto &tensor, llvm::StringRef name);
  llvm::Expected<const Weight *> external(const pb::TensorProto &tensor, llvm::StringRef name,
                                          WeightType type);
  llvm::Expected<const Weight *> typed(const pb::TensorProto &tensor, llvm::StringRef name,
                                       WeightType type);

  OnnxModel::Data &model;
  WeightStore &store;
  mlir::MLIRContext *context;
  ExternalFiles files;
  llvm::DenseMap<const void *, const Weight *> known;
  llvm::DenseMap<const Weight *, mlir::ElementsAttr> values;
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_TENSORREADER_H
