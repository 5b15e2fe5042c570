// SPDX-License-Identifier: Apache-2.0
//
// Writes the first inputs of OnnxImporterFuzzer into a folder: small models that
// between them use every message and field the importer reads.
#include "tests/unit/onnx/ImportFixture.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace llmc::test {
namespace {

using A = pb::AttributeProto;
using T = pb::TensorProto;

pb::GraphProto *addGraph(pb::NodeProto *node, const std::string &name) {
  return addAttribute(node, name, A::GRAPH)->mutable_g();
}

pb::ModelProto plain() {
  pb::ModelProto model = makeModel();
  model.set_producer_name("seed");
  addInput(model, "x", {-1, 3});
  setTensor(model.mutable_graph()->add_initializer(), "w", T::FLOAT, {3}, rawOf<float>({1, 2, 3}));
  addNode(model, "second:Clip", {"t", "", "w"}, {"y", ""});
  pb::NodeProto *first = addNode(model, "first:Add", {"x", "w"}, {"t"});
  addAttribute(first, "i", A::INT)->set_i(1);
  addAttribute(first, "f", A::FLOAT)->set_f(1);
  addAttribute(first, "s", A::STRING)->set_s("s");
  addAttribute(first, "is", A::INTS)->add_ints(1);
  addAttribute(first, "fs", A::FLOATS)->add_floats(1);
  addAttribute(first, "ss", A::STRINGS)->add_strings("s");
  addAttribute(first, "t", A::TYPE_PROTO)->mutable_tp()->mutable_sequence_type();
  addOutput(model, "y");
  return model;
}

pb::ModelProto tensors() {
  pb::ModelProto model = makeModel();
  auto add = [&](int type, int64_t count) {
    T *tensor = model.mutable_graph()->add_initializer();
    tensor->set_name("w" + std::to_string(model.graph().initializer_size()));
    tensor->set_data_type(type);
    tensor->add_dims(count);
    addOutput(model, tensor->name());
    return tensor;
  };
  add(T::FLOAT, 1)->add_float_data(1);
  add(T::DOUBLE, 1)->add_double_data(1);
  add(T::INT64, 1)->add_int64_data(1);
  add(T::UINT64, 1)->add_uint64_data(1);
  add(T::STRING, 1)->add_string_data("s");
  for (int type : {T::BOOL, T::FLOAT16, T::INT4, T::UINT2, T::FLOAT6E2M3, T::FLOAT8E5M2})
    add(type, 1)->add_int32_data(1);
  T *external = add(T::FLOAT, 1);
  external->set_data_location(T::EXTERNAL);
  pb::StringStringEntryProto *entry = external->add_external_data();
  entry->set_key("location");
  entry->set_value("data.bin");
  return model;
}

void fillSparse(pb::SparseTensorProto *sparse, const std::string &name) {
  setTensor(sparse->mutable_values(), name, T::FLOAT, {2}, rawOf<float>({1, 2}));
  setTensor(sparse->mutable_indices(), "", T::INT64, {2, 2}, rawOf<int64_t>({0, 1, 1, 0}));
  sparse->add_dims(2);
  sparse->add_dims(2);
}

pb::ModelProto constants() {
  pb::ModelProto model = makeModel();
  auto add = [&](const std::string &form, A::AttributeType type) {
    addOutput(model, form);
    return addAttribute(addNode(model, "Constant", {}, {form}), form, type);
  };
  setTensor(add("value", A::TENSOR)->mutable_t(), "", T::INT64, {1}, rawOf<int64_t>({1}));
  add("value_int", A::INT)->set_i(1);
  add("value_ints", A::INTS)->add_ints(1);
  add("value_float", A::FLOAT)->set_f(1);
  add("value_floats", A::FLOATS)->add_floats(1);
  add("value_string", A::STRING)->set_s("s");
  add("value_strings", A::STRINGS)->add_strings("s");
  fillSparse(add("sparse_value", A::SPARSE_TENSOR)->mutable_sparse_tensor(), "v");
  fillSparse(model.mutable_graph()->add_sparse_initializer(), "sparse");
  addOutput(model, "sparse");
  return model;
}

pb::ModelProto regions() {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  pb::NodeProto *branch = addNode(model, "If", {"x"}, {"y"});
  for (const char *name : {"then_branch", "else_branch"}) {
    pb::GraphProto *graph = addGraph(branch, name);
    setTensor(graph->add_initializer(), "w", T::FLOAT, {1}, rawOf<float>({1}));
    pb::NodeProto *loop = addNode(graph->mutable_node(), "Loop", {"", "x", "w"}, {"y"});
    pb::GraphProto *body = addGraph(loop, "body");
    body->add_input()->set_name("i");
    addNode(body->mutable_node(), "Add", {"i", "x"}, {"o"});
    body->add_output()->set_name("o");
    graph->add_output()->set_name("y");
  }
  addOutput(model, "y");
  return model;
}

pb::ModelProto functions() {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  for (const char *name : {"F", "G"}) {
    pb::FunctionProto *made = model.add_functions();
    made->set_domain("d");
    made->set_name(name);
    made->add_input("a");
    made->add_output("b");
    made->add_attribute("k");
    *made->add_opset_import() = model.opset_import(0);
    A *fallback = made->add_attribute_proto();
    fallback->set_name("n");
    fallback->set_type(A::INT);
  }
  pb::NodeProto *inner = addNode(model.mutable_functions(0)->mutable_node(), "Op", {"a"}, {"b"});
  addAttribute(inner, "p", A::GRAPH)->set_ref_attr_name("k");
  addAttribute(inner, "q", A::INT)->set_ref_attr_name("n");
  pb::NodeProto *nested = addNode(model.mutable_functions(1)->mutable_node(), "F", {"a"}, {"b"});
  nested->set_domain("d");
  addAttribute(nested, "k", A::GRAPH)->set_ref_attr_name("k");
  pb::NodeProto *call = addNode(model, "G", {"x"}, {"y"});
  call->set_domain("d");
  pb::GraphProto *body = addGraph(call, "k");
  addNode(body->mutable_node(), "Relu", {"x"}, {"o"});
  body->add_output()->set_name("o");
  addOutput(model, "y");
  return model;
}

bool write(const std::string &path, const pb::ModelProto &model) {
  std::ofstream out(path, std::ios::binary);
  return model.SerializeToOstream(&out) && out.flush();
}

} // namespace
} // namespace llmc::test

int main(int count, char **arguments) {
  using namespace llmc::test;
  if (count != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  std::string folder = std::string(arguments[1]) + "/";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  bool written = write(folder + "plain", plain()) && write(folder + "tensors", tensors()) &&
                 write(folder + "constants", constants()) && write(folder + "regions", regions()) &&
                 write(folder + "functions", functions());
  if (!written)
    fprintf(stderr, "cannot write to %s\n", arguments[1]);
  return written ? 0 : 1;
}
