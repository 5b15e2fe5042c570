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

/// More repetitions than these would fill the program with copies.
constexpr int64_t kMaxRepetitions = 256;

/// A truth value that is known now.
std::optional<bool> knownTruth(Tensor x) {
  const Content *content = x ? x.content() : nullptr;
  if (!content || content->elements.size() != 1)
    return std::nullopt;
  std::optional<int64_t> value = content->elements[0].integer();
  return value ? std::optional(*value != 0) : std::nullopt;
}

/// Repeats the body while it can be told that it goes on.
LogicalResult loop(Lowering &l) {
  std::optional<int64_t> most;
  if (l.has(0)) {
    std::optional<int64_t> count = l.knownInt(0, "the number of repetitions");
    if (!count)
      return failure();
    most = std::max<int64_t>(*count, 0);
  }
  std::optional<bool> goesOn = l.has(1) ? knownTruth(l.input(1)) : true;
  if (l.failed())
    return failure();
  if (l.node.getBodies().size() != 1)
    return l.result(l.fail(1203, "Loop needs a body"));
  Region &body = l.node.getBodies().front();
  SmallVector<Tensor> carried;
  for (unsigned i = 2; i < l.numInputs(); ++i)
    carried.push_back(l.input(i));
  if (llvm::any_of(carried, [](Tensor t) { return !t; }))
    return failure();
  SmallVector<SmallVector<Tensor>> scans;
  for (int64_t i = 0; !most || i < *most; ++i) {
    if (!goesOn)
      return l.result(l.fail(1208, "Loop with a condition that is known only at run time isn't "
                                   "supported yet"));
    if (!*goesOn)
      break;
    if (i == kMaxRepetitions)
      return l.result(l.fail(1208, "Loop with more than " + Twine(kMaxRepetitions) +
                                       " repetitions isn't supported yet"));
    SmallVector<Tensor> inputs{l.integer(l.size(i), l.i64()), l.scalar(1, l.i1())};
    inputs.append(carried);
    std::optional<SmallVector<Tensor>> results = l.lowerBody(body, inputs);
    if (!results)
      return failure();
    if (results->size() < 1 + carried.size())
      return l.result(l.fail(1203, "the body of Loop gives fewer values than it carries"));
    goesOn = knownTruth(results->front());
    carried.assign(results->begin() + 1, results->begin() + 1 + carried.size());
    scans.resize(results->size() - 1 - carried.size());
    for (auto [scan, value] :
         llvm::zip_equal(scans, ArrayRef(*results).drop_front(1 + carried.size())))
      scan.push_back(l.unsqueeze(value, 0));
  }
  SmallVector<Tensor> outputs = carried;
  for (SmallVector<Tensor> &scan : scans)
    outputs.push_back(l.concat(0, scan));
  if (outputs.size() < l.node.getOutputs().size())
    return l.result(l.fail(1208, "the outputs of Loop without a repetition have no known shape"));
  return l.results(outputs);
}

constexpr const char *kLater = "control flow at run time isn't supported yet";
constexpr const char *kDataSize = "its result's size depends on data, which isn't supported yet";

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {"", "Compress",          9,  nullptr, kDataSize},
    {"", "If",                1,  ifOp, "conditions known at compile time"},
    {"", "Loop",              1,  loop, "repetitions that are known at compile time, at most 256"},
    {"", "NonMaxSuppression", 10, nullptr, kDataSize},
    {"", "NonZero",           9,  nullptr, kDataSize},
    {"", "Scan",              8,  nullptr, kLater},
    {"", "Unique",            11, nullptr, kDataSize},
};
// clang-format on

} // namespace

ArrayRef<OpRow> controlRows() { return kRows; }

} // namespace llmc::onnx
