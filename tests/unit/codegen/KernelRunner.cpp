// SPDX-License-Identifier: Apache-2.0
//
// See KernelRunner.h.
#include "tests/unit/codegen/KernelRunner.h"

#include "codegen/Targets.h"
#include "codegen/cpu/IsaLevel.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <iostream>
#include <sys/mman.h>
#include <unistd.h>

namespace llmc::test {

static std::unique_ptr<mlir::MLIRContext> makeContext() {
  mlir::DialectRegistry registry;
  registry.insert<rt::RtDialect, llm::LlmDialect>();
  registerTargets(registry);
  auto context = std::make_unique<mlir::MLIRContext>(registry);
  context->loadAllAvailableDialects();
  return context;
}

std::vector<Level> testLevels() {
  std::vector<Level> levels;
  bool above = false;
  for (const cpu::IsaLevel &level : cpu::isaLevels()) {
    levels.push_back({level.name.str(), above});
    if (above)
      std::cout << "[ emulated ] level " << level.name.str() << ": this machine lacks it\n";
    above |= level.name == cpu::hostIsaLevel().name;
  }
  return levels;
}

const Target &KernelRunner::target(mlir::MLIRContext *context) {
  return *TargetSet::find(context, "cpu");
}

std::unique_ptr<KernelRunner> KernelRunner::emit(const std::string &text, const Level &level) {
  std::unique_ptr<KernelRunner> runner(new KernelRunner());
  runner->context = makeContext();
  runner->module = mlir::parseSourceString<mlir::ModuleOp>(text, runner->context.get());
  if (!runner->module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return nullptr;
  }
  EmitOptions options;
  options.levels = {level.name};
  options.emulate = level.emulate;
  options.tunedKernels = level.tuned;
  auto images = target(runner->context.get()).emit(*runner->module, options);
  if (mlir::failed(images)) {
    ADD_FAILURE() << "does not compile:\n" << text;
    return nullptr;
  }
  runner->bytes = images->front().bytes;
  return runner;
}

std::string KernelRunner::compileImage(const std::string &text, const Level &level) {
  auto runner = emit(text, level);
  return runner ? runner->bytes : std::string();
}

std::unique_ptr<KernelRunner> KernelRunner::compile(const std::string &text, const Level &level) {
  auto runner = emit(text, level);
  if (!runner)
    return nullptr;
  int fd = memfd_create("kernels", MFD_CLOEXEC);
  EXPECT_EQ(::write(fd, runner->bytes.data(), runner->bytes.size()), ssize_t(runner->bytes.size()));
  runner->library = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(fd);
  if (!runner->library) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return runner;
}

KernelRunner::~KernelRunner() {
  if (library)
    dlclose(library);
}

llmc_kernel_fn KernelRunner::function(const std::string &kernel) const {
  return reinterpret_cast<llmc_kernel_fn>(dlsym(library, kernel.c_str()));
}

size_t KernelRunner::scratchBytes(const std::string &kernel) const {
  auto op = mlir::cast<rt::KernelOp>(mlir::ModuleOp(module.get()).lookupSymbol(kernel));
  auto bytes = op->getAttrOfType<mlir::IntegerAttr>("rt.scratch");
  return bytes ? size_t(bytes.getInt()) : 0;
}

int32_t KernelRunner::run(const std::string &kernel, std::vector<void *> buffers,
                          std::vector<int64_t> scalars, int64_t workers) const {
  llmc_kernel_fn call = function(kernel);
  if (!call) {
    ADD_FAILURE() << "no kernel " << kernel;
    return -1;
  }
  size_t size = (scratchBytes(kernel) + 63) / 64 * 64;
  std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, size + 64),
                                                      &std::free);
  std::memset(scratch.get(), 0xFF, size + 64); // NaN: kernels must not read what they didn't write
  llmc_kernel_args arguments = {buffers.data(), scalars.data(), scratch.get()};
  int32_t first = LLMC_KERNEL_OK;
  for (int64_t worker = 0; worker < workers; ++worker)
    if (int32_t code = call(&arguments, worker, workers); code && !first)
      first = code;
  return first;
}

std::vector<char> pack(const std::string &layout, bool transposed, ElementType element,
                       int64_t rows, int64_t columns, const void *source, size_t step) {
  auto context = makeContext();
  WeightStore store;
  WeightType type{element, {rows, columns}};
  auto bytes = static_cast<const char *>(source);
  auto plain = store.addOwned("w", type, std::string(bytes, type.byteSize()));
  if (!plain) {
    ADD_FAILURE() << llvm::toString(plain.takeError());
    return {};
  }
  auto packed = store.addTransformed(
      "p", KernelRunner::target(context.get()).packing(layout, transposed), {*plain});
  if (!packed) {
    ADD_FAILURE() << llvm::toString(packed.takeError());
    return {};
  }
  std::vector<char> out((*packed)->byteSize());
  for (size_t at = 0; at < out.size(); at += step)
    (*packed)->read(at, llvm::MutableArrayRef(out).slice(at, std::min(step, out.size() - at)));
  return out;
}

} // namespace llmc::test
