// SPDX-License-Identifier: Apache-2.0
//
// Builds models with ONNX's own classes and imports them, from memory or from a
// folder. Each successful import is also verified, printed and parsed again.
#ifndef LLMC_TESTS_UNIT_ONNX_IMPORTFIXTURE_H
#define LLMC_TESTS_UNIT_ONNX_IMPORTFIXTURE_H

#include "compiler/ir/WeightStore.h"
#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/OnnxImporter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "onnx/onnx_pb.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace llmc::test {

namespace pb = ::onnx;

/// A model with IR version 8 and opset 17, to be filled.
pb::ModelProto makeModel();
/// Appends a node; "name:Op" gives it a name. Returns it for attributes.
pb::NodeProto *addNode(google::protobuf::RepeatedPtrField<pb::NodeProto> *nodes,
                       const std::string &op, std::vector<std::string> inputs,
                       std::vector<std::string> outputs);
inline pb::NodeProto *addNode(pb::ModelProto &model, const std::string &op,
                              std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return addNode(model.mutable_graph()->mutable_node(), op, std::move(inputs), std::move(outputs));
}
/// A float input or output; dims below 0 are unknown.
void addValue(pb::ValueInfoProto *info, const std::string &name, std::vector<int64_t> dims);
inline void addInput(pb::ModelProto &model, const std::string &name, std::vector<int64_t> dims) {
  addValue(model.mutable_graph()->add_input(), name, std::move(dims));
}
inline void addOutput(pb::ModelProto &model, const std::string &name) {
  model.mutable_graph()->add_output()->set_name(name);
}
pb::AttributeProto *addAttribute(pb::NodeProto *node, const std::string &name,
                                 pb::AttributeProto::AttributeType type);
void setTensor(pb::TensorProto *tensor, const std::string &name, int type,
               std::vector<int64_t> dims, const std::string &raw);
/// The bytes of values, as raw_data holds them.
template <typename T> std::string rawOf(std::vector<T> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

class ImportTest : public testing::Test {
protected:
  ImportTest();
  ~ImportTest() override;

  /// False when reading or importing failed; then `errors` says why. Fails the test when the
  /// outcome and the diagnostics contradict each other.
  bool import(const pb::ModelProto &model);
  bool importBytes(const std::string &bytes);
  bool importFile(const std::string &path);

  /// The import has to fail, and only with errors that contain `text`.
  void expectError(const pb::ModelProto &model, const std::string &text);
  bool hasError(const std::string &text) const;

  mlir::func::FuncOp main();
  /// The nodes of that op in the order of a walk.
  std::vector<onnx::NodeOp> nodes(llvm::StringRef op);
  onnx::NodeOp node(llvm::StringRef op);
  /// The weight of that key's bytes.
  std::string bytesOf(llvm::StringRef key);

  mlir::MLIRContext context;
  std::unique_ptr<WeightStore> store;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> errors, warnings;
  std::string printed;
  std::filesystem::path folder; // empty folder of this test, removed afterwards

private:
  bool finish(llvm::Expected<std::unique_ptr<OnnxModel>> model);
  std::vector<char> memory; // what an imported model's weights point to
};

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_ONNX_IMPORTFIXTURE_H
