// SPDX-License-Identifier: Apache-2.0
//
// Kahn's algorithm that always takes the ready node that comes first in the
// file, so that the result is stable and equal for equal files.
#include "compiler/onnx/NodeOrder.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <queue>

using namespace llvm;

namespace llmc {

namespace pb = ::onnx;

void Captures::forEachUse(const pb::NodeProto &node, function_ref<void(StringRef)> use) {
  for (const std::string &input : node.input())
    if (!input.empty())
      use(input);
  for (const pb::AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      for (StringRef name : of(attribute.g()))
        use(name);
    for (const pb::GraphProto &graph : attribute.graphs())
      for (StringRef name : of(graph))
        use(name);
  }
}

ArrayRef<StringRef> Captures::of(const pb::GraphProto &graph) {
  if (auto it = known.find(&graph); it != known.end())
    return *it->second;
  StringSet<> own, seen;
  for (const pb::ValueInfoProto &input : graph.input())
    own.insert(input.name());
  for (const pb::TensorProto &tensor : graph.initializer())
    own.insert(tensor.name());
  for (const pb::SparseTensorProto &tensor : graph.sparse_initializer())
    own.insert(tensor.values().name());
  for (const pb::NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      own.insert(output);
  auto names = std::make_unique<std::vector<StringRef>>();
  auto use = [&](StringRef name) {
    if (!own.contains(name) && seen.insert(name).second)
      names->push_back(name);
  };
  for (const pb::NodeProto &node : graph.node())
    forEachUse(node, use);
  for (const pb::ValueInfoProto &output : graph.output())
    use(output.name());
  return *(known[&graph] = std::move(names));
}

NodeOrder orderNodes(const google::protobuf::RepeatedPtrField<pb::NodeProto> &nodes,
                     Captures &captures) {
  StringMap<int> producer; // the first one; duplicates are reported elsewhere
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &output : nodes[i].output())
      if (!output.empty())
        producer.try_emplace(output, i);

  std::vector<SmallVector<int, 2>> users(nodes.size());
  std::vector<int> waiting(nodes.size(), 0);
  bool sorted = true;
  for (int i = 0; i < nodes.size(); ++i) {
    SmallVector<int, 4> needed;
    captures.forEachUse(nodes[i], [&](StringRef name) {
      auto it = producer.find(name);
      if (it != producer.end())
        needed.push_back(it->second);
    });
    llvm::sort(needed);
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    waiting[i] = static_cast<int>(needed.size());
    for (int node : needed) {
      users[node].push_back(i);
      sorted &= node < i;
    }
  }

  NodeOrder result;
  result.order.reserve(nodes.size());
  if (sorted) {
    for (int i = 0; i < nodes.size(); ++i)
      result.order.push_back(i);
    return result;
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i)
    if (waiting[i] == 0)
      ready.push(i);
  while (!ready.empty()) {
    int node = ready.top();
    ready.pop();
    result.order.push_back(node);
    for (int user : users[node])
      if (--waiting[user] == 0)
        ready.push(user);
  }
  if (static_cast<int>(result.order.size()) == nodes.size())
    return result;

  // Every node left waits for another one left: following that from any of
  // them ends in a cycle.
  std::vector<int> waitsFor(nodes.size(), -1), place(nodes.size(), -1);
  for (int i = 0; i < nodes.size(); ++i)
    if (waiting[i] > 0)
      for (int user : users[i])
        if (waitsFor[user] < 0)
          waitsFor[user] = i;
  int at = 0;
  while (waiting[at] == 0)
    ++at;
  std::vector<int> path;
  for (; place[at] < 0; at = waitsFor[at]) {
    place[at] = static_cast<int>(path.size());
    path.push_back(at);
  }
  result.cycle.assign(path.begin() + place[at], path.end());
  return result;
}

} // namespace llmc
