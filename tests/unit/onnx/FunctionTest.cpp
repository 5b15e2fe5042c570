// SPDX-License-Identifier: Apache-2.0
//
// Local functions: inlining with everything that can differ from a macro, and
// the models that would make it go on forever.
#include "tests/unit/onnx/ImportFixture.h"

#include <ctime>

using namespace mlir;

namespace llmc::test {
namespace {

class FunctionTest : public ImportTest {
protected:
  FunctionTest() : model(makeModel()) { addInput(model, "x", {2}); }

  pb::FunctionProto *function(const std::string &name, std::vector<std::string> inputs,
                              std::vector<std::string> outputs) {
    pb::FunctionProto *made = model.add_functions();
    made->set_domain("local");
    made->set_name(name);
    for (std::string &input : inputs)
      made->add_input(std::move(input));
    for (std::string &output : outputs)
      made->add_output(std::move(output));
    pb::OperatorSetIdProto *opset = made->add_opset_import();
    opset->set_domain("");
    opset->set_version(18);
    return made;
  }
  template <typename Owner>
  pb::NodeProto *call(Owner *owner, const std::string &name, std::vector<std::string> inputs,
                      std::vector<std::string> outputs) {
    pb::NodeProto *node =
        addNode(owner->mutable_node(), name, std::move(inputs), std::move(outputs));
    node->set_domain("local");
    return node;
  }
  std::string locationOf(Operation *op) { return cast<NameLoc>(op->getLoc()).getName().str(); }

  pb::ModelProto model;
};

TEST_F(FunctionTest, InlinesNestedCallsWithTheirOwnOpset) {
  pb::FunctionProto *inner = function("Inner", {"a"}, {"b"});
  addNode(inner->mutable_node(), "relu:Relu", {"a"}, {"b"});
  pb::FunctionProto *outer = function("Outer", {"a", "b"}, {"c", "a"});
  call(outer, "first:Inner", {"b"}, {"t"});
  call(outer, "second:Inner", {"t"}, {"c"});
  call(model.mutable_graph(), "main:Outer", {"x", "x"}, {"y", "same"});
  addNode(model, "Neg", {"y"}, {"z"});
  addOutput(model, "z");
  addOutput(model, "same");
  ASSERT_TRUE(import(model)) << errors[0];
  std::vector<onnx::NodeOp> relus = nodes("Relu");
  ASSERT_EQ(relus.size(), 2u);
  EXPECT_EQ(locationOf(relus[0]), "main/first/relu");
  EXPECT_EQ(locationOf(relus[1]), "main/second/relu");
  EXPECT_EQ(relus[0].getVersion(), 18u);
  EXPECT_EQ(node("Neg").getVersion(), 17u);
  EXPECT_EQ(relus[0].getInputs()[0], main().getArgument(0));
  EXPECT_EQ(relus[1].getInputs()[0], relus[0].getOutputs()[0]);
  EXPECT_EQ(node("Neg").getInputs()[0], relus[1].getOutputs()[0]);
  EXPECT_EQ(main().getBody().front().getTerminator()->getOperand(1), main().getArgument(0));
  EXPECT_TRUE(nodes("Inner").empty());
}

TEST_F(FunctionTest, AttributesAreReferredToRenamedDefaultedOrLeftOut) {
  pb::FunctionProto *inner = function("Inner", {"a"}, {"b"});
  inner->add_attribute("given");
  inner->add_attribute("absent");
  pb::AttributeProto *fallback = inner->add_attribute_proto();
  fallback->set_name("fallback");
  fallback->set_type(pb::AttributeProto::INT);
  fallback->set_i(9);
  pb::NodeProto *op = addNode(inner->mutable_node(), "Op", {"a"}, {"b"});
  auto refer = [](pb::NodeProto *node, const char *name, const char *target,
                  pb::AttributeProto::AttributeType type) {
    addAttribute(node, name, type)->set_ref_attr_name(target);
  };
  refer(op, "alpha", "given", pb::AttributeProto::FLOAT);
  refer(op, "beta", "absent", pb::AttributeProto::FLOAT);
  refer(op, "axis", "fallback", pb::AttributeProto::INT);
  refer(addNode(inner->mutable_node(), "k:Constant", {}, {"k"}), "value_float", "given",
        pb::AttributeProto::FLOAT);
  addNode(inner->mutable_node(), "Use", {"k"}, {"unused"});
  pb::FunctionProto *outer = function("Outer", {"a"}, {"b"});
  outer->add_attribute("scale");
  refer(call(outer, "Inner", {"a"}, {"b"}), "given", "scale", pb::AttributeProto::FLOAT);
  addAttribute(call(model.mutable_graph(), "one:Outer", {"x"}, {"y"}), "scale",
               pb::AttributeProto::FLOAT)
      ->set_f(0.5f);
  addAttribute(call(model.mutable_graph(), "two:Outer", {"y"}, {"z"}), "scale",
               pb::AttributeProto::FLOAT)
      ->set_f(0.25f);
  pb::NodeProto *direct = call(model.mutable_graph(), "three:Inner", {"z"}, {"v"});
  addAttribute(direct, "fallback", pb::AttributeProto::INT)->set_i(3);
  addAttribute(direct, "given", pb::AttributeProto::FLOAT)->set_f(1);
  addOutput(model, "v");
  ASSERT_TRUE(import(model)) << errors[0];
  std::vector<onnx::NodeOp> ops = nodes("Op");
  ASSERT_EQ(ops.size(), 3u);
  Builder b(&context);
  float alphas[] = {0.5f, 0.25f, 1};
  int64_t axes[] = {9, 9, 3};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ops[i].getAttrs().get("alpha"), b.getF32FloatAttr(alphas[i]));
    EXPECT_EQ(ops[i].getAttrs().get("axis"), b.getI64IntegerAttr(axes[i]));
    EXPECT_FALSE(ops[i].getAttrs().get("beta"));
    auto constant = nodes("Use")[i].getInputs()[0].getDefiningOp<onnx::WeightOp>();
    EXPECT_EQ(bytesOf(constant.getKey()), rawOf<float>({alphas[i]}));
  }
}

TEST_F(FunctionTest, AbsentAndMissingInputsAreNone) {
  pb::FunctionProto *f = function("F", {"a", "b", "c"}, {"y", "z"});
  addNode(f->mutable_node(), "Op", {"b", "a", "c"}, {"y"});
  addNode(f->mutable_node(), "Op2", {"a"}, {"z"});
  call(model.mutable_graph(), "F", {"x", ""}, {"y"});
  addOutput(model, "y");
  ASSERT_TRUE(import(model));
  EXPECT_TRUE(isa<NoneType>(node("Op").getInputs()[0].getType()));
  EXPECT_EQ(node("Op").getInputs()[1], main().getArgument(0));
  EXPECT_TRUE(isa<NoneType>(node("Op").getInputs()[2].getType()));
}

TEST_F(FunctionTest, BodySeesNothingOutsideOfItself) {
  pb::FunctionProto *f = function("F", {"a"}, {"y"});
  addNode(f->mutable_node(), "op:Op", {"a", "x"}, {"y"});
  call(model.mutable_graph(), "call:F", {"x"}, {"y"});
  addOutput(model, "y");
  expectError(model, "call/op: [LLMC1020] input 1 'x'");
}

TEST_F(FunctionTest, RegionsInFunctionsCaptureFunctionInputs) {
  pb::FunctionProto *f = function("F", {"a"}, {"y"});
  pb::NodeProto *branch = addNode(f->mutable_node(), "If", {"a"}, {"y"});
  pb::GraphProto *then =
      addAttribute(branch, "then_branch", pb::AttributeProto::GRAPH)->mutable_g();
  pb::NodeProto *op = addNode(then->mutable_node(), "Op", {"a"}, {"y"});
  addAttribute(op, "axis", pb::AttributeProto::INT)->set_ref_attr_name("axis");
  then->add_output()->set_name("y");
  addAttribute(call(model.mutable_graph(), "F", {"x"}, {"y"}), "axis", pb::AttributeProto::INT)
      ->set_i(4);
  addOutput(model, "y");
  ASSERT_TRUE(import(model));
  EXPECT_EQ(node("Op").getInputs()[0], main().getArgument(0));
  EXPECT_EQ(node("Op").getAttrs().get("axis"), Builder(&context).getI64IntegerAttr(4));
  EXPECT_EQ(node("Op")->getParentOp(), node("If"));
}

TEST_F(FunctionTest, GraphAttributesSeeTheCallersValues) {
  pb::FunctionProto *f = function("F", {"a"}, {"y"});
  f->add_attribute("body");
  addNode(f->mutable_node(), "Hidden", {"a"}, {"z"}); // not the z that the body means
  addAttribute(addNode(f->mutable_node(), "Loop", {"a"}, {"y"}), "body", pb::AttributeProto::GRAPH)
      ->set_ref_attr_name("body");
  addNode(model, "Z", {"x"}, {"z"});
  pb::GraphProto *body = addAttribute(call(model.mutable_graph(), "F", {"x"}, {"y"}), "body",
                                      pb::AttributeProto::GRAPH)
                             ->mutable_g();
  addNode(body->mutable_node(), "Op", {"z"}, {"o"});
  body->add_output()->set_name("o");
  addOutput(model, "y");
  ASSERT_TRUE(import(model));
  EXPECT_EQ(node("Op").getInputs()[0], node("Z").getOutputs()[0]);
  EXPECT_EQ(node("Op")->getParentOp(), node("Loop"));
}

TEST_F(FunctionTest, OverloadsAreDifferentFunctions) {
  for (const char *overload : {"", "two"}) {
    pb::FunctionProto *f = function("F", {"a"}, {"y"});
    f->set_overload(overload);
    addNode(f->mutable_node(), std::string("Op") + overload, {"a"}, {"y"});
  }
  call(model.mutable_graph(), "F", {"x"}, {"y"});
  call(model.mutable_graph(), "F", {"y"}, {"z"})->set_overload("two");
  addOutput(model, "z");
  ASSERT_TRUE(import(model));
  node("Op");
  node("Optwo");
  model.mutable_functions(1)->clear_overload();
  expectError(model, "[LLMC1043]");
}

TEST_F(FunctionTest, CallsThatDoNotFitAreErrors) {
  pb::FunctionProto *f = function("F", {"a"}, {"y"});
  addNode(f->mutable_node(), "Op", {"a"}, {"y"});
  call(model.mutable_graph(), "call:F", {"x", "x"}, {"y"});
  addOutput(model, "y");
  expectError(model, "[LLMC1042] node 'call' (local::F) has 2 inputs");
  model.mutable_graph()->mutable_node(0)->mutable_input()->RemoveLast();
  model.mutable_graph()->mutable_node(0)->add_output("z");
  expectError(model, "[LLMC1042]");
  model.mutable_graph()->mutable_node(0)->mutable_output()->RemoveLast();
  model.mutable_functions(0)->set_output(0, "nowhere");
  expectError(model, "[LLMC1020] output 'nowhere' of the local function 'F'");
}

TEST_F(FunctionTest, RecursionIsAnError) {
  pb::FunctionProto *a = function("A", {"a"}, {"y"});
  pb::NodeProto *branch = addNode(a->mutable_node(), "If", {"a"}, {"y"});
  pb::GraphProto *then =
      addAttribute(branch, "then_branch", pb::AttributeProto::GRAPH)->mutable_g();
  call(then, "B", {"a"}, {"y"});
  then->add_output()->set_name("y");
  call(function("B", {"a"}, {"y"}), "A", {"a"}, {"y"});
  call(model.mutable_graph(), "A", {"x"}, {"y"});
  addOutput(model, "y");
  expectError(model, "[LLMC1040]");
}

TEST_F(FunctionTest, ExpansionsThatExplodeAreRefusedAtOnce) {
  std::clock_t begin = std::clock();
  for (int i = 0; i < 60; ++i) {
    pb::FunctionProto *f = function("F" + std::to_string(i), {"a"}, {"y"});
    call(f, "F" + std::to_string(i + 1), {"a"}, {"t"});
    call(f, "F" + std::to_string(i + 1), {"t"}, {"y"});
  }
  addNode(function("F60", {"a"}, {"y"})->mutable_node(), "Op", {"a"}, {"y"});
  call(model.mutable_graph(), "F0", {"x"}, {"y"});
  addOutput(model, "y");
  expectError(model, "[LLMC1041]");
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
}

TEST_F(FunctionTest, LongCallChainsAreRefusedInAnyOrder) {
  for (bool bottomFirst : {false, true}) {
    model.clear_functions();
    model.mutable_graph()->clear_node();
    for (int i = 0; i < 20000; ++i)
      call(function("F" + std::to_string(i), {"a"}, {"y"}), "F" + std::to_string(i + 1), {"a"},
           {"y"});
    addNode(function("F20000", {"a"}, {"y"})->mutable_node(), "Op", {"a"}, {"y"});
    for (int i = 20000; bottomFirst && i > 0; --i)
      call(model.mutable_graph(), "F" + std::to_string(i), {"x"}, {"y" + std::to_string(i)});
    call(model.mutable_graph(), "F0", {"x"}, {"y"});
    expectError(model, "[LLMC1041]");
  }
}

TEST_F(FunctionTest, GraphAttributePassedDownAndMultipliedIsBounded) {
  // Each level instantiates its graph attribute twice, which the static count
  // of calls does not see.
  constexpr int kLevels = 12;
  for (int i = 0; i < kLevels; ++i) {
    pb::FunctionProto *f = function("F" + std::to_string(i), {"a"}, {"y"});
    f->add_attribute("body");
    for (const char *out : {"t", "y"})
      addAttribute(call(f, "F" + std::to_string(i + 1), {"a"}, {out}), "body",
                   pb::AttributeProto::GRAPH)
          ->set_ref_attr_name("body");
  }
  pb::FunctionProto *leaf = function("F" + std::to_string(kLevels), {"a"}, {"y"});
  addAttribute(addNode(leaf->mutable_node(), "Loop", {"a"}, {"y"}), "body",
               pb::AttributeProto::GRAPH)
      ->set_ref_attr_name("body");
  pb::GraphProto *body = addAttribute(call(model.mutable_graph(), "F0", {"x"}, {"y"}), "body",
                                      pb::AttributeProto::GRAPH)
                             ->mutable_g();
  for (int i = 0; i < 1000; ++i)
    addNode(body->mutable_node(), "Op", {"x"}, {"o" + std::to_string(i)});
  body->add_output()->set_name("o1");
  addOutput(model, "y");
  EXPECT_FALSE(import(model));
  EXPECT_TRUE(hasError("[LLMC1041]"));
}

} // namespace
} // namespace llmc::test
