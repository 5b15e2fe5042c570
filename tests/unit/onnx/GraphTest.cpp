// SPDX-License-Identifier: Apache-2.0
//
// Graph structure: names, order, absent values, types, versions, regions.
#include "tests/unit/onnx/ImportFixture.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace llmc::test {
namespace {

std::string resultName(func::FuncOp function, unsigned index) {
  return function.getResultAttrOfType<StringAttr>(index, onnx::kNameAttr).str();
}

TEST_F(ImportTest, KeepsNamesTypesAndDims) {
  pb::ModelProto model = makeModel();
  model.set_producer_name("exporter");
  model.set_producer_version("1.2");
  pb::OperatorSetIdProto *contrib = model.add_opset_import();
  contrib->set_domain("com.microsoft");
  contrib->set_version(1);
  addInput(model, "a b/0", {-1, 64});
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("past + sequence");
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->add_dim(); // unknown
  addInput(model, "no_shape", {});
  model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->clear_shape();
  addNode(model, "add:Add", {"a b/0", "no_shape"}, {"y"})->set_domain("ai.onnx");
  addNode(model, "FastGelu", {"y"}, {"z"})->set_domain("com.microsoft");
  addValue(model.mutable_graph()->add_output(), "z", {-1, 64, -1});
  ASSERT_TRUE(import(model));

  EXPECT_EQ((*module)->getAttrOfType<IntegerAttr>(onnx::kIrVersionAttr).getInt(), 8);
  auto opsets = (*module)->getAttrOfType<DictionaryAttr>(onnx::kOpsetsAttr);
  EXPECT_EQ(cast<IntegerAttr>(opsets.get("ai.onnx")).getInt(), 17);
  EXPECT_EQ(cast<IntegerAttr>(opsets.get("com.microsoft")).getInt(), 1);
  EXPECT_EQ((*module)->getAttrOfType<StringAttr>(onnx::kProducerAttr), "exporter 1.2");
  Builder builder(&context);
  EXPECT_EQ(main().getArgumentTypes()[0],
            RankedTensorType::get({ShapedType::kDynamic, 64, ShapedType::kDynamic},
                                  builder.getF32Type()));
  EXPECT_EQ(main().getArgAttr(0, onnx::kNameAttr), builder.getStringAttr("a b/0"));
  EXPECT_EQ(main().getArgAttr(0, onnx::kDimsAttr),
            builder.getArrayAttr({builder.getStringAttr("past + sequence"),
                                  builder.getI64IntegerAttr(64), builder.getStringAttr("")}));
  EXPECT_EQ(main().getArgumentTypes()[1], UnrankedTensorType::get(builder.getF32Type()));
  EXPECT_FALSE(main().getArgAttr(1, onnx::kDimsAttr));
  EXPECT_EQ(main().getResultAttr(0, onnx::kTypeAttr),
            TypeAttr::get(RankedTensorType::get({ShapedType::kDynamic, 64, ShapedType::kDynamic},
                                                builder.getF32Type())));

  EXPECT_EQ(node("Add").getDomain(), "");
  EXPECT_EQ(node("Add").getVersion(), 17u);
  EXPECT_EQ(node("Add").getLoc(), NameLoc::get(builder.getStringAttr("add")));
  EXPECT_EQ(node("FastGelu").getDomain(), "com.microsoft");
  EXPECT_EQ(node("FastGelu").getVersion(), 1u);
  EXPECT_EQ(node("FastGelu").getLoc(), NameLoc::get(builder.getStringAttr("FastGelu:z")));
}

TEST_F(ImportTest, AbsentInputsAndOutputsKeepTheirPlaces) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  addNode(model, "Clip", {"x", "", "x", "", ""}, {"", "y", ""});
  addNode(model, "Relu", {"y", ""}, {"z"});
  addOutput(model, "z");
  ASSERT_TRUE(import(model));
  onnx::NodeOp clip = node("Clip");
  ASSERT_EQ(clip.getInputs().size(), 3u);
  EXPECT_TRUE(isa<NoneType>(clip.getInputs()[1].getType()));
  EXPECT_EQ(clip.getInputs()[2], main().getArgument(0));
  ASSERT_EQ(clip.getOutputs().size(), 3u);
  EXPECT_EQ(node("Relu").getInputs()[0], clip.getOutputs()[1]);
  EXPECT_EQ(node("Relu").getInputs().size(), 1u);
}

TEST_F(ImportTest, OutputsMayBeInputsInitializersOrRepeated) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  setTensor(model.mutable_graph()->add_initializer(), "w", pb::TensorProto::FLOAT, {2},
            rawOf<float>({1, 2}));
  for (const char *name : {"x", "w", "x"})
    addOutput(model, name);
  ASSERT_TRUE(import(model));
  EXPECT_EQ(main().getNumResults(), 3u);
  EXPECT_EQ(resultName(main(), 2), "x");
  EXPECT_FALSE(main().getResultAttr(0, onnx::kTypeAttr));
}

TEST_F(ImportTest, InitializersAreNoRuntimeInputsAndUnusedOnesVanish) {
  for (int64_t irVersion : {3, 8}) {
    pb::ModelProto model = makeModel();
    model.set_ir_version(irVersion);
    addInput(model, "x", {2});
    addInput(model, "w", {2});
    for (const char *name : {"w", "unused"})
      setTensor(model.mutable_graph()->add_initializer(), name, pb::TensorProto::FLOAT, {2},
                rawOf<float>({1, 2}));
    addNode(model, "Add", {"x", "w"}, {"y"});
    addOutput(model, "y");
    ASSERT_TRUE(import(model));
    EXPECT_EQ(main().getNumArguments(), 1u);
    EXPECT_EQ(store->weights().size(), 1u);
    EXPECT_EQ(bytesOf("w"), rawOf<float>({1, 2}));
  }
}

TEST_F(ImportTest, EqualInitializersOfOneNameAreOneUnequalOnesAnError) {
  pb::ModelProto model = makeModel();
  for (int i = 0; i < 2; ++i)
    setTensor(model.mutable_graph()->add_initializer(), "w", pb::TensorProto::FLOAT, {2},
              rawOf<float>({1, 2}));
  addOutput(model, "w");
  EXPECT_TRUE(import(model));
  *model.mutable_graph()->mutable_initializer(1)->mutable_raw_data() = rawOf<float>({1, 3});
  expectError(model, "[LLMC1021] initializer 'w' is defined twice");
}

TEST_F(ImportTest, SortsNodesStablyAndOnlyWhereNeeded) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  addNode(model, "A", {"c"}, {"a"});
  addNode(model, "B", {"x"}, {"b"});
  pb::NodeProto *branch = addNode(model, "If", {"x"}, {"i"});
  pb::GraphProto *body =
      addAttribute(branch, "then_branch", pb::AttributeProto::GRAPH)->mutable_g();
  addNode(body->mutable_node(), "Inner", {"late"}, {"inner"});
  body->add_output()->set_name("inner");
  addNode(model, "C", {"b"}, {"c"});
  addNode(model, "Late", {"x"}, {"late"});
  addOutput(model, "a");
  ASSERT_TRUE(import(model));
  std::vector<std::string> order;
  for (Operation &op : main().getBody().front())
    if (auto node = dyn_cast<onnx::NodeOp>(op))
      order.push_back(node.getOpType().str());
  EXPECT_EQ(order, (std::vector<std::string>{"B", "C", "A", "Late", "If"}));
}

TEST_F(ImportTest, CycleIsAnErrorThatNamesItsNodes) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  addNode(model, "outside:Relu", {"x"}, {"r"});
  addNode(model, "after:Relu", {"b"}, {"z"});
  addNode(model, "first:Add", {"r", "b"}, {"a"});
  addNode(model, "second:Relu", {"a"}, {"b"});
  addOutput(model, "z");
  EXPECT_FALSE(import(model));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_TRUE(hasError("[LLMC1022]"));
  EXPECT_TRUE(hasError("'first'"));
  EXPECT_TRUE(hasError("'second'"));
  EXPECT_FALSE(hasError("'outside'"));
  EXPECT_FALSE(hasError("'after'"));
}

TEST_F(ImportTest, NodeThatNeedsItselfIsACycle) {
  pb::ModelProto model = makeModel();
  addNode(model, "self:Relu", {"y"}, {"y"});
  addOutput(model, "y");
  expectError(model, "self");
}

TEST_F(ImportTest, ReportsAllProblemsAtOnce) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  addNode(model, "one:Relu", {"missing_1"}, {"a"});
  addNode(model, "two:Add", {"x", "missing_2"}, {"b"});
  addNode(model, "three:Relu", {"x"}, {"b"});
  addOutput(model, "missing_3");
  EXPECT_FALSE(import(model));
  EXPECT_EQ(errors.size(), 4u);
  EXPECT_TRUE(hasError("one: [LLMC1020] input 0 'missing_1' of node 'one' (Relu) is not defined"));
  EXPECT_TRUE(hasError("input 1 'missing_2' of node 'two'"));
  EXPECT_TRUE(hasError(
      "[LLMC1021] value 'b' is defined by node 'two' (Add) and again by node 'three' (Relu)"));
  EXPECT_TRUE(hasError("graph output 'missing_3'"));
}

TEST_F(ImportTest, ManyProblemsAreCutOff) {
  pb::ModelProto model = makeModel();
  for (int i = 0; i < 1000; ++i)
    addNode(model, "Relu", {"missing"}, {"y" + std::to_string(i)});
  EXPECT_FALSE(import(model));
  EXPECT_EQ(errors.size(), 101u);
  EXPECT_NE(errors.back().find("[LLMC1099]"), std::string::npos);
}

TEST_F(ImportTest, NodeMayNotRedefineAnInput) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  addNode(model, "twice:Relu", {"x"}, {"x"});
  addOutput(model, "x");
  EXPECT_FALSE(import(model));
  EXPECT_TRUE(
      hasError("[LLMC1021] value 'x' is defined by a graph input and again by node 'twice'"));
}

TEST_F(ImportTest, VersionsOutsideOfTheSupportedOnesAreErrors) {
  for (int64_t version : {2, 15}) {
    pb::ModelProto model = makeModel();
    model.set_ir_version(version);
    expectError(model, "[LLMC1010] IR version " + std::to_string(version));
  }
  for (int64_t version : {3, 14}) {
    pb::ModelProto model = makeModel();
    model.set_ir_version(version);
    EXPECT_TRUE(import(model));
  }
  for (int64_t version : {0, 6, 29}) {
    pb::ModelProto model = makeModel();
    model.mutable_opset_import(0)->set_version(version);
    expectError(model, "[LLMC1011] opset " + std::to_string(version));
  }
  for (int64_t version : {7, 28}) {
    pb::ModelProto model = makeModel();
    model.mutable_opset_import(0)->set_version(version);
    EXPECT_TRUE(import(model));
  }
}

TEST_F(ImportTest, MissingImportOfADomainIsAssumedButNotOfTheStandardOne) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  addNode(model, "a:Gelu", {"x"}, {"y"})->set_domain("com.microsoft");
  addNode(model, "b:Gelu", {"y"}, {"z"})->set_domain("com.microsoft");
  addOutput(model, "z");
  ASSERT_TRUE(import(model));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("[LLMC1012]"), std::string::npos);
  EXPECT_EQ(nodes("Gelu")[0].getVersion(), 1u);
  model.clear_opset_import();
  EXPECT_TRUE(import(model));
  addNode(model, "c:Relu", {"x"}, {"w"});
  expectError(model, "[LLMC1012] the model does not import the standard domain");
}

TEST_F(ImportTest, TwoNamesOfTheStandardDomainAreOne) {
  pb::ModelProto model = makeModel();
  pb::OperatorSetIdProto *again = model.add_opset_import();
  again->set_domain("ai.onnx");
  again->set_version(18);
  addNode(model, "Relu", {""}, {"y"});
  ASSERT_TRUE(import(model));
  EXPECT_EQ(node("Relu").getVersion(), 18u);
  EXPECT_NE(warnings.at(0).find("[LLMC1013]"), std::string::npos);
}

TEST_F(ImportTest, AttributesOfEveryType) {
  pb::ModelProto model = makeModel();
  pb::NodeProto *n = addNode(model, "Any", {}, {"y"});
  addAttribute(n, "f", pb::AttributeProto::FLOAT)->set_f(0.5f);
  addAttribute(n, "i", pb::AttributeProto::INT)->set_i(-3);
  addAttribute(n, "s", pb::AttributeProto::STRING)->set_s(std::string("a\0\xff", 3));
  pb::AttributeProto *floats = addAttribute(n, "floats", pb::AttributeProto::FLOATS);
  floats->add_floats(1);
  floats->add_floats(2);
  addAttribute(n, "no_ints", pb::AttributeProto::INTS);
  addAttribute(n, "strings", pb::AttributeProto::STRINGS)->add_strings("t");
  pb::AttributeProto *guessed = addAttribute(n, "guessed", pb::AttributeProto::UNDEFINED);
  guessed->add_ints(7);
  setTensor(addAttribute(n, "t", pb::AttributeProto::TENSOR)->mutable_t(), "",
            pb::TensorProto::INT64, {1}, rawOf<int64_t>({5}));
  setTensor(addAttribute(n, "big", pb::AttributeProto::TENSOR)->mutable_t(), "",
            pb::TensorProto::FLOAT, {2000}, std::string(8000, 'x'));
  addAttribute(n, "tp", pb::AttributeProto::TYPE_PROTO)
      ->mutable_tp()
      ->mutable_sequence_type()
      ->mutable_elem_type()
      ->mutable_tensor_type()
      ->set_elem_type(pb::TensorProto::FLOAT);
  pb::SparseTensorProto *sparse =
      addAttribute(n, "sp", pb::AttributeProto::SPARSE_TENSOR)->mutable_sparse_tensor();
  setTensor(sparse->mutable_values(), "v", pb::TensorProto::FLOAT, {1}, rawOf<float>({1}));
  setTensor(sparse->mutable_indices(), "i", pb::TensorProto::INT64, {1}, rawOf<int64_t>({2}));
  sparse->add_dims(3);
  addOutput(model, "y");
  ASSERT_TRUE(import(model));
  Builder builder(&context);
  DictionaryAttr attrs = node("Any").getAttrs();
  EXPECT_EQ(attrs.size(), 11u);
  EXPECT_EQ(attrs.get("f"), builder.getF32FloatAttr(0.5f));
  EXPECT_EQ(attrs.get("i"), builder.getI64IntegerAttr(-3));
  EXPECT_EQ(attrs.get("s"), builder.getStringAttr(StringRef("a\0\xff", 3)));
  EXPECT_EQ(attrs.get("floats"), builder.getDenseF32ArrayAttr({1, 2}));
  EXPECT_EQ(attrs.get("no_ints"), builder.getDenseI64ArrayAttr({}));
  EXPECT_EQ(attrs.get("strings"), builder.getStrArrayAttr({"t"}));
  EXPECT_EQ(attrs.get("guessed"), builder.getDenseI64ArrayAttr({7}));
  EXPECT_EQ(attrs.get("t"), builder.getI64TensorAttr({5}));
  auto big = cast<onnx::TensorAttr>(attrs.get("big"));
  EXPECT_EQ(big.getType(), RankedTensorType::get({2000}, builder.getF32Type()));
  EXPECT_EQ(bytesOf(big.getKey()), std::string(8000, 'x'));
  EXPECT_EQ(attrs.get("tp"),
            TypeAttr::get(onnx::UnsupportedType::get(&context, "seq(tensor(float))")));
  EXPECT_TRUE(isa<onnx::SparseAttr>(attrs.get("sp")));
}

TEST_F(ImportTest, BrokenAttributesAreErrorsThatNameTheNode) {
  for (int what = 0; what < 4; ++what) {
    pb::ModelProto model = makeModel();
    pb::NodeProto *n = addNode(model, "here:Any", {}, {"y"});
    addAttribute(n, "axis", pb::AttributeProto::INT)->set_i(1);
    if (what == 0)
      addAttribute(n, "axis", pb::AttributeProto::INT)->set_i(1);
    if (what == 1)
      addAttribute(n, "", pb::AttributeProto::INT);
    if (what == 2)
      addAttribute(n, "t", pb::AttributeProto::TENSOR);
    if (what == 3)
      addAttribute(n, "u", pb::AttributeProto::UNDEFINED);
    expectError(model, "[LLMC1030]");
    EXPECT_TRUE(hasError("here"));
  }
  pb::ModelProto model = makeModel();
  addAttribute(addNode(model, "here:Any", {}, {"y"}), "a", pb::AttributeProto::INT)
      ->set_ref_attr_name("outer");
  expectError(model, "[LLMC1031]");
}

TEST_F(ImportTest, RegionsSeeOuterValuesAndTheInnermostWins) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  setTensor(model.mutable_graph()->add_initializer(), "w", pb::TensorProto::FLOAT, {1},
            rawOf<float>({1}));
  addNode(model, "Outer", {"x"}, {"o"});
  pb::NodeProto *branch = addNode(model, "If", {"x"}, {"r"});
  pb::GraphProto *then =
      addAttribute(branch, "then_branch", pb::AttributeProto::GRAPH)->mutable_g();
  addNode(then->mutable_node(), "same:Then", {"o", "w"}, {"r"});
  then->add_output()->set_name("r");
  pb::GraphProto *otherwise =
      addAttribute(branch, "else_branch", pb::AttributeProto::GRAPH)->mutable_g();
  setTensor(otherwise->add_initializer(), "w", pb::TensorProto::FLOAT, {1}, rawOf<float>({2}));
  addNode(otherwise->mutable_node(), "same:Else", {"w"}, {"r"});
  otherwise->add_output()->set_name("r");
  otherwise->add_output()->set_name("x");
  addOutput(model, "r");
  ASSERT_TRUE(import(model));
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  onnx::NodeOp ifNode = node("If");
  EXPECT_EQ(ifNode.getBodies().size(), 2u);
  EXPECT_EQ(ifNode.getRegionNames(),
            Builder(&context).getStrArrayAttr({"then_branch", "else_branch"}));
  EXPECT_EQ(node("Then").getInputs()[0], node("Outer").getOutputs()[0]);
  auto outer = node("Then").getInputs()[1].getDefiningOp<onnx::WeightOp>();
  auto inner = node("Else").getInputs()[0].getDefiningOp<onnx::WeightOp>();
  EXPECT_EQ(outer->getParentOp(), main());
  EXPECT_EQ(inner->getParentOp(), ifNode);
  EXPECT_EQ(bytesOf(outer.getKey()), rawOf<float>({1}));
  EXPECT_EQ(bytesOf(inner.getKey()), rawOf<float>({2}));
  Operation *yield = ifNode.getBodies()[1].front().getTerminator();
  EXPECT_EQ(yield->getOperand(1), main().getArgument(0));
}

TEST_F(ImportTest, HidingAVisibleValueIsAWarning) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  pb::NodeProto *branch = addNode(model, "If", {"x"}, {"r"});
  pb::GraphProto *then =
      addAttribute(branch, "then_branch", pb::AttributeProto::GRAPH)->mutable_g();
  addNode(then->mutable_node(), "inner:Const", {}, {"x"});
  then->add_output()->set_name("x");
  ASSERT_TRUE(import(model));
  EXPECT_NE(warnings.at(0).find("[LLMC1024]"), std::string::npos);
  EXPECT_EQ(node("If").getBodies()[0].front().getTerminator()->getOperand(0),
            node("Const").getOutputs()[0]);
}

TEST_F(ImportTest, BodyInputsAreBlockArguments) {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2});
  pb::NodeProto *loop = addNode(model, "Loop", {"", "", "x"}, {"r"});
  pb::GraphProto *body = addAttribute(loop, "body", pb::AttributeProto::GRAPH)->mutable_g();
  for (const char *name : {"i", "go", "state"})
    body->add_input()->set_name(name);
  addNode(body->mutable_node(), "Add", {"state", "i"}, {"next"});
  for (const char *name : {"go", "next"})
    body->add_output()->set_name(name);
  ASSERT_TRUE(import(model));
  Block &block = node("Loop").getBodies()[0].front();
  ASSERT_EQ(block.getNumArguments(), 3u);
  EXPECT_EQ(block.getTerminator()->getOperand(0), block.getArgument(1));
  EXPECT_EQ(node("Add").getInputs()[1], block.getArgument(0));
  EXPECT_TRUE(isa<NoneType>(node("Loop").getInputs()[0].getType()));
}

TEST_F(ImportTest, TypesWithoutACounterpartKeepTheirText) {
  pb::ModelProto model = makeModel();
  pb::ValueInfoProto *sequence = model.mutable_graph()->add_input();
  sequence->set_name("s");
  sequence->mutable_type()
      ->mutable_optional_type()
      ->mutable_elem_type()
      ->mutable_map_type()
      ->set_key_type(pb::TensorProto::INT64);
  model.mutable_graph()->add_input()->set_name("untyped");
  addInput(model, "strings", {2});
  model.mutable_graph()->mutable_input(2)->mutable_type()->mutable_tensor_type()->set_elem_type(
      pb::TensorProto::STRING);
  ASSERT_TRUE(import(model));
  auto unsupported = [&](StringRef text) { return onnx::UnsupportedType::get(&context, text); };
  EXPECT_EQ(main().getArgumentTypes()[0], unsupported("optional(map(int64,no type))"));
  EXPECT_EQ(main().getArgumentTypes()[1], unsupported("no type"));
  EXPECT_EQ(main().getArgumentTypes()[2], RankedTensorType::get({2}, unsupported("string")));
}

TEST_F(ImportTest, DialectVerifierRefusesPartsThatDoNotFit) {
  context.loadDialect<onnx::OnnxDialect>();
  for (const char *text : {
           "\"onnx.node\"() {op_type = \"A\", version = 1 : i64, output_names = [\"y\"]} : () -> "
           "()",
           "\"onnx.node\"() ({ ^bb0: }) {op_type = \"A\", version = 1 : i64, output_names = []} : "
           "() -> ()",
           "%0 = onnx.weight \"k\" {value = dense<1> : tensor<1xi64>} : tensor<1xi32>",
           "%0 = onnx.weight \"\" : tensor<1xi32>",
           "%0 = onnx.weight \"k\" : tensor<?xi32>",
       }) {
    errors.clear();
    EXPECT_FALSE(mlir::parseSourceString<ModuleOp>(text, &context)) << text;
    EXPECT_FALSE(errors.empty());
  }
}

} // namespace
} // namespace llmc::test
