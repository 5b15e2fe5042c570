// SPDX-License-Identifier: Apache-2.0
//
// Writes `program/main.bin` for tests, an entry at a time, and loads it through
// Program::load, so that a test's program is one that a bundle could hold.
#ifndef LLMC_TESTS_UNIT_EXEC_PROGRAM_BUILDER_H
#define LLMC_TESTS_UNIT_EXEC_PROGRAM_BUILDER_H

#include "runtime/bundle/Program.h"
#include "runtime/core/Dtype.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Indices are those of the records; expressions and buffers are relative to their entry.
class ProgramBuilder {
public:
  /// Device 0 is "cpu0"; more by hand.
  ProgramBuilder() { device("cpu0", "cpu"); }

  uint32_t device(std::string_view name, std::string_view driver);
  uint32_t symbol(std::string_view name);
  /// A kernel's record, made at its first use; `outputs` of its operands are written.
  uint32_t kernel(std::string_view name, uint32_t operands, uint32_t outputs, uint32_t scalars,
                  uint64_t scratch = 0);

  void beginEntry(std::string_view name, uint32_t kind = LLMC_ENTRY_RUN);
  void endEntry();

  uint32_t constant(int64_t value) { return expr(LLMC_EXPR_CONST, 0, 0, value); }
  uint32_t symbolExpr(uint32_t symbol) { return expr(LLMC_EXPR_SYMBOL, 0, 0, symbol); }
  uint32_t expr(uint32_t op, uint32_t a, uint32_t b, int64_t value = 0);
  uint32_t mul(uint32_t a, uint32_t b) { return expr(LLMC_EXPR_MUL, a, b); }
  uint32_t add(uint32_t a, uint32_t b) { return expr(LLMC_EXPR_ADD, a, b); }

  /// Return the io's buffer.
  uint32_t input(std::string_view name, Dtype dtype, std::vector<uint32_t> dims,
                 std::vector<std::string> names = {}, uint32_t role = LLMC_ROLE_OTHER,
                 uint32_t cacheAxis = LLMC_NONE);
  uint32_t output(std::string_view name, Dtype dtype, std::vector<uint32_t> dims,
                  std::vector<std::string> names = {}, uint32_t role = LLMC_ROLE_OTHER,
                  uint32_t cacheAxis = LLMC_NONE);
  /// Says that output `output` continues the cache input `input`.
  void pair(uint32_t input, uint32_t output);
  void bindInput(uint32_t symbol, uint32_t input, uint32_t dim);
  void bindSession(uint32_t symbol, uint32_t kind);
  void check(uint32_t kind, uint32_t a, uint32_t b, std::string_view message);

  /// Lives from its first to its last use.
  uint32_t arena(uint32_t sizeExpr, uint32_t device = 0);
  uint32_t weight(uint64_t offset, uint64_t size, uint32_t device = 0);
  uint32_t alias(uint32_t buffer, uint32_t sizeExpr);
  /// Four f32 a token.
  uint32_t kv(uint32_t device = 0);

  void dispatch(uint32_t kernel, std::vector<uint32_t> buffers, std::vector<uint32_t> scalars,
                std::string_view label = "node", uint32_t device = 0);
  void copy(uint32_t to, uint32_t from, uint32_t bytesExpr, uint32_t device = 0);
  void transfer(uint32_t to, uint32_t from, uint32_t bytesExpr, uint32_t device);
  void wait(uint32_t device);

  /// The file's bytes.
  std::vector<std::byte> encode() const;
  Result<std::shared_ptr<const Program>> build(uint64_t weightsSize = 0) const;

private:
  llmc_str text(std::string_view value);
  llmc_range list(const std::vector<uint32_t> &values);
  uint32_t io(std::vector<llmc_io_record> &ios, uint32_t bufferKind, std::string_view name,
              Dtype dtype, const std::vector<uint32_t> &dims, const std::vector<std::string> &names,
              uint32_t role, uint32_t cacheAxis);
  void instruction(uint32_t op, uint32_t device, uint32_t target,
                   const std::vector<uint32_t> &buffers, const std::vector<uint32_t> &scalars,
                   std::string_view label);

  std::string strings;
  std::vector<uint32_t> pool;
  std::vector<llmc_device_record> devices;
  std::vector<llmc_symbol_record> symbols;
  std::vector<llmc_kernel_record> kernels;
  std::map<std::string, uint32_t, std::less<>> kernelIndex;
  std::vector<llmc_entry_record> entries;
  std::vector<llmc_expr_record> exprs;
  std::vector<llmc_binding_record> bindings;
  std::vector<llmc_check_record> checks;
  std::vector<llmc_buffer_record> buffers;
  std::vector<llmc_io_record> inputs;  // of the open entry
  std::vector<llmc_io_record> outputs; // of the open entry
  std::vector<llmc_io_record> ios;
  std::vector<llmc_instruction_record> instructions;
};

} // namespace llmc

#endif // LLMC_TESTS_UNIT_EXEC_PROGRAM_BUILDER_H
