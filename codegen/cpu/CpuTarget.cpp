// SPDX-License-Identifier: Apache-2.0
//
// Compiles the kernels of a program, in parallel and for each level, and links
// one image per level.
#include "codegen/cpu/CpuTarget.h"

#include "codegen/cpu/AttentionKernels.h"
#include "codegen/cpu/CpuImage.h"
#include "codegen/cpu/GenericKernels.h"
#include "codegen/cpu/MatmulKernels.h"
#include "codegen/cpu/QuantMatmulKernels.h"
#include "codegen/cpu/QuantPacking.h"
#include "codegen/cpu/QuantizeKernels.h"
#include "codegen/cpu/VectorKernels.h"
#include "codegen/cpu/WeightPacking.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

using namespace mlir;

namespace llmc::cpu {

void registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

namespace {

class CpuTarget final : public Target {
public:
  StringRef name() const override { return "cpu"; }

  llvm::Expected<std::vector<std::string>> parseLevels(StringRef list) const override {
    std::vector<std::string> levels;
    SmallVector<StringRef> names;
    list.split(names, ',');
    for (StringRef name : names) {
      name = name.trim();
      const IsaLevel *level = name == "host" ? &hostIsaLevel() : findIsaLevel(name);
      if (!level) {
        std::string known = "host";
        for (const IsaLevel &candidate : isaLevels())
          known += ", " + candidate.name.str();
        return llvm::createStringError("unknown target '" + name + "'; known are " + known);
      }
      if (!llvm::is_contained(levels, level->name))
        levels.push_back(level->name.str());
    }
    return levels;
  }

  std::string weightLayout(Operation *op, unsigned operand) const override {
    // Every kernel can read quantized weights, if only element by element.
    if (std::optional<WeightFormat> format = formatOf(op->getOperand(operand).getType()))
      return quantLayoutFor(*format).str();
    return matmulWeightLayout(op, operand);
  }

  std::unique_ptr<WeightTransform> packing(StringRef layout, bool transposed) const override {
    if (std::optional<QuantLayout> quantized = QuantLayout::parse(layout))
      return packQuantized(*quantized);
    return packColumns(layout, transposed);
  }

  FailureOr<std::vector<CodeImage>> emit(ModuleOp program,
                                         const EmitOptions &options) const override;

private:
  /// One kernel's object for one level; empty after a diagnostic.
  static std::string compileKernel(rt::KernelOp kernel, const IsaLevel &isa, bool tuned,
                                   uint64_t &scratchBytes);
};

static LogicalResult emitBody(KernelEmitter &emitter, bool tuned) {
  if (tuned && isPackedMatmul(emitter.kernel))
    return emitPackedMatmul(emitter);
  if (tuned && isQuantMatmul(emitter.kernel))
    return emitQuantMatmul(emitter);
  if (isQuantize(emitter.kernel))
    return emitQuantize(emitter), success();
  if (tuned && isTiledAttention(emitter.kernel))
    return emitTiledAttention(emitter);
  if (tuned && isVectorKernel(emitter))
    return emitVectorKernel(emitter);
  return emitGenericKernel(emitter);
}

std::string CpuTarget::compileKernel(rt::KernelOp kernel, const IsaLevel &isa, bool tuned,
                                     uint64_t &scratchBytes) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  KernelEmitter emitter(*module, kernel, isa);
  if (failed(emitBody(emitter, tuned)))
    return {};
  emitter.finish();
  scratchBytes = emitter.scratchBytes;
  if (failed(lowerToLlvm(*module)))
    return {};
  llvm::Expected<std::string> object = compileObject(*module, isa);
  if (!object) {
    kernel.emitError(llvm::toString(object.takeError()));
    return {};
  }
  return std::move(*object);
}

FailureOr<std::vector<CodeImage>> CpuTarget::emit(ModuleOp program,
                                                  const EmitOptions &options) const {
  auto kernels = llvm::to_vector(program.getOps<rt::KernelOp>());
  // Passes load the dialects they produce, which several threads must not do at once: an empty
  // module loads them here.
  OwningOpRef<ModuleOp> empty = ModuleOp::create(program.getLoc());
  if (failed(lowerToLlvm(*empty)))
    return failure();
  std::vector<CodeImage> images;
  for (const std::string &levelName : options.levels) {
    const IsaLevel *isa = findIsaLevel(levelName);
    assert(isa && "levels come from parseLevels");
    IsaLevel machine = options.emulate ? emulatedIsaLevel(*isa) : *isa;
    std::vector<std::string> objects(kernels.size());
    std::vector<uint64_t> scratch(kernels.size());
    parallelFor(program.getContext(), 0, kernels.size(), [&](size_t i) {
      objects[i] = compileKernel(kernels[i], machine, options.tunedKernels, scratch[i]);
    });
    if (llvm::any_of(objects, [](const std::string &object) { return object.empty(); }))
      return failure();
    for (auto [kernel, bytes] : llvm::zip_equal(kernels, scratch)) {
      auto known = kernel->getAttrOfType<IntegerAttr>("rt.scratch");
      uint64_t most = std::max(bytes, known ? uint64_t(known.getInt()) : 0);
      if (most)
        kernel->setAttr("rt.scratch",
                        IntegerAttr::get(IntegerType::get(program.getContext(), 64), most));
    }
    llvm::Expected<std::string> version = compileVersionObject(machine);
    if (!version)
      return program.emitError(llvm::toString(version.takeError())), failure();
    objects.push_back(std::move(*version));
    llvm::Expected<std::string> image = linkImage(objects);
    if (!image)
      return program.emitError(llvm::toString(image.takeError())), failure();
    std::string entry = ("code/" + isa->arch + "-" + isa->name + ".so").str();
    images.push_back({entry, "cpu", isa->arch.str(), isa->name.str(), std::move(*image)});
  }
  return images;
}

} // namespace

std::unique_ptr<const Target> createCpuTarget() { return std::make_unique<CpuTarget>(); }

} // namespace llmc::cpu
