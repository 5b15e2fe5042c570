// SPDX-License-Identifier: Apache-2.0
//
// LLVM and lld in process. Objects pass through memory files, so that nothing
// is left behind when a compile is killed.
#include "codegen/cpu/CpuImage.h"

#include "runtime/abi/KernelAbi.h"

#include "lld/Common/Driver.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace mlir;

namespace llmc::cpu {

LogicalResult lowerToLlvm(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false); // after the first pass every step is upstream's own
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

static llvm::Error failure(const llvm::Twine &text) {
  return llvm::createStringError("[LLMC2010] " + text);
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(const IsaLevel &isa) {
  static std::once_flag initialized; // LLVM's own table of back ends is global
  std::call_once(initialized, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
  });
  llvm::Triple triple(isa.triple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return failure("this LLVM has no back end for " + isa.triple + ": " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, isa.cpu, isa.extras, options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return failure("LLVM knows no CPU '" + isa.cpu + "'");
  return machine;
}

static llvm::Expected<std::string> emitObject(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return failure("LLVM cannot write object files for this CPU");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

llvm::Expected<std::string> compileObject(ModuleOp source, const IsaLevel &isa) {
  auto machine = createMachine(isa);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(source, context, "kernel");
  if (!module)
    return failure("a kernel could not be translated to LLVM IR");
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    // No library is there to call, so loops must not become calls of memset and the like.
    function.addFnAttr("no-builtins");
    function.addFnAttr("target-cpu", isa.cpu);
    function.addFnAttr("tune-cpu", isa.tune);
    if (!isa.extras.empty())
      function.addFnAttr("target-features", isa.extras);
    if (isa.lanes == 16)
      function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (function.hasPrivateLinkage() || function.hasInternalLinkage())
      function.addFnAttr(llvm::Attribute::AlwaysInline);
  }

  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = true;
  llvm::PassBuilder builder(machine->get(), tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library((*machine)->getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(*module, modules);
  return emitObject(*module, **machine);
}

/// LLVM rounds to bf16 by a call where the machine has no instruction for it, and no library is
/// there to have it: half to even on the upper 16 bits, NaN stays NaN.
static void addBf16Rounding(llvm::Module &module) {
  llvm::LLVMContext &context = module.getContext();
  auto *type = llvm::FunctionType::get(llvm::Type::getBFloatTy(context),
                                       {llvm::Type::getFloatTy(context)}, /*isVarArg=*/false);
  auto *function =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "__truncsfbf2", module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", function));
  llvm::Value *x = function->getArg(0), *bits = b.CreateBitCast(x, b.getInt32Ty());
  llvm::Value *odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  llvm::Value *rounded = b.CreateAdd(bits, b.CreateAdd(odd, b.getInt32(0x7FFF)));
  llvm::Value *quiet = b.CreateOr(bits, b.getInt32(0x400000));
  rounded = b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded);
  llvm::Value *upper = b.CreateTrunc(b.CreateLShr(rounded, 16), b.getInt16Ty());
  b.CreateRet(b.CreateBitCast(upper, b.getBFloatTy()));
}

llvm::Expected<std::string> compileVersionObject(const IsaLevel &isa) {
  auto machine = createMachine(isa);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  llvm::Module module("abi", context);
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  llvm::Type *type = llvm::Type::getInt32Ty(context);
  new llvm::GlobalVariable(module, type, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantInt::get(type, LLMC_KERNEL_ABI_VERSION),
                           LLMC_KERNEL_ABI_SYMBOL);
  addBf16Rounding(module);
  return emitObject(module, **machine);
}

namespace {

/// An object file without a name, which lld opens by path.
class MemoryFile {
public:
  MemoryFile() : fd(memfd_create("llmc-object", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd >= 0)
      ::close(fd);
  }
  MemoryFile(MemoryFile &&other) : fd(std::exchange(other.fd, -1)) {}

  bool write(llvm::StringRef bytes) {
    while (fd >= 0 && !bytes.empty()) {
      ssize_t count = ::write(fd, bytes.data(), bytes.size());
      if (count <= 0)
        return false;
      bytes = bytes.drop_front(count);
    }
    return fd >= 0;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

private:
  int fd;
};

/// A pipe that lld writes its output to. It is no regular file, so lld makes no temporary beside
/// it.
class OutputPipe {
public:
  OutputPipe() {
    if (pipe2(ends, O_CLOEXEC) != 0)
      return;
    reader = std::thread([this] {
      char buffer[1 << 16];
      for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        bytes.append(buffer, count);
    });
  }
  ~OutputPipe() { finish(); }
  bool isOpen() const { return ends[1] >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(ends[1]); }
  /// Waits for everything that was written, once the writer is done.
  std::string finish() {
    if (isOpen()) {
      ::close(std::exchange(ends[1], -1));
      reader.join();
      ::close(std::exchange(ends[0], -1));
    }
    return std::move(bytes);
  }

private:
  int ends[2] = {-1, -1};
  std::thread reader;
  std::string bytes;
};

} // namespace

llvm::Expected<std::string> linkImage(llvm::ArrayRef<std::string> objects) {
  std::vector<MemoryFile> files(objects.size());
  OutputPipe output;
  std::vector<std::string> arguments = {"ld.lld",           "-shared",         "--no-undefined",
                                        "--hash-style=gnu", "--build-id=none", "-znoexecstack",
                                        "--strip-all",      "--threads=1",     "-o",
                                        output.path()};
  if (!output.isOpen())
    return failure("no pipe for the linker's output");
  for (auto [file, object] : llvm::zip_equal(files, objects)) {
    if (!file.write(object))
      return failure("no memory for object files");
    arguments.push_back(file.path());
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string text;
  llvm::raw_string_ostream messages(text);
  // lld keeps its state in globals; only one link may run at a time.
  static std::mutex linking;
  std::lock_guard<std::mutex> lock(linking);
  lld::Result result = lld::lldMain(pointers, messages, messages, {{lld::Gnu, &lld::elf::link}});
  std::string image = output.finish();
  if (result.retCode != 0 || image.empty())
    return failure("lld failed: " + llvm::StringRef(text).trim());
  return image;
}

} // namespace llmc::cpu
