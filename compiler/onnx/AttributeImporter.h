// SPDX-License-Identifier: Apache-2.0
//
// AttributeProtos (all but graphs) as MLIR attributes, and Constant's ways to
// hold a value. Each AttributeProto is converted once, since a local function's
// may be needed for many calls.
#ifndef LLMC_COMPILER_ONNX_ATTRIBUTEIMPORTER_H
#define LLMC_COMPILER_ONNX_ATTRIBUTEIMPORTER_H

#include "compiler/onnx/TensorReader.h"

#include "mlir/IR/Builders.h"

namespace llmc {

/// What an onnx.weight is made of: a key in the store, its type, and the value when small.
struct Constant {
  std::string key;
  mlir::RankedTensorType type;
  mlir::ElementsAttr value;
};

class AttributeImporter {
public:
  AttributeImporter(TensorReader &tensors, mlir::MLIRContext *context)
      : tensors(tensors), builder(context) {}

  /// The attribute's type; guessed from the fields in use where it doesn't say, as in old files.
  static pb::AttributeProto::AttributeType kindOf(const pb::AttributeProto &attribute);
  static bool isGraph(const pb::AttributeProto &attribute) {
    return kindOf(attribute) == pb::AttributeProto::GRAPH ||
           kindOf(attribute) == pb::AttributeProto::GRAPHS;
  }

  /// `name` becomes the key of a tensor too large for the IR.
  llvm::Expected<mlir::Attribute> import(const pb::AttributeProto &attribute, llvm::StringRef name);
  /// The value of a Constant node whose attribute `kind` ("value_ints", …) is `attribute`.
  llvm::Expected<Constant> constant(const pb::AttributeProto &attribute, llvm::StringRef kind,
                                    llvm::StringRef name);
  llvm::Expected<Constant> constant(const pb::TensorProto &tensor, llvm::StringRef name);
  llvm::Expected<Constant> constant(const pb::SparseTensorProto &tensor, llvm::StringRef name);

private:
  llvm::Expected<mlir::Attribute> convert(const pb::AttributeProto &attribute,
                                          llvm::StringRef name);
  llvm::Expected<mlir::Attribute> tensor(const pb::TensorProto &tensor, llvm::StringRef name);
  llvm::Expected<mlir::Attribute> sparse(const pb::SparseTensorProto &tensor, llvm::StringRef name);
  Constant fromWeight(const Weight &weight);
  template <typename T>
  Constant fromValues(ElementType element, llvm::ArrayRef<T> values, bool scalar,
                      llvm::StringRef name);
  Constant fromStrings(llvm::ArrayRef<llvm::StringRef> texts, bool scalar);

  TensorReader &tensors;
  mlir::Builder builder;
  llvm::DenseMap<const pb::AttributeProto *, mlir::Attribute> known;
  llvm::DenseMap<const pb::AttributeProto *, Constant> constants;
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_ATTRIBUTEIMPORTER_H
