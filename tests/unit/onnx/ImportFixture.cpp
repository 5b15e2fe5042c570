// SPDX-License-Identifier: Apache-2.0
//
// See ImportFixture.h.
#include "tests/unit/onnx/ImportFixture.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <fstream>
#include <unistd.h>

namespace llmc::test {

pb::ModelProto makeModel() {
  pb::ModelProto model;
  model.set_ir_version(8);
  pb::OperatorSetIdProto *opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(17);
  model.mutable_graph()->set_name("graph");
  return model;
}

pb::NodeProto *addNode(google::protobuf::RepeatedPtrField<pb::NodeProto> *nodes,
                       const std::string &op, std::vector<std::string> inputs,
                       std::vector<std::string> outputs) {
  pb::NodeProto *node = nodes->Add();
  size_t colon = op.find(':');
  if (colon != std::string::npos)
    node->set_name(op.substr(0, colon));
  node->set_op_type(colon == std::string::npos ? op : op.substr(colon + 1));
  for (std::string &input : inputs)
    node->add_input(std::move(input));
  for (std::string &output : outputs)
    node->add_output(std::move(output));
  return node;
}

void addValue(pb::ValueInfoProto *info, const std::string &name, std::vector<int64_t> dims) {
  info->set_name(name);
  pb::TypeProto::Tensor *tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(pb::TensorProto::FLOAT);
  tensor->mutable_shape();
  for (int64_t dim : dims) {
    pb::TensorShapeProto::Dimension *made = tensor->mutable_shape()->add_dim();
    if (dim >= 0)
      made->set_dim_value(dim);
  }
}

pb::AttributeProto *addAttribute(pb::NodeProto *node, const std::string &name,
                                 pb::AttributeProto::AttributeType type) {
  pb::AttributeProto *attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

void setTensor(pb::TensorProto *tensor, const std::string &name, int type,
               std::vector<int64_t> dims, const std::string &raw) {
  tensor->set_name(name);
  tensor->set_data_type(type);
  for (int64_t dim : dims)
    tensor->add_dims(dim);
  tensor->set_raw_data(raw);
}

ImportTest::ImportTest() : context(mlir::MLIRContext::Threading::DISABLED) {
  context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    if (auto name = llvm::dyn_cast<mlir::NameLoc>(diagnostic.getLocation()))
      text = name.getName().str() + ": " + text;
    (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error ? errors : warnings)
        .push_back(text);
  });
  std::string pattern = (std::filesystem::temp_directory_path() / "llmc-import-XXXXXX").string();
  folder = std::filesystem::canonical(::mkdtemp(pattern.data()));
}

ImportTest::~ImportTest() {
  module = nullptr;
  std::filesystem::remove_all(folder);
}

bool ImportTest::finish(llvm::Expected<std::unique_ptr<OnnxModel>> model) {
  errors.clear();
  warnings.clear();
  printed.clear();
  module = nullptr;
  store = std::make_unique<WeightStore>();
  if (!model) {
    errors.push_back(toString(model.takeError()));
    EXPECT_TRUE(llvm::StringRef(errors[0]).starts_with("[LLMC10")) << errors[0];
    return false;
  }
  module = importOnnx(**model, *store, &context);
  model->reset(); // the weights must not need it
  EXPECT_EQ(!module, !errors.empty());
  for (const std::string &text : errors)
    EXPECT_NE(text.find("[LLMC1"), std::string::npos) << text;
  if (!module)
    return false;
  EXPECT_TRUE(succeeded(mlir::verify(*module)));
  llvm::raw_string_ostream stream(printed);
  module->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  mlir::OwningOpRef<mlir::ModuleOp> again =
      mlir::parseSourceString<mlir::ModuleOp>(printed, &context);
  EXPECT_TRUE(again) << printed;
  if (again) {
    std::string reprinted;
    llvm::raw_string_ostream second(reprinted);
    again->print(second, mlir::OpPrintingFlags().enableDebugInfo());
    EXPECT_EQ(printed, reprinted);
  }
  return true;
}

bool ImportTest::importBytes(const std::string &bytes) {
  store = nullptr;
  memory.assign(bytes.begin(), bytes.end());
  return finish(OnnxReader::fromBytes(memory));
}

bool ImportTest::import(const pb::ModelProto &model) {
  return importBytes(model.SerializeAsString());
}

bool ImportTest::importFile(const std::string &path) { return finish(OnnxReader::open(path)); }

bool ImportTest::hasError(const std::string &text) const {
  return llvm::any_of(
      errors, [&](const std::string &error) { return error.find(text) != std::string::npos; });
}

void ImportTest::expectError(const pb::ModelProto &model, const std::string &text) {
  EXPECT_FALSE(import(model)) << printed;
  for (const std::string &error : errors)
    EXPECT_NE(error.find(text), std::string::npos) << error;
}

mlir::func::FuncOp ImportTest::main() { return module->lookupSymbol<mlir::func::FuncOp>("main"); }

std::vector<onnx::NodeOp> ImportTest::nodes(llvm::StringRef op) {
  std::vector<onnx::NodeOp> found;
  module->walk<mlir::WalkOrder::PreOrder>([&](onnx::NodeOp node) {
    if (node.getOpType() == op)
      found.push_back(node);
  });
  return found;
}

onnx::NodeOp ImportTest::node(llvm::StringRef op) {
  std::vector<onnx::NodeOp> found = nodes(op);
  EXPECT_EQ(found.size(), 1u) << op.str();
  return found.empty() ? onnx::NodeOp() : found[0];
}

std::string ImportTest::bytesOf(llvm::StringRef key) {
  const Weight *weight = store->find(key);
  if (!weight) {
    ADD_FAILURE() << "no weight " << key.str();
    return {};
  }
  std::string bytes(weight->byteSize(), 0);
  weight->read(0, {bytes.data(), bytes.size()});
  return bytes;
}

} // namespace llmc::test
