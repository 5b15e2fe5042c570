// SPDX-License-Identifier: Apache-2.0
//
// Loading copies first and checks the copy, so that a file that changes under
// its mapping can't undo a check.
#include "runtime/bundle/Program.h"

#include "runtime/bundle/ProgramChecker.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace llmc {

Result<std::shared_ptr<const Program>> Program::load(std::span<const std::byte> bytes,
                                                     uint64_t weightsSize) {
  if (bytes.size() > LLMC_MAX_PROGRAM_BYTES)
    return Status::error(Code::Corrupt, "the program has {} bytes; at most {} are allowed",
                         bytes.size(), LLMC_MAX_PROGRAM_BYTES);
  std::shared_ptr<Program> program(new Program);
  size_t words = bytes.size() / sizeof(uint64_t) + 1;
  program->storage.reset(new (std::nothrow) uint64_t[words]);
  if (!program->storage)
    return Status::error(Code::Unavailable, "no memory for a program of {} bytes", bytes.size());
  if (!bytes.empty())
    memcpy(program->storage.get(), bytes.data(), bytes.size());
  std::span<const std::byte> copy(reinterpret_cast<const std::byte *>(program->storage.get()),
                                  bytes.size());
  LLMC_TRY(ProgramChecker(*program, copy, weightsSize).check());
  return std::shared_ptr<const Program>(std::move(program));
}

const llmc_entry_record *Program::findEntry(std::string_view name) const {
  auto found = std::find_if(entryTable.begin(), entryTable.end(),
                            [&](const auto &entry) { return string(entry.name) == name; });
  return found == entryTable.end() ? nullptr : &*found;
}

const llmc_entry_record *Program::findEntry(uint32_t kind) const {
  auto found = std::find_if(entryTable.begin(), entryTable.end(),
                            [&](const auto &entry) { return entry.kind == kind; });
  return found == entryTable.end() ? nullptr : &*found;
}

} // namespace llmc
