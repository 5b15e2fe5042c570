// SPDX-License-Identifier: Apache-2.0
//
// Locations are ONNX node names; a file and line mean a .mlir file.
#include "tools/llmc/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc::cli {

/// The name of the node a location stands for, empty when it has none.
static std::string nodeName(mlir::Location location) {
  std::string name;
  location->walk([&](mlir::Location inner) {
    auto named = llvm::dyn_cast<mlir::NameLoc>(inner);
    if (!named)
      return mlir::WalkResult::advance();
    name = named.getName().str();
    return mlir::WalkResult::interrupt();
  });
  return name;
}

static const char *severityName(mlir::DiagnosticSeverity severity) {
  switch (severity) {
  case mlir::DiagnosticSeverity::Error:
    return "error";
  case mlir::DiagnosticSeverity::Warning:
    return "warning";
  case mlir::DiagnosticSeverity::Remark:
    return "remark";
  case mlir::DiagnosticSeverity::Note:
    return "note";
  }
  return "note";
}

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext &context, bool json)
    : json(json), handler(&context, [this](mlir::Diagnostic &diagnostic) {
        print(diagnostic);
        return mlir::success();
      }) {
  // The op that a message is about can be the whole program.
  context.printOpOnDiagnostic(false);
}

void DiagnosticPrinter::print(mlir::Diagnostic &diagnostic) {
  errorCount += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
  std::string message = diagnostic.str(), code;
  llvm::StringRef rest = message;
  if (rest.consume_front("[LLMC")) {
    auto [digits, after] = rest.split(']');
    code = "LLMC" + digits.str();
    message = after.ltrim().str();
  }
  std::string node = nodeName(diagnostic.getLocation());
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark &&
      !remarks.insert(node + '\n' + message).second)
    return;
  if (json) {
    llvm::json::Object line{{"severity", severityName(diagnostic.getSeverity())},
                            {"message", message}};
    if (!code.empty())
      line["code"] = code;
    if (!node.empty())
      line["node"] = node;
    llvm::json::Array notes;
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      notes.push_back(note.str());
    if (!notes.empty())
      line["notes"] = std::move(notes);
    llvm::errs() << llvm::json::Value(std::move(line)) << '\n';
    return;
  }
  llvm::errs() << severityName(diagnostic.getSeverity());
  if (!code.empty())
    llvm::errs() << '[' << code << ']';
  llvm::errs() << ": ";
  if (!node.empty())
    llvm::errs() << "node '" << node << "': ";
  llvm::errs() << message << '\n';
  for (mlir::Diagnostic &note : diagnostic.getNotes()) {
    // Notes of lists name their nodes themselves.
    std::string where = nodeName(note.getLocation()), text = note.str();
    if (!where.empty() && where != node && !llvm::StringRef(text).starts_with("node '"))
      text = "node '" + where + "': " + text;
    llvm::errs() << "  note: " << text << '\n';
  }
}

} // namespace llmc::cli
