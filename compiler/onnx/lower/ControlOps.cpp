// SPDX-License-Identifier: Apache-2.0
//
// Rows of control flow, and of ops whose result sizes depend on data. Branches
// on a constant are taken here; the rest is refused by name.
#include "compiler/onnx/Legalizer.h"
#include "compiler/onnx/OpTable.h"

using namespace mlir;

namespace llmc::onnx {
namespace {

LogicalResult ifOp(Lowering &l) {
  Tensor condition = l.input(0);
  if (!condition)
    return failure();
  const Content *content = condition.content();
  std::optional<int64_t> taken;
  if (content && content->elements.size() == 1)
    taken = content->elements[0].integer();
  if (!taken)
    return l.result(l.fail(1208, "If with a condition that is known only at run time isn't "
                                 "supported yet"));
  StringRef wanted = *taken ? "then_branch" : "else_branch";
  for (auto [name, body] : llvm::zip_equal(l.node.getRegionNames(), l.node.getBodies()))
    if (cast<StringAttr>(name).getValue() == wanted)
      return l.inlineBody(body);
  return l.result(l.fail(1203, "If has no " + wanted));
}

constexpr const char *kLater = "control flow at run time isn't supported yet";
constexpr const char *kDataSize = "its result's size depends on data, which isn't supported yet";

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {"", "Compress",          9,  nullptr, kDataSize},
    {"", "If",                1,  ifOp, "conditions known at compile time"},
    {"", "Loop",              1,  nullptr, kLater},
    {"", "NonMaxSuppression", 10, nullptr, kDataSize},
    {"", "NonZero",           9,  nullptr, kDataSize},
    {"", "Scan",              8,  nullptr, kLater},
    {"", "Unique",            11, nullptr, kDataSize},
};
// clang-format on

} // namespace

ArrayRef<OpRow> controlRows() { return kRows; }

} // namespace llmc::onnx
