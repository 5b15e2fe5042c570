// SPDX-License-Identifier: Apache-2.0
//
// Puts the families' rows together and finds the row for a node.
#include "compiler/onnx/OpTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <tuple>
#include <vector>

using namespace mlir;

namespace llmc::onnx {

static auto keyOf(const OpRow &row) {
  return std::tuple(StringRef(row.domain), StringRef(row.op), int64_t(row.since));
}

ArrayRef<OpRow> allRows() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (ArrayRef<OpRow> family :
         {attentionRows(), contribAttentionRows(), contribRows(), controlRows(), convRows(),
          elementwiseRows(), indexRows(), mathRows(), normRows(), quantRows(), shapeRows()})
      all.insert(all.end(), family.begin(), family.end());
    llvm::sort(all, [](const OpRow &a, const OpRow &b) { return keyOf(a) < keyOf(b); });
    return all;
  }();
  return rows;
}

const OpRow *findRow(StringRef domain, StringRef op, int64_t version) {
  if (domain.empty() && version > kNewestOpset)
    return nullptr;
  auto rows = allRows();
  auto next = llvm::partition_point(
      rows, [&](const OpRow &row) { return keyOf(row) <= std::tuple(domain, op, version); });
  if (next == rows.begin())
    return nullptr;
  const OpRow &row = *std::prev(next);
  return domain == row.domain && op == row.op ? &row : nullptr;
}

void printSupportTable(raw_ostream &os) {
  os << "# ONNX operators\n\nPrinted from the op table. \"since\" is the opset in which the "
        "behaviour began; a row holds\nuntil the next one of its operator, the last one until "
        "opset "
     << kNewestOpset
     << ".\n\n| domain | operator | since | supported | remarks |\n|---|---|---|---|---|\n";
  for (const OpRow &row : allRows())
    os << "| " << (*row.domain ? row.domain : "ai.onnx") << " | " << row.op << " | " << row.since
       << " | " << (row.lower ? "yes" : "no") << " | " << row.note << " |\n";
}

} // namespace llmc::onnx
