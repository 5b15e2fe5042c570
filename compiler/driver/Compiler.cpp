// SPDX-License-Identifier: Apache-2.0
//
// The sequence of a compile. This is the one place where an llvm::Error
// becomes a diagnostic and where it is decided whose fault a failure is.
#include "compiler/driver/Compiler.h"

#include "compiler/bundle/BundleWriter.h"
#include "compiler/bundle/GenerationCompiler.h"
#include "compiler/bundle/TokenizerCompiler.h"
#include "compiler/driver/ImportedWeights.h"
#include "compiler/driver/ModelFolder.h"
#include "compiler/ir/onnx/OnnxDialect.h"
#include "compiler/ir/rt/RtDialect.h"
#include "compiler/onnx/LegalizeOnnx.h"
#include "compiler/onnx/OnnxImporter.h"
#include "runtime/abi/BundleFormat.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/Path.h"

#include <chrono>

using namespace mlir;

namespace llmc {

void registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<onnx::OnnxDialect, llm::LlmDialect, rt::RtDialect, func::FuncDialect>();
}

namespace {

class Compilation {
public:
  Compilation(const CompileOptions &options, MLIRContext &context, const CompileEvents &events,
              CompileSummary &summary)
      : options(options), context(context), events(events), summary(summary) {}

  Outcome run(std::string *printed);

private:
  Outcome fail(llvm::Error error);
  Outcome import();
  Outcome legalize();
  Outcome graph();
  Outcome codegen();
  Outcome bundle();
  Outcome addTokenizer(BundleContents &contents);
  LogicalResult runPasses(llvm::function_ref<LogicalResult(PassManager &)> fill);

  const CompileOptions &options;
  MLIRContext &context;
  const CompileEvents &events;
  CompileSummary &summary;

  ModelFolder folder;
  WeightStore weights;
  std::unique_ptr<OnnxModel> model;
  OwningOpRef<ModuleOp> module;
  const Target *target = nullptr;
  EmitOptions emitOptions;
  std::vector<CodeImage> images;
};

/// Errors of the machine carry an errno other than "invalid"; the rest is the model's fault.
Outcome Compilation::fail(llvm::Error error) {
  Outcome outcome = Outcome::ModelError;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    std::error_code code = info.convertToErrorCode();
    if (code != std::errc::invalid_argument && code != llvm::inconvertibleErrorCode())
      outcome = Outcome::EnvironmentError;
    emitError(UnknownLoc::get(&context)) << info.message();
  });
  return outcome;
}

LogicalResult Compilation::runPasses(llvm::function_ref<LogicalResult(PassManager &)> fill) {
  PassManager passes(&context);
  if (!options.printAfter.empty()) {
    context.disableMultithreading(); // printing wants one pass at a time
    passes.enableIRPrinting([](Pass *, Operation *) { return false; },
                            [this](Pass *pass, Operation *) {
                              return llvm::is_contained(options.printAfter,
                                                        pass->getArgument().str());
                            },
                            /*printModuleScope=*/true, /*printAfterOnlyOnChange=*/false,
                            /*printAfterOnlyOnFailure=*/false, llvm::errs());
  }
  if (options.timing)
    passes.enableTiming();
  if (failed(fill(passes)))
    return failure();
  return passes.run(*module);
}

Outcome Compilation::import() {
  llvm::Expected<ModelFolder> found = ModelFolder::find(options.input);
  if (!found)
    return fail(found.takeError());
  folder = std::move(*found);
  llvm::Expected<std::unique_ptr<OnnxModel>> opened = OnnxReader::open(folder.model);
  if (!opened)
    return fail(opened.takeError());
  model = std::move(*opened);
  module = importOnnx(*model, weights, &context);
  return module ? Outcome::Done : Outcome::ModelError;
}

Outcome Compilation::legalize() {
  LogicalResult result = runPasses([&](PassManager &passes) {
    passes.addPass(onnx::createLegalizeOnnx());
    return success();
  });
  if (failed(result))
    return Outcome::ModelError;
  if (failed(resolveImportedWeights(*module, weights)))
    return Outcome::ModelError;
  for (auto function : module->getOps<func::FuncOp>())
    if (!function.isDeclaration())
      function->setAttr("rt.entry", StringAttr::get(&context, "run"));
  return Outcome::Done;
}

Outcome Compilation::graph() {
  const PassPipelineInfo *pipeline = PassPipelineInfo::lookup("llmc-graph");
  if (!pipeline)
    return fail(
        llvm::createStringError("[LLMC1510] this program was built without the graph passes"));
  std::string settings = std::string("optimize=") + (options.optimize ? "true" : "false") +
                         " weights={" + options.weights + "} kv-cache=" + options.kvCache;
  if (!options.deviceMap.empty())
    settings += " devices={" + options.deviceMap + "}";
  if (options.remarks)
    settings += " remarks=true";
  LogicalResult result = runPasses([&](PassManager &passes) {
    return pipeline->addToPipeline(passes, settings, [&](const Twine &text) {
      return emitError(UnknownLoc::get(&context)) << text, failure();
    });
  });
  if (failed(result))
    return Outcome::ModelError;
  SymbolTable kernels(*module);
  module->walk([&](rt::DispatchOp dispatch) {
    auto kernel = kernels.lookup<rt::KernelOp>(dispatch.getKernel());
    ++summary.calls[kernel.getLabel().split(' ').first.str()];
    ++summary.dispatches;
  });
  summary.kernels = llvm::range_size(module->getOps<rt::KernelOp>());
  for (auto function : module->getOps<func::FuncOp>())
    if (auto kind = function->getAttrOfType<StringAttr>("rt.entry"))
      summary.entries.push_back(kind.getValue().str());
  return Outcome::Done;
}

Outcome Compilation::codegen() {
  FailureOr<std::vector<CodeImage>> emitted = target->emit(*module, emitOptions);
  if (failed(emitted))
    return Outcome::ModelError;
  images = std::move(*emitted);
  return Outcome::Done;
}

Outcome Compilation::addTokenizer(BundleContents &contents) {
  NamedTokens named;
  if (!folder.tokenizer.empty()) {
    TokenizerCompileResult compiled = compileTokenizer(folder.tokenizer, folder.tokenizerConfig);
    if (compiled.outcome == TokenizerCompileResult::Invalid)
      return fail(llvm::createStringError("[LLMC1511] " + compiled.message));
    if (compiled.outcome == TokenizerCompileResult::Compiled)
      contents.extraEntries[LLMC_ENTRY_TOKENIZER] = std::move(compiled.bytes);
    else
      summary.notes.push_back("no tokenizer in the bundle: " + compiled.message);
    named = compiled.named;
  }
  GenerationCompileResult generation =
      compileGeneration(folder.generationConfig, folder.config, named);
  if (!generation.message.empty())
    return fail(llvm::createStringError("[LLMC1512] " + generation.message));
  contents.extraEntries[LLMC_ENTRY_GENERATION] = std::move(generation.bytes);
  return Outcome::Done;
}

Outcome Compilation::bundle() {
  BundleContents contents;
  contents.program = *module;
  contents.weights = &weights;
  contents.target = target;
  contents.images = std::move(images);
  contents.modelName = folder.name;
  contents.maxContext = options.maxContext ? options.maxContext : folder.contextLength();
  if (Outcome outcome = addTokenizer(contents); outcome != Outcome::Done)
    return outcome;
  std::map<std::string, std::string> files = folder.files;
  files[llvm::sys::path::filename(folder.model).str()] = folder.model;
  for (const std::string &file : weights.files())
    files[llvm::sys::path::filename(file).str()] = file;
  for (auto &[name, path] : files) {
    llvm::Expected<std::string> hash = hashFile(path);
    if (!hash)
      return fail(hash.takeError());
    contents.inputHashes[name] = *hash;
  }
  llvm::Expected<BundleSummary> written =
      writeBundle(options.output, contents, events.weightsWritten);
  if (!written)
    return fail(written.takeError());
  summary.fileSize = written->fileSize;
  summary.weightBytes = written->weightBytes;
  return Outcome::Done;
}

Outcome Compilation::run(std::string *printed) {
  context.loadAllAvailableDialects();
  target = TargetSet::find(&context, "cpu");
  if (!target)
    return fail(llvm::createStringError("[LLMC1513] this program was built without targets"));
  llvm::Expected<std::vector<std::string>> levels = target->parseLevels(options.target);
  if (!levels)
    return fail(levels.takeError());
  emitOptions.levels = std::move(*levels);
  emitOptions.tunedKernels = options.optimize;

  struct Step {
    Stage stage;
    const char *what;
    Outcome (Compilation::*act)();
  };
  static constexpr Step kSteps[] = {
      {Stage::Import, "Importing", &Compilation::import},
      {Stage::Legalize, "Legalizing operators", &Compilation::legalize},
      {Stage::Graph, "Optimizing the graph", &Compilation::graph},
      {Stage::Codegen, "Generating code", &Compilation::codegen},
      {Stage::Bundle, "Writing the bundle", &Compilation::bundle},
  };
  for (auto [i, step] : llvm::enumerate(kSteps)) {
    if (events.stepStarted)
      events.stepStarted(i + 1, std::size(kSteps), step.what);
    auto start = std::chrono::steady_clock::now();
    if (Outcome outcome = (this->*step.act)(); outcome != Outcome::Done)
      return outcome;
    if (events.stepFinished)
      events.stepFinished(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (step.stage == options.stopAfter)
      break;
  }
  if (printed && options.stopAfter != Stage::Bundle)
    llvm::raw_string_ostream(*printed) << *module;
  return Outcome::Done;
}

} // namespace

Outcome compileModel(const CompileOptions &options, MLIRContext &context,
                     const CompileEvents &events, CompileSummary &summary, std::string *printed) {
  return Compilation(options, context, events, summary).run(printed);
}

} // namespace llmc
