// SPDX-License-Identifier: Apache-2.0
//
// The order in which a graph's nodes are imported: the file's order where it is
// topological (the standard demands it, not every exporter obeys), else sorted
// with as few changes as possible.
#ifndef LLMC_COMPILER_ONNX_NODEORDER_H
#define LLMC_COMPILER_ONNX_NODEORDER_H

#include "onnx/onnx_pb.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <vector>

namespace llmc {

/// The values that graph attributes use from enclosing graphs, found once per graph.
class Captures {
public:
  /// Names that `graph` uses and doesn't define, each once, in order of use.
  llvm::ArrayRef<llvm::StringRef> of(const ::onnx::GraphProto &graph);
  /// Calls `use` with each value name that `node` needs, directly or in its graph attributes.
  void forEachUse(const ::onnx::NodeProto &node, llvm::function_ref<void(llvm::StringRef)> use);

private:
  llvm::DenseMap<const ::onnx::GraphProto *, std::unique_ptr<std::vector<llvm::StringRef>>> known;
};

struct NodeOrder {
  std::vector<int> order; // indices of nodes, each once unless there is a cycle
  std::vector<int> cycle; // nodes that need each other in this order; empty if none do
};

NodeOrder orderNodes(const google::protobuf::RepeatedPtrField<::onnx::NodeProto> &nodes,
                     Captures &captures);

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_NODEORDER_H
