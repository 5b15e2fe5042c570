// SPDX-License-Identifier: Apache-2.0
//
// Any bytes must give an error or a bundle whose every part can be used. The
// first byte chooses the layer, since hashes would keep changed bytes from ever
// reaching the program and the manifest through a whole bundle.
#include "runtime/bundle/BundleReader.h"
#include "runtime/bundle/ProgramPrinter.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using namespace llmc;

/// Reads every byte, so that the address sanitizer sees a wrong range.
void touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (std::byte byte : bytes)
    sum += std::to_integer<unsigned>(byte);
  asm volatile("" : : "r"(sum)); // keeps the loop
}

void use(const Program &program) {
  std::string text = printProgram(program) + printSymbols(program) + printKernels(program);
  touch(std::as_bytes(std::span(text)));
}

void useBundle(std::span<const std::byte> bytes) {
  auto opened = BundleReader::fromMemory(bytes, nullptr);
  if (!opened.isOk())
    return;
  const BundleReader &bundle = **opened;
  use(bundle.program());
  for (const Archive::Entry &entry : bundle.entries())
    touch(entry.bytes);
  for (const Manifest::Target &target : bundle.manifest().targets)
    touch(bundle.code(target));
  (void)bundle.verify();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  size_t rest = size - 1;
  // An exact copy at the alignment that bundles need, so that reading past its end is seen.
  void *copy = nullptr;
  if (posix_memalign(&copy, 64, rest) != 0)
    return 0;
  if (rest > 0)
    memcpy(copy, data + 1, rest);
  std::span<const std::byte> bytes(static_cast<const std::byte *>(copy), rest);
  switch (data[0]) {
  case 'B':
    useBundle(bytes);
    break;
  case 'P':
    if (auto program = Program::load(bytes, 192); program.isOk())
      use(**program);
    break;
  case 'M':
    (void)Manifest::parse({static_cast<const char *>(copy), rest}).isOk();
    break;
  default:
    break;
  }
  free(copy);
  return 0;
}
