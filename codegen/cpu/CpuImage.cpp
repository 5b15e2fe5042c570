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
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
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
      target->createTargetMachine(triple, isa.cpu, "", options, llvm::Reloc::PIC_, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
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
  return emitObject(module, **machine);
}

namespace {

/// A file without a name, which other code in this process can open by path.
class MemoryFile {
public:
  explicit MemoryFile(const char *label) : fd(memfd_create(label, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd >= 0)
      ::close(fd);
  }
  MemoryFile(MemoryFile &&other) : fd(std::exchange(other.fd, -1)) {}

  bool write(llvm::StringRef bytes) {
    while (!bytes.empty()) {
      ssize_t count = ::write(fd, bytes.data(), bytes.size());
      if (count <= 0)
        return false;
      bytes = bytes.drop_front(count);
    }
    return fd >= 0;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }
  llvm::Expected<std::string> read() const {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0)
      return failure("a memory file could not be read");
    std::string bytes(info.st_size, 0);
    for (size_t done = 0; done < bytes.size();) {
      ssize_t count = ::pread(fd, bytes.data() + done, bytes.size() - done, done);
      if (count <= 0)
        return failure("a memory file could not be read");
      done += count;
    }
    return bytes;
  }

private:
  int fd;
};

} // namespace

llvm::Expected<std::string> linkImage(llvm::ArrayRef<std::string> objects) {
  std::vector<MemoryFile> files;
  MemoryFile output("llmc-image");
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "--no-undefined",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "-znoexecstack",
                                        "-zmax-page-size=4096",
                                        "--no-mmap-output-file",
                                        "--strip-all",
                                        "--threads=1",
                                        "-o",
                                        output.path()};
  for (const std::string &object : objects) {
    if (!files.emplace_back("llmc-object").write(object))
      return failure("no memory for object files");
    arguments.push_back(files.back().path());
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
  if (result.retCode != 0)
    return failure("lld failed: " + llvm::StringRef(text).trim());
  return output.read();
}

} // namespace llmc::cpu
