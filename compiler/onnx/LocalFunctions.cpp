// SPDX-License-Identifier: Apache-2.0
//
// Cost counts what inlining creates: nodes, their operands and attributes, and
// text. It is summed over the call graph with each function visited once.
#include "compiler/onnx/LocalFunctions.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace llmc {
namespace {

std::string keyOf(StringRef domain, StringRef name, StringRef overload) {
  // Lengths keep ("a", "b c") and ("a b", "c") apart.
  return (Twine(domain.size()) + ":" + domain + Twine(name.size()) + ":" + name + overload).str();
}

std::string label(const pb::FunctionProto &function) {
  return "'" + function.domain() + "::" + function.name() +
         (function.overload().empty() ? "" : ":" + function.overload()) + "'";
}

} // namespace

const pb::FunctionProto *LocalFunctions::callee(const pb::NodeProto &node) const {
  if (functions.empty())
    return nullptr;
  auto it = functions.find(keyOf(normalDomain(node.domain()), node.op_type(), node.overload()));
  return it == functions.end() ? nullptr : it->second.function;
}

void LocalFunctions::check(ImportDiagnostics &diagnostics, mlir::Location location) {
  for (const pb::FunctionProto &function : model.functions()) {
    Entry &entry =
        functions[keyOf(normalDomain(function.domain()), function.name(), function.overload())];
    if (entry.function)
      diagnostics.error(location, 1043, "local function " + label(function) + " is defined twice");
    entry.function = &function;
  }
  if (functions.empty())
    return;
  Entry main;
  addCost(model.graph().node(), 0, main);
  if (problemCode == 0 && main.cost > kMaxInlinedCost) {
    problemCode = 1041;
    problem = "inlining the local functions would give a graph of more than " +
              std::to_string(kMaxInlinedCost) + " nodes, operands and attributes";
  }
  if (problemCode != 0)
    diagnostics.error(location, problemCode, problem);
}

template <typename Nodes>
void LocalFunctions::addCost(const Nodes &nodes, unsigned callDepth, Entry &sum) {
  for (const pb::NodeProto &node : nodes) {
    uint64_t text = node.name().size() + node.op_type().size();
    for (const std::string &name : node.output())
      text += name.size();
    for (const std::string &name : node.input())
      text += name.size();
    uint64_t parts = 1 + node.input_size() + node.output_size() + node.attribute_size();
    sum.cost = SaturatingAdd<uint64_t>(sum.cost, parts + text / 64);
    for (const pb::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g())
        addCost(attribute.g().node(), callDepth, sum);
      for (const pb::GraphProto &graph : attribute.graphs())
        addCost(graph.node(), callDepth, sum);
    }
    auto it = functions.find(keyOf(normalDomain(node.domain()), node.op_type(), node.overload()));
    if (it != functions.end())
      addCall(it->second, callDepth + 1, sum);
  }
}

void LocalFunctions::addCall(Entry &callee, unsigned callDepth, Entry &sum) {
  if (problemCode != 0)
    return;
  if (callee.state == Entry::Open) {
    problemCode = 1040;
    problem = "local function " + label(*callee.function) + " calls itself";
    return;
  }
  // callDepth bounds the recursion here, height the one of the importer.
  if (callee.state == Entry::New && callDepth <= kMaxCallDepth) {
    callee.state = Entry::Open;
    addCost(callee.function->node(), callDepth, callee);
    callee.state = Entry::Done;
  }
  sum.height = std::max(sum.height, callee.height + 1);
  sum.cost = SaturatingAdd(sum.cost, callee.cost);
  if (problemCode == 0 && (callDepth > kMaxCallDepth || sum.height > kMaxCallDepth)) {
    problemCode = 1041;
    problem = "local functions call each other more than " + std::to_string(kMaxCallDepth) +
              " levels deep, at " + label(*callee.function);
  }
}

} // namespace llmc
