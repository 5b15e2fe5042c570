// SPDX-License-Identifier: Apache-2.0
//
// Everything but the records of entry points. The work is linear in the
// program's size: text is decoded once as a whole, and the entries' ranges of a
// table cannot overlap.
#include "runtime/bundle/ProgramChecker.h"

#include "runtime/bundle/EntryChecker.h"

#include <bit>
#include <cstring>
#include <unordered_set>

namespace llmc {
namespace {

static_assert(std::endian::native == std::endian::little, "programs are little-endian");

template <typename... Args> Status corrupt(fmt::format_string<Args...> text, Args &&...args) {
  return Status::error(Code::Corrupt, text, std::forward<Args>(args)...);
}

bool isContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Bytes of the character at the start of `text`; 0 when it is malformed or NUL.
size_t characterSize(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = at(0);
  if (first < 0x80)
    return first != 0;
  size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size)
    return 0;
  for (size_t i = 1; i < size; ++i)
    if (!isContinuation(text[i]))
      return 0;
  // Overlong forms, surrogates, and what lies above U+10FFFF.
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) >= 0xA0) ||
      (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) >= 0x90))
    return 0;
  return size;
}

bool isIdentifier(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  return !name.empty() && name.find_first_not_of(kAllowed) == name.npos &&
         kDigits.find(name[0]) == name.npos;
}

} // namespace

Status ProgramChecker::check() {
  LLMC_TRY(readTables());
  LLMC_TRY(checkText());
  LLMC_TRY(checkDevices());
  LLMC_TRY(checkSymbols());
  LLMC_TRY(checkKernels());
  return checkEntries();
}

template <typename T>
Status ProgramChecker::readTable(const llmc_table &table, const char *name, uint64_t limit,
                                 std::span<const T> &result) const {
  if (table.count == 0)
    return Status::ok();
  if (table.count > limit)
    return corrupt("program: {} {}; at most {} are allowed", table.count, name, limit);
  if (table.offset % 8 != 0 || table.offset < sizeof(llmc_program_header) ||
      table.offset > bytes.size() || table.count > (bytes.size() - table.offset) / sizeof(T))
    return corrupt("program: the table of {} {} at {} does not fit into {} bytes", table.count,
                   name, table.offset, bytes.size());
  result = {reinterpret_cast<const T *>(bytes.data() + table.offset),
            static_cast<size_t>(table.count)};
  return Status::ok();
}

Status ProgramChecker::readTables() {
  if (bytes.size() < sizeof(llmc_program_header))
    return corrupt("program: {} bytes are too few for its header", bytes.size());
  const auto &header = *reinterpret_cast<const llmc_program_header *>(bytes.data());
  if (memcmp(header.magic, LLMC_PROGRAM_MAGIC, sizeof header.magic) != 0)
    return corrupt("program: it does not begin with '{}'", LLMC_PROGRAM_MAGIC);
  if (header.version_major != LLMC_FORMAT_MAJOR || header.version_minor != LLMC_FORMAT_MINOR)
    return Status::error(
        Code::Incompatible, "the program has format {}.{}, but this runtime reads format {}.{}",
        header.version_major, header.version_minor, LLMC_FORMAT_MAJOR, LLMC_FORMAT_MINOR);
  if (header.file_size != bytes.size())
    return corrupt("program: {} bytes according to its header, but {} are there", header.file_size,
                   bytes.size());

  Program &p = program;
  std::span<const char> text;
  LLMC_TRY(readTable(header.strings, "string bytes", bytes.size(), text));
  p.stringTable = {text.data(), text.size()};
  LLMC_TRY(readTable(header.pool, "pool words", bytes.size(), p.poolTable));
  LLMC_TRY(readTable(header.devices, "devices", LLMC_MAX_DEVICES, p.deviceTable));
  LLMC_TRY(readTable(header.symbols, "symbols", LLMC_MAX_SYMBOLS, p.symbolTable));
  LLMC_TRY(readTable(header.kernels, "kernels", LLMC_MAX_KERNELS, p.kernelTable));
  LLMC_TRY(readTable(header.entries, "entries", LLMC_MAX_ENTRIES, p.entryTable));
  LLMC_TRY(readTable(header.exprs, "expressions", LLMC_MAX_EXPRS, p.exprTable));
  LLMC_TRY(readTable(header.bindings, "bindings", LLMC_MAX_EXPRS, p.bindingTable));
  LLMC_TRY(readTable(header.checks, "checks", LLMC_MAX_CHECKS, p.checkTable));
  LLMC_TRY(readTable(header.buffers, "buffers", LLMC_MAX_BUFFERS, p.bufferTable));
  LLMC_TRY(readTable(header.ios, "inputs and outputs", LLMC_MAX_IOS, p.ioTable));
  return readTable(header.instructions, "instructions", LLMC_MAX_INSTRUCTIONS, p.instructionTable);
}

Status ProgramChecker::checkText() const {
  std::string_view text = program.stringTable;
  for (size_t at = 0; at < text.size();) {
    size_t size = characterSize(text.substr(at));
    if (size == 0)
      return corrupt("program: its text is not UTF-8 at byte {}", at);
    at += size;
  }
  return Status::ok();
}

Status ProgramChecker::checkString(llmc_str text, const char *what, bool mayBeEmpty) const {
  std::string_view all = program.stringTable;
  if (text.size > LLMC_MAX_STRING || text.offset > all.size() ||
      text.size > all.size() - text.offset)
    return corrupt("the {} (bytes {} to {}) is not within the {} bytes of text", what, text.offset,
                   uint64_t(text.offset) + text.size, all.size());
  if (text.size == 0)
    return mayBeEmpty ? Status::ok() : corrupt("the {} is empty", what);
  size_t end = text.offset + text.size;
  if (isContinuation(all[text.offset]) || (end < all.size() && isContinuation(all[end])))
    return corrupt("the {} begins or ends within a character", what);
  return Status::ok();
}

Status ProgramChecker::checkDevices() const {
  std::unordered_set<std::string_view> names;
  for (const llmc_device_record &device : program.devices()) {
    LLMC_TRY(checkString(device.name, "name of a device"));
    LLMC_TRY(checkString(device.driver, "driver of a device"));
    if (!names.insert(program.string(device.name)).second)
      return corrupt("program: two devices are named '{}'", program.string(device.name));
  }
  if (program.devices().empty() || program.string(program.devices()[0].driver) != "cpu")
    return corrupt("program: its first device is not a CPU");
  return Status::ok();
}

Status ProgramChecker::checkSymbols() const {
  std::unordered_set<std::string_view> names;
  for (const llmc_symbol_record &symbol : program.symbols()) {
    LLMC_TRY(checkString(symbol.name, "name of a symbol"));
    if (!names.insert(program.string(symbol.name)).second)
      return corrupt("program: two symbols are named '{}'", program.string(symbol.name));
  }
  return Status::ok();
}

Status ProgramChecker::checkKernels() const {
  std::unordered_set<std::string_view> names;
  for (const llmc_kernel_record &kernel : program.kernels()) {
    LLMC_TRY(checkString(kernel.name, "name of a kernel"));
    std::string_view name = program.string(kernel.name);
    if (!isIdentifier(name))
      return corrupt("program: the name of kernel '{}' is no C identifier", name);
    if (!names.insert(name).second)
      return corrupt("program: two kernels are named '{}'", name);
    LLMC_TRY(checkString(kernel.label, "label of a kernel", /*mayBeEmpty=*/true));
    if (kernel.scratch_bytes > LLMC_MAX_SCRATCH_BYTES)
      return corrupt("program: kernel '{}' wants {} bytes of scratch; at most {} are allowed", name,
                     kernel.scratch_bytes, LLMC_MAX_SCRATCH_BYTES);
    if (kernel.operand_count > LLMC_MAX_OPERANDS || kernel.scalar_count > LLMC_MAX_SCALARS ||
        kernel.output_count > kernel.operand_count || kernel.flags != 0)
      return corrupt("program: kernel '{}' has {} operands, {} of them outputs, {} scalars and "
                     "flags {}",
                     name, kernel.operand_count, kernel.output_count, kernel.scalar_count,
                     kernel.flags);
  }
  return Status::ok();
}

Status ProgramChecker::checkEntries() const {
  struct Table {
    const char *name;
    size_t size;
    uint64_t next = 0; ///< where the next entry's range must begin
  };
  Table ios{"inputs and outputs", program.ioTable.size()};
  Table exprs{"expressions", program.exprTable.size()};
  Table bindings{"bindings", program.bindingTable.size()};
  Table checks{"checks", program.checkTable.size()};
  Table buffers{"buffers", program.bufferTable.size()};
  Table instructions{"instructions", program.instructionTable.size()};

  std::unordered_set<std::string_view> names;
  for (const llmc_entry_record &entry : program.entries()) {
    LLMC_TRY(checkString(entry.name, "name of an entry"));
    std::string_view name = program.string(entry.name);
    if (!names.insert(name).second)
      return corrupt("program: two entries are named '{}'", name);
    if ((entry.kind != LLMC_ENTRY_RUN && entry.kind != LLMC_ENTRY_SESSION) || entry.reserved != 0)
      return corrupt("program: entry '{}' is of the unknown kind {}", name, entry.kind);
    for (auto [range, table] :
         {std::pair{entry.inputs, &ios}, std::pair{entry.outputs, &ios},
          std::pair{entry.exprs, &exprs}, std::pair{entry.bindings, &bindings},
          std::pair{entry.checks, &checks}, std::pair{entry.buffers, &buffers},
          std::pair{entry.instructions, &instructions}}) {
      if (range.begin != table->next || range.count > table->size - table->next)
        return corrupt("program: entry '{}' has the {} {} to {}; they must begin at {} and there "
                       "are {}",
                       name, table->name, range.begin, uint64_t(range.begin) + range.count,
                       table->next, table->size);
      table->next += range.count;
    }
    if (Status status = EntryChecker(*this, entry).check(); !status.isOk())
      return status.inContext(fmt::format("program: entry '{}'", name));
  }
  for (const Table *table : {&ios, &exprs, &bindings, &checks, &buffers, &instructions})
    if (table->next != table->size)
      return corrupt("program: {} of its {} {} belong to no entry", table->size - table->next,
                     table->size, table->name);
  return Status::ok();
}

} // namespace llmc
