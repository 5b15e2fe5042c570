// SPDX-License-Identifier: Apache-2.0
//
// The model is imported twice: here, to see its operators, and by the driver.
#include "tests/conformance/onnx/NodeTest.h"

#include "compiler/driver/Compiler.h"
#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/onnx/OnnxImporter.h"
#include "compiler/onnx/OpTable.h"
#include "tools/cli/ModelRun.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <filesystem>

namespace llmc::conformance {

namespace {

/// The first of the errors reported while it lives.
class FirstError {
public:
  explicit FirstError(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (text.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            text = diagnostic.str();
          return mlir::success();
        }) {}
  const std::string &message() const { return text; }

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

/// The operators that no row of the table lowers, with a blank between them; nothing when the
/// model can't be imported.
std::optional<std::string> missingOps(const std::string &file, mlir::MLIRContext &context) {
  auto model = OnnxReader::open(file);
  if (!model) {
    emitError(mlir::UnknownLoc::get(&context)) << toString(model.takeError());
    return std::nullopt;
  }
  WeightStore weights;
  mlir::OwningOpRef<mlir::ModuleOp> module = importOnnx(**model, weights, &context);
  if (!module)
    return std::nullopt;
  std::string missing;
  module->walk([&](onnx::NodeOp node) {
    const onnx::OpRow *row =
        onnx::findRow(node.getDomain(), node.getOpType(), int64_t(node.getVersion()));
    if (!row || !row->lower)
      missing += (missing.empty() ? "" : " ") + node.getOpType().str();
  });
  return missing;
}

/// onnx's own bounds, which are too tight for the narrow types: bf16 may be off by two units in the
/// last place, since the expected values come from rounding after other steps than ours.
cli::Tolerance toleranceFor(Dtype dtype) {
  switch (dtype) {
  case Dtype::F16:
    return {.rtol = 1e-3, .atol = 1e-3};
  case Dtype::BF16:
    return {.rtol = 1.0 / 64, .atol = 1e-7};
  default:
    return {.rtol = 1e-3, .atol = 1e-7};
  }
}

Status runDataSet(cli::ModelRun &run, const std::string &folder) {
  LLMC_TRY_ASSIGN(cli::TensorSet inputs,
                  cli::readTensorSet(folder, run.inputs(), cli::Side::Inputs));
  LLMC_TRY_ASSIGN(cli::TensorSet expected,
                  cli::readTensorSet(folder, run.outputs(), cli::Side::Outputs));
  if (expected.tensors.size() != run.outputs().size())
    return Status::error(Code::Internal, "{} outputs in the data set, {} in the bundle",
                         expected.tensors.size(), run.outputs().size());
  LLMC_TRY(run.bind(inputs.tensors));
  LLMC_TRY(run.run());
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    const cli::OwnedTensor &want = expected.tensors[i];
    cli::Comparison compared =
        cli::compareTensors(run.results()[i], want, nullptr, toleranceFor(want.dtype));
    if (!compared.equal)
      return Status::error(Code::Internal, "output '{}': {}", want.name, compared.text);
  }
  return Status::ok();
}

Status runDataSets(const Settings &settings, const std::string &folder, const std::string &bundle) {
  ModelOptions options;
  options.threads = settings.threads;
  LLMC_TRY_ASSIGN(std::shared_ptr<Model> model, Model::open(bundle, options));
  LLMC_TRY_ASSIGN(cli::ModelRun run, cli::ModelRun::create(*model));
  unsigned sets = 0;
  for (;; ++sets) {
    std::string data = folder + "/test_data_set_" + std::to_string(sets);
    if (!std::filesystem::exists(data))
      break;
    LLMC_TRY(runDataSet(run, data));
  }
  if (sets == 0)
    return Status::error(Code::NotFound, "the test has no data sets");
  return Status::ok();
}

} // namespace

TestResult runNodeTest(const Settings &settings, const std::string &name, const std::string &bundle,
                       mlir::MLIRContext &context) {
  FirstError error(context);
  std::string folder = settings.tests + "/" + name;
  CompileOptions options;
  options.input = folder + "/model.onnx";
  options.output = bundle;
  options.target = settings.target;
  options.optimize = settings.optimize;

  std::optional<std::string> missing = missingOps(options.input, context);
  if (!missing)
    return {Verdict::Refused, error.message()};
  if (!missing->empty())
    return {Verdict::NotInTable, *missing};
  CompileSummary summary;
  if (compileModel(options, context, {}, summary, nullptr) != Outcome::Done)
    return {Verdict::Refused, error.message()};
  if (Status status = runDataSets(settings, folder, bundle); !status.isOk())
    return {Verdict::Wrong, status.message()};
  return {Verdict::Passed, ""};
}

} // namespace llmc::conformance
