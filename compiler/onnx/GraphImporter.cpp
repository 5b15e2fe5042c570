// SPDX-License-Identifier: Apache-2.0
//
// Goes on after an error with `none` in place of what is missing, so that one
// run finds every problem; OnnxImporter throws the result away.
#include "compiler/onnx/GraphImporter.h"

#include "compiler/onnx/TypeImport.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace mlir;

namespace llmc {
namespace {

constexpr int64_t kMinOpset = 7, kMaxOpset = 28;
constexpr size_t kMaxPrefix = 512; // of a location: deep calls of nodes with long names

} // namespace

std::string describeNode(const pb::NodeProto &node) {
  std::string op = node.domain().empty() ? node.op_type() : node.domain() + "::" + node.op_type();
  if (!node.name().empty())
    return "node '" + node.name() + "' (" + op + ")";
  for (const std::string &output : node.output())
    if (!output.empty())
      return "the node of output '" + output + "' (" + op + ")";
  return "a node without name and outputs (" + op + ")";
}

//===-- Names -------------------------------------------------------------===//

NameLoc GraphImporter::nameLocation(StringRef name) {
  return NameLoc::get(builder.getStringAttr(name.empty() ? "unnamed" : name));
}

Location GraphImporter::locationOf(const pb::NodeProto &node, const Frame &frame) {
  if (!node.name().empty())
    return nameLocation(frame.prefix + node.name());
  std::string first;
  for (const std::string &output : node.output())
    if (first.empty())
      first = output;
  return nameLocation(frame.prefix + node.op_type() + ":" + first);
}

Value GraphImporter::none() {
  if (!noneValue) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&main.getBody().front());
    noneValue = onnx::NoneOp::create(builder, builder.getUnknownLoc(), builder.getNoneType());
  }
  return noneValue;
}

Value GraphImporter::lookup(StringRef name, Scope &scope) {
  for (Scope *at = &scope; at; at = at->parent) {
    auto it = at->names.find(name);
    if (it == at->names.end())
      continue;
    Entry &entry = it->second;
    if (!entry.value && (entry.initializer || entry.sparse))
      entry.value = makeWeight(name, entry, *at);
    return entry.value;
  }
  return {};
}

Value GraphImporter::makeWeight(StringRef name, Entry &entry, Scope &scope) {
  Location location = nameLocation(name);
  Expected<Constant> constant = entry.initializer ? attributes.constant(*entry.initializer, name)
                                                  : attributes.constant(*entry.sparse, name);
  if (!constant) {
    diagnostics.error(location, toString(constant.takeError()));
    return none();
  }
  OpBuilder::InsertionGuard guard(builder);
  if (scope.last)
    builder.setInsertionPointAfter(scope.last);
  else
    builder.setInsertionPointToStart(scope.block);
  auto op =
      onnx::WeightOp::create(builder, location, constant->type, constant->key, constant->value);
  scope.last = op;
  return op.getResult();
}

void GraphImporter::define(StringRef name, Value value, Scope &scope) {
  if (!name.empty())
    scope.names[name].value = value;
}

void GraphImporter::declareInitializers(const pb::GraphProto &graph, Scope &scope) {
  auto declare = [&](const std::string &name, Entry entry) {
    if (name.empty()) {
      diagnostics.error(builder.getUnknownLoc(), 1025, "an initializer has no name");
      return;
    }
    auto [it, inserted] = scope.names.try_emplace(name, entry);
    if (inserted)
      return;
    // Tools write initializers twice; that is harmless where both are equal.
    const pb::TensorProto *before = it->second.initializer;
    if (before && entry.initializer && tensors.sameContent(*before, *entry.initializer, name))
      return;
    diagnostics.error(nameLocation(name), 1021, "initializer '" + name + "' is defined twice");
  };
  for (const pb::TensorProto &tensor : graph.initializer())
    declare(tensor.name(), {.initializer = &tensor});
  for (const pb::SparseTensorProto &tensor : graph.sparse_initializer())
    declare(tensor.values().name(), {.sparse = &tensor});
}

void GraphImporter::reportDuplicate(StringRef name, const pb::NodeProto &second, const Entry &first,
                                    const Frame &frame) {
  std::string where = first.producer      ? describeNode(*first.producer)
                      : first.initializer ? "an initializer"
                                          : "a graph input";
  diagnostics.error(locationOf(second, frame), 1021,
                    "value '" + name + "' is defined by " + where + " and again by " +
                        describeNode(second));
}

void GraphImporter::declareProducers(const google::protobuf::RepeatedPtrField<pb::NodeProto> &nodes,
                                     Scope &scope, const Frame &frame) {
  for (const pb::NodeProto &node : nodes)
    for (const std::string &output : node.output()) {
      if (output.empty())
        continue;
      auto [it, inserted] = scope.names.try_emplace(output, Entry{.producer = &node});
      if (!inserted)
        reportDuplicate(output, node, it->second, frame);
      // Branches often name their outputs like those of the node they belong to,
      // which are not visible inside; only hiding a visible value is suspicious.
      for (Scope *outer = scope.parent; inserted && outer; outer = outer->parent)
        if (auto hidden = outer->names.find(output); hidden != outer->names.end()) {
          if (!hidden->second.producer || hidden->second.value)
            diagnostics.warning(locationOf(node, frame), 1024,
                                "value '" + output + "' of " + describeNode(node) +
                                    " hides one of an enclosing graph");
          break;
        }
    }
}

//===-- Graphs ------------------------------------------------------------===//

Opsets GraphImporter::importOpsets(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto> &imports, Location location) {
  Opsets opsets;
  for (const pb::OperatorSetIdProto &import : imports) {
    StringRef domain = normalDomain(import.domain());
    auto [it, inserted] = opsets.try_emplace(domain, import.version());
    if (!inserted && it->second != import.version()) {
      diagnostics.warning(location, 1013,
                          "domain '" + domain + "' is imported with the versions " +
                              Twine(it->second) + " and " + Twine(import.version()) +
                              "; the higher one is taken");
      it->second = std::max(it->second, import.version());
    }
  }
  auto standard = opsets.find("");
  if (standard != opsets.end() && (standard->second < kMinOpset || standard->second > kMaxOpset))
    diagnostics.error(location, 1011,
                      "opset " + Twine(standard->second) +
                          " of the standard domain is not among "
                          "those supported, " +
                          Twine(kMinOpset) + " to " + Twine(kMaxOpset));
  return opsets;
}

void GraphImporter::importMain(func::FuncOp function, const Opsets &opsets) {
  main = function;
  const pb::GraphProto &graph = model.proto.graph();
  Scope scope;
  scope.block = main.addEntryBlock();
  builder.setInsertionPointToEnd(scope.block);
  Frame frame;
  frame.opsets = &opsets;
  declareInitializers(graph, scope);

  MLIRContext *context = builder.getContext();
  SmallVector<Attribute> argumentAttrs, resultAttrs;
  SmallVector<Type> argumentTypes;
  auto describe = [&](const pb::ValueInfoProto &info, bool isResult) {
    NamedAttrList attrs;
    attrs.set(onnx::kNameAttr, builder.getStringAttr(info.name()));
    if (ArrayAttr dims = importDims(info.type(), context))
      attrs.set(onnx::kDimsAttr, dims);
    if (isResult && info.type().value_case() != pb::TypeProto::VALUE_NOT_SET)
      attrs.set(onnx::kTypeAttr, TypeAttr::get(importType(info.type(), context)));
    return attrs.getDictionary(context);
  };
  for (const pb::ValueInfoProto &input : graph.input()) {
    auto it = scope.names.find(input.name());
    // An initializer that is listed as an input is a default that nobody overrides.
    if (it != scope.names.end() && !it->second.value)
      continue;
    Location location = nameLocation(input.name());
    if (it != scope.names.end() || input.name().empty()) {
      diagnostics.error(location, input.name().empty() ? 1025 : 1021,
                        input.name().empty() ? Twine("a graph input has no name")
                                             : "graph input '" + input.name() + "' is given twice");
      continue;
    }
    Type type = importType(input.type(), context);
    argumentTypes.push_back(type);
    argumentAttrs.push_back(describe(input, /*isResult=*/false));
    define(input.name(), scope.block->addArgument(type, location), scope);
  }

  importNodes(graph.node(), scope, frame);

  SmallVector<Value> results;
  for (const pb::ValueInfoProto &output : graph.output()) {
    Value value = lookup(output.name(), scope);
    if (!value) {
      diagnostics.error(nameLocation(output.name()), 1020,
                        "graph output '" + output.name() + "' is not defined");
      value = none();
    }
    results.push_back(value);
    resultAttrs.push_back(describe(output, /*isResult=*/true));
  }
  func::ReturnOp::create(builder, nameLocation(graph.name()), results);
  SmallVector<Type> resultTypes(ValueRange(results).getTypes());
  main.setFunctionType(builder.getFunctionType(argumentTypes, resultTypes));
  main.setArgAttrsAttr(builder.getArrayAttr(argumentAttrs));
  main.setResAttrsAttr(builder.getArrayAttr(resultAttrs));
}

void GraphImporter::importRegion(const pb::GraphProto &graph, Region &region, Scope *parent,
                                 const Frame &frame) {
  OpBuilder::InsertionGuard guard(builder);
  Scope scope;
  scope.parent = parent;
  scope.block = builder.createBlock(&region);
  declareInitializers(graph, scope);
  for (const pb::ValueInfoProto &input : graph.input()) {
    auto it = scope.names.find(input.name());
    bool hasInitializer = it != scope.names.end() && !it->second.value;
    // Up to IR version 3 each initializer had to be listed among the inputs. In
    // later ones such an input is the node's to give, and hides the initializer.
    if (hasInitializer && model.proto.ir_version() < 4)
      continue;
    Value argument = scope.block->addArgument(onnx::ValueType::get(builder.getContext()),
                                              nameLocation(input.name()));
    if (it != scope.names.end() && !hasInitializer)
      diagnostics.error(nameLocation(input.name()), 1021,
                        "graph input '" + input.name() + "' is given twice");
    if (!input.name().empty())
      scope.names[input.name()] = Entry{.value = argument};
  }
  if (++regionDepth > kMaxRegionDepth)
    diagnostics.error(nameLocation(graph.name()), 1004,
                      "graphs nest deeper than " + Twine(kMaxRegionDepth) +
                          " levels once local functions are inlined");
  else
    importNodes(graph.node(), scope, frame);
  --regionDepth;

  SmallVector<Value> outputs;
  for (const pb::ValueInfoProto &output : graph.output()) {
    Value value = lookup(output.name(), scope);
    if (!value) {
      diagnostics.error(nameLocation(output.name()), 1020,
                        "output '" + output.name() + "' of the inner graph '" + graph.name() +
                            "' is not defined");
      value = none();
    }
    outputs.push_back(value);
  }
  builder.setInsertionPointToEnd(scope.block);
  onnx::YieldOp::create(builder, nameLocation(graph.name()), outputs);
}

//===-- Nodes -------------------------------------------------------------===//

void GraphImporter::importNodes(const google::protobuf::RepeatedPtrField<pb::NodeProto> &nodes,
                                Scope &scope, const Frame &frame) {
  if (diagnostics.isStopped())
    return;
  declareProducers(nodes, scope, frame);
  NodeOrder order = orderNodes(nodes, captures);
  if (!order.cycle.empty()) {
    std::string text = "the graph has a cycle:";
    size_t shown = std::min<size_t>(order.cycle.size(), 4);
    for (size_t i = 0; i < shown; ++i)
      text += (i ? " needs " : " ") + describeNode(nodes[order.cycle[i]]);
    text += shown < order.cycle.size() ? " needs … " : " needs ";
    diagnostics.error(locationOf(nodes[order.cycle[0]], frame), 1022,
                      text + describeNode(nodes[order.cycle[0]]));
    // What is left has no order, and would be reported as undefined.
    for (auto &entry : scope.names)
      if (!entry.second.value && !entry.second.initializer && !entry.second.sparse)
        entry.second.value = none();
  }
  for (int index : order.order)
    importNode(nodes[index], scope, frame);
}

SmallVector<Value> GraphImporter::importInputs(const pb::NodeProto &node, Scope &scope,
                                               const Frame &frame) {
  int count = node.input_size();
  while (count > 0 && node.input(count - 1).empty())
    --count;
  SmallVector<Value> inputs;
  for (int i = 0; i < count; ++i) {
    Value value = node.input(i).empty() ? none() : lookup(node.input(i), scope);
    if (!value) {
      diagnostics.error(locationOf(node, frame), 1020,
                        "input " + Twine(i) + " '" + node.input(i) + "' of " + describeNode(node) +
                            " is not defined");
      value = none();
    }
    inputs.push_back(value);
  }
  return inputs;
}

SmallVector<GraphImporter::BoundAttribute> GraphImporter::bind(const pb::NodeProto &node,
                                                               Scope &scope, const Frame &frame) {
  SmallVector<BoundAttribute> bound;
  llvm::StringSet<> seen;
  for (const pb::AttributeProto &attribute : node.attribute()) {
    if (attribute.name().empty() || !seen.insert(attribute.name()).second) {
      diagnostics.error(locationOf(node, frame), 1030,
                        attribute.name().empty()
                            ? "an attribute of " + describeNode(node) + " has no name"
                            : "attribute '" + attribute.name() + "' of " + describeNode(node) +
                                  " is given twice");
      continue;
    }
    if (attribute.ref_attr_name().empty()) {
      bound.push_back({attribute.name(), &attribute, &scope, &frame});
      continue;
    }
    if (!frame.isCall)
      diagnostics.error(locationOf(node, frame), 1031,
                        "attribute '" + attribute.name() + "' of " + describeNode(node) +
                            " refers to '" + attribute.ref_attr_name() +
                            "' of a local function, but stands outside of one");
    auto it = frame.attributes.find(attribute.ref_attr_name());
    if (it == frame.attributes.end())
      continue; // optional, and not given by the call
    bound.push_back(it->second);
    bound.back().name = attribute.name();
  }
  return bound;
}

int64_t GraphImporter::versionOf(const pb::NodeProto &node, const Frame &frame) {
  StringRef domain = normalDomain(node.domain());
  auto it = frame.opsets->find(domain);
  if (it != frame.opsets->end())
    return it->second;
  if (!unknownDomains.try_emplace(domain, true).second)
    return 1;
  if (domain.empty())
    diagnostics.error(locationOf(node, frame), 1012,
                      "the model does not import the standard domain, which " + describeNode(node) +
                          " needs");
  else
    diagnostics.warning(locationOf(node, frame), 1012,
                        "the model does not import the domain '" + domain + "' of " +
                            describeNode(node) + "; version 1 is assumed");
  return 1;
}

void GraphImporter::importNode(const pb::NodeProto &node, Scope &scope, const Frame &frame) {
  if (diagnostics.isStopped())
    return;
  if (callDepth > 0 && ++inlinedNodes > kMaxInlinedCost) {
    diagnostics.error(locationOf(node, frame), 1041,
                      "inlining the local functions gives more than " + Twine(kMaxInlinedCost) +
                          " nodes");
    diagnostics.stop();
    return;
  }
  if (const pb::FunctionProto *function = functions.callee(node))
    return inlineCall(node, *function, scope, frame);
  if (node.op_type() == "Constant" && normalDomain(node.domain()).empty())
    return importConstant(node, scope, frame);
  Location location = locationOf(node, frame);
  if (node.op_type().empty())
    diagnostics.error(location, 1025, describeNode(node) + " has no op_type");

  SmallVector<Value> inputs = importInputs(node, scope, frame);
  NamedAttrList attrs;
  SmallVector<StringRef> outputNames, regionNames;
  SmallVector<std::pair<const pb::GraphProto *, const BoundAttribute *>> graphs;
  SmallVector<BoundAttribute> bound = bind(node, scope, frame);
  for (const BoundAttribute &value : bound) {
    if (AttributeImporter::isGraph(*value.attribute)) {
      if (value.attribute->has_g())
        graphs.push_back({&value.attribute->g(), &value});
      for (const pb::GraphProto &graph : value.attribute->graphs())
        graphs.push_back({&graph, &value});
      regionNames.resize(graphs.size(), value.name);
      if (!value.attribute->has_g() && value.attribute->graphs_size() == 0)
        diagnostics.error(location, 1030,
                          "graph attribute '" + value.name + "' of " + describeNode(node) +
                              " has no graph");
      continue;
    }
    std::string key =
        (node.output_size() > 0 ? node.output(0) : node.name()) + "." + value.name.str();
    Expected<Attribute> imported = attributes.import(*value.attribute, key);
    if (!imported)
      diagnostics.error(location,
                        toString(imported.takeError()) + " (in " + describeNode(node) + ")");
    else
      attrs.append(value.name, *imported);
  }
  for (const std::string &output : node.output())
    outputNames.push_back(output);

  SmallVector<Type> types(node.output_size(), onnx::ValueType::get(builder.getContext()));
  auto op = onnx::NodeOp::create(
      builder, location, types, builder.getStringAttr(node.op_type()),
      builder.getStringAttr(normalDomain(node.domain())),
      builder.getI64IntegerAttr(versionOf(node, frame)), builder.getStringAttr(node.name()),
      builder.getStrArrayAttr(outputNames), attrs.getDictionary(builder.getContext()),
      builder.getStrArrayAttr(regionNames), inputs, static_cast<unsigned>(graphs.size()));
  for (size_t i = 0; i < graphs.size(); ++i)
    importRegion(*graphs[i].first, op.getBodies()[i], graphs[i].second->scope,
                 *graphs[i].second->frame);
  for (int i = 0; i < node.output_size(); ++i)
    define(node.output(i), op.getOutputs()[i], scope);
}

void GraphImporter::importConstant(const pb::NodeProto &node, Scope &scope, const Frame &frame) {
  Location location = locationOf(node, frame);
  SmallVector<BoundAttribute> bound = bind(node, scope, frame);
  if (node.output_size() != 1 || node.output(0).empty() || node.input_size() != 0 ||
      bound.size() != 1) {
    diagnostics.error(location, 1070,
                      describeNode(node) + " has " + Twine(node.input_size()) + " inputs, " +
                          Twine(node.output_size()) + " outputs and " + Twine(bound.size()) +
                          " values; a Constant has no input, one output and one value");
    for (const std::string &output : node.output())
      define(output, none(), scope);
    return;
  }
  Expected<Constant> constant =
      attributes.constant(*bound[0].attribute, bound[0].name, node.output(0));
  if (!constant) {
    diagnostics.error(location,
                      toString(constant.takeError()) + " (in " + describeNode(node) + ")");
    return define(node.output(0), none(), scope);
  }
  define(node.output(0),
         onnx::WeightOp::create(builder, location, constant->type, constant->key, constant->value),
         scope);
}

void GraphImporter::inlineCall(const pb::NodeProto &node, const pb::FunctionProto &function,
                               Scope &scope, const Frame &frame) {
  Location location = locationOf(node, frame);
  SmallVector<Value> inputs = importInputs(node, scope, frame);
  bool fits = static_cast<int>(inputs.size()) <= function.input_size() &&
              node.output_size() <= function.output_size();
  if (!fits || ++callDepth > kMaxCallDepth) {
    diagnostics.error(
        location, fits ? 1041 : 1042,
        fits ? Twine("local functions call each other too deeply")
             : describeNode(node) + " has " + Twine(inputs.size()) + " inputs and " +
                   Twine(node.output_size()) + " outputs, but the local function has " +
                   Twine(function.input_size()) + " and " + Twine(function.output_size()));
    for (const std::string &output : node.output())
      define(output, none(), scope);
    return;
  }
  llvm::scope_exit leave([&] { --callDepth; });

  Frame inner;
  inner.isCall = true;
  inner.prefix = cast<NameLoc>(location).getName().str() + "/";
  if (inner.prefix.size() > kMaxPrefix)
    inner.prefix.erase(0, inner.prefix.size() - kMaxPrefix);
  auto [opsets, isNew] = functionOpsets.try_emplace(&function);
  if (isNew) {
    opsets->second = importOpsets(function.opset_import(), location);
    for (const auto &import : *frame.opsets) // for domains the function forgot to import
      opsets->second.try_emplace(import.first(), import.second);
  }
  Opsets versions = opsets->second; // nested calls may move the map's entries
  inner.opsets = &versions;

  Scope body;
  body.block = scope.block;
  for (const BoundAttribute &attribute : bind(node, scope, frame))
    inner.attributes.try_emplace(attribute.name, attribute);
  for (const pb::AttributeProto &attribute : function.attribute_proto())
    inner.attributes.try_emplace(attribute.name(),
                                 BoundAttribute{attribute.name(), &attribute, &body, &inner});

  for (int i = 0; i < function.input_size(); ++i)
    define(function.input(i), i < static_cast<int>(inputs.size()) ? inputs[i] : none(), body);
  importNodes(function.node(), body, inner);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    Value value = lookup(function.output(i), body);
    if (!value) {
      diagnostics.error(location, 1020,
                        "output '" + function.output(i) + "' of the local function '" +
                            function.name() + "' is not defined");
      value = none();
    }
    define(node.output(i), value, scope);
  }
}

} // namespace llmc
