// SPDX-License-Identifier: Apache-2.0
//
// Checks what holds for the whole model, makes module and @main, and is the
// edge that no exception of protobuf crosses.
#include "compiler/onnx/OnnxImporter.h"

#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/GraphImporter.h"

#include <exception>

using namespace mlir;

namespace llmc {
namespace {

constexpr int64_t kMinIrVersion = 3, kMaxIrVersion = 14;

OwningOpRef<ModuleOp> importModel(OnnxModel::Data &model, WeightStore &store,
                                  ImportDiagnostics &diagnostics, MLIRContext *context) {
  OpBuilder builder(context);
  const pb::ModelProto &proto = model.proto;
  Location location = NameLoc::get(builder.getStringAttr(model.path));
  if (proto.ir_version() < kMinIrVersion || proto.ir_version() > kMaxIrVersion) {
    diagnostics.error(location, 1010,
                      "IR version " + llvm::Twine(proto.ir_version()) +
                          " of the model is not among those supported, " +
                          llvm::Twine(kMinIrVersion) + " to " + llvm::Twine(kMaxIrVersion));
    return nullptr;
  }
  if (model.hasFolder)
    store.recordFile(model.path);
  LocalFunctions functions(proto);
  functions.check(diagnostics, location);
  if (diagnostics.hasErrors())
    return nullptr;

  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  builder.setInsertionPointToEnd(module->getBody());
  auto main = func::FuncOp::create(builder, location, "main", builder.getFunctionType({}, {}));
  GraphImporter importer(model, store, diagnostics, functions, context);
  Opsets opsets = importer.importOpsets(proto.opset_import(), location);
  importer.importMain(main, opsets);

  NamedAttrList versions;
  for (const auto &entry : opsets)
    versions.set(entry.first().empty() ? "ai.onnx" : entry.first(),
                 builder.getI64IntegerAttr(entry.second));
  std::string producer = proto.producer_name();
  if (!proto.producer_version().empty())
    producer += " " + proto.producer_version();
  (*module)->setAttr(onnx::kIrVersionAttr, builder.getI64IntegerAttr(proto.ir_version()));
  (*module)->setAttr(onnx::kOpsetsAttr, versions.getDictionary(context));
  (*module)->setAttr(onnx::kProducerAttr, builder.getStringAttr(producer));
  return module;
}

} // namespace

OwningOpRef<ModuleOp> importOnnx(OnnxModel &model, WeightStore &store, MLIRContext *context) {
  context->loadDialect<func::FuncDialect, onnx::OnnxDialect>();
  ImportDiagnostics diagnostics;
  try {
    OwningOpRef<ModuleOp> module = importModel(model.data(), store, diagnostics, context);
    return diagnostics.hasErrors() ? nullptr : std::move(module);
  } catch (const std::exception &error) {
    emitError(UnknownLoc::get(context))
        << "[LLMC1098] '" << model.path() << "' cannot be imported: " << error.what();
    return nullptr;
  }
}

} // namespace llmc
