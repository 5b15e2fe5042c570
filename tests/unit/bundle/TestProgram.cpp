// SPDX-License-Identifier: Apache-2.0
//
// The tables are built in the order in which an entry's ranges must lie.
#include "tests/unit/bundle/TestProgram.h"

#include <cstring>

namespace llmc::test {

llmc_str TestProgram::addString(std::string_view text) {
  llmc_str result{static_cast<uint32_t>(strings.size()), static_cast<uint32_t>(text.size())};
  strings += text;
  return result;
}

llmc_range TestProgram::addPool(const std::vector<uint32_t> &words) {
  llmc_range result{static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(words.size())};
  pool.insert(pool.end(), words.begin(), words.end());
  return result;
}

std::string TestProgram::encode() const {
  llmc_program_header header{};
  std::string body;
  auto add = [&](llmc_table &table, const auto &records) {
    body.resize((body.size() + 7) / 8 * 8);
    table = {sizeof header + body.size(), records.size()};
    body.append(reinterpret_cast<const char *>(records.data()), records.size() * sizeof records[0]);
  };
  memcpy(header.magic, LLMC_PROGRAM_MAGIC, sizeof header.magic);
  header.version_major = LLMC_FORMAT_MAJOR;
  header.version_minor = LLMC_FORMAT_MINOR;
  add(header.strings, strings);
  add(header.pool, pool);
  add(header.devices, devices);
  add(header.symbols, symbols);
  add(header.kernels, kernels);
  add(header.entries, entries);
  add(header.exprs, exprs);
  add(header.bindings, bindings);
  add(header.checks, checks);
  add(header.buffers, buffers);
  add(header.ios, ios);
  add(header.instructions, instructions);
  header.file_size = sizeof header + body.size();
  return std::string(reinterpret_cast<const char *>(&header), sizeof header) + body;
}

namespace {

constexpr uint32_t kNone = LLMC_NONE;

template <typename T> uint32_t sizeOf(const std::vector<T> &table) {
  return static_cast<uint32_t>(table.size());
}

/// Ends the range of one table that an entry began at `range.begin`.
template <typename T> void close(llmc_range &range, const std::vector<T> &table) {
  range.count = sizeOf(table) - range.begin;
}

llmc_entry_record openEntry(TestProgram &p, std::string_view name, uint32_t kind) {
  llmc_entry_record entry{};
  entry.name = p.addString(name);
  entry.kind = kind;
  entry.inputs.begin = sizeOf(p.ios);
  entry.exprs.begin = sizeOf(p.exprs);
  entry.bindings.begin = sizeOf(p.bindings);
  entry.checks.begin = sizeOf(p.checks);
  entry.buffers.begin = sizeOf(p.buffers);
  entry.instructions.begin = sizeOf(p.instructions);
  return entry;
}

void closeEntry(TestProgram &p, llmc_entry_record &entry, uint32_t inputCount) {
  entry.inputs.count = inputCount;
  entry.outputs.begin = entry.inputs.begin + inputCount;
  close(entry.outputs, p.ios);
  close(entry.exprs, p.exprs);
  close(entry.bindings, p.bindings);
  close(entry.checks, p.checks);
  close(entry.buffers, p.buffers);
  close(entry.instructions, p.instructions);
  p.entries.push_back(entry);
}

void addIo(TestProgram &p, std::string_view name, uint32_t dtype, uint32_t role,
           const std::vector<uint32_t> &dims, uint32_t buffer, uint32_t pair, uint32_t cacheAxis) {
  std::vector<uint32_t> names;
  for (size_t i = 0; i < dims.size(); ++i) {
    llmc_str dimName = i == 0 ? p.addString("batch") : llmc_str{0, 0};
    names.insert(names.end(), {dimName.offset, dimName.size});
  }
  llmc_str text = p.addString(name);
  p.ios.push_back({text, dtype, role, p.addPool(dims), p.addPool(names), buffer, pair, cacheAxis,
                   /*reserved=*/0});
}

void addInstruction(TestProgram &p, uint32_t op, uint32_t device, uint32_t target,
                    std::string_view label, const std::vector<uint32_t> &args,
                    const std::vector<uint32_t> &scalars) {
  llmc_str text = p.addString(label);
  p.instructions.push_back({op, device, target, text.offset, text.size, p.addPool(args),
                            p.addPool(scalars), /*arithmetic=*/LLMC_NONE});
}

void addExpr(TestProgram &p, uint32_t op, uint32_t a, uint32_t b, int64_t value) {
  p.exprs.push_back({op, a, b, 0, value});
}

llmc_buffer_record buffer(uint32_t kind, uint32_t device, uint32_t source, uint32_t sizeExpr,
                          uint32_t first, uint32_t last) {
  llmc_buffer_record record{};
  record.kind = kind;
  record.device = device;
  record.source = source;
  record.size_expr = sizeExpr;
  record.first = first;
  record.last = last;
  return record;
}

llmc_buffer_record weight(uint32_t device, uint64_t offset, uint64_t size) {
  llmc_buffer_record record = buffer(LLMC_BUFFER_WEIGHT, device, kNone, kNone, 0, 0);
  record.offset = offset;
  record.size = size;
  return record;
}

void addRunEntry(TestProgram &p) {
  llmc_entry_record entry = openEntry(p, "run", LLMC_ENTRY_RUN);
  addExpr(p, LLMC_EXPR_SYMBOL, 0, 0, 0);     // 0: batch
  addExpr(p, LLMC_EXPR_SYMBOL, 0, 0, 1);     // 1: sequence
  addExpr(p, LLMC_EXPR_SYMBOL, 0, 0, 2);     // 2: past
  addExpr(p, LLMC_EXPR_CONST, 0, 0, 8);      // 3
  addExpr(p, LLMC_EXPR_ADD, 1, 2, 0);        // 4: sequence + past
  addExpr(p, LLMC_EXPR_MUL, 0, 1, 0);        // 5: batch * sequence
  addExpr(p, LLMC_EXPR_MUL, 5, 3, 0);        // 6: bytes of the ids
  addExpr(p, LLMC_EXPR_FLOORDIV, 6, 3, 0);   // 7
  addExpr(p, LLMC_EXPR_CEILDIV, 6, 3, 0);    // 8
  addExpr(p, LLMC_EXPR_MOD, 6, 3, 0);        // 9
  addExpr(p, LLMC_EXPR_MIN, 7, 8, 0);        // 10
  addExpr(p, LLMC_EXPR_MAX, 9, 10, 0);       // 11
  addExpr(p, LLMC_EXPR_BROADCAST, 11, 7, 0); // 12
  p.bindings = {{0, LLMC_BIND_INPUT_DIM, 0, 0},
                {1, LLMC_BIND_INPUT_DIM, 0, 1},
                {2, LLMC_BIND_INPUT_DIM, 1, 1}};
  p.checks.push_back({LLMC_CHECK_LE, 4, 3, 0, p.addString("more than 8 tokens")});
  p.checks.push_back({LLMC_CHECK_EQ, 7, 8, 0, p.addString("sizes differ")});

  addIo(p, "input_ids", LLMC_DTYPE_I64, LLMC_ROLE_IDS, {0, 1}, 0, kNone, kNone);
  addIo(p, "past.0", LLMC_DTYPE_F32, LLMC_ROLE_PAST, {0, 2}, 1, 1, 1);
  addIo(p, "unused", LLMC_DTYPE_BOOL, LLMC_ROLE_OTHER, {}, kNone, kNone, kNone);
  addIo(p, "logits", LLMC_DTYPE_F32, LLMC_ROLE_LOGITS, {0, 1, 3}, 2, kNone, kNone);
  addIo(p, "present.0", LLMC_DTYPE_F32, LLMC_ROLE_PRESENT, {0, 4}, 3, 1, 1);

  p.buffers = {
      buffer(LLMC_BUFFER_INPUT, 0, 0, 6, 0, 0),  // 0
      buffer(LLMC_BUFFER_INPUT, 0, 1, 6, 0, 0),  // 1
      buffer(LLMC_BUFFER_OUTPUT, 0, 0, 6, 0, 0), // 2
      buffer(LLMC_BUFFER_OUTPUT, 0, 1, 6, 0, 0), // 3
      weight(0, 64, 128),                        // 4
      buffer(LLMC_BUFFER_ARENA, 0, kNone, 6, 0, 2),
      buffer(LLMC_BUFFER_ALIAS, 0, 5, 6, 0, 0),     // 6: of 5
      buffer(LLMC_BUFFER_ARENA, 1, kNone, 6, 1, 2), // 7: on the other device
  };
  addInstruction(p, LLMC_OP_DISPATCH, 0, 0, "/h.0/attn/c_attn/Gemm", {0, 4, 5}, {5, 12});
  addInstruction(p, LLMC_OP_TRANSFER, 1, 6, "", {7, 6}, {});
  addInstruction(p, LLMC_OP_TRANSFER, 0, 6, "", {2, 7}, {});
  addInstruction(p, LLMC_OP_WAIT, 1, 0, "", {}, {});
  addInstruction(p, LLMC_OP_COPY, 0, 6, "/présent", {3, 1}, {});
  closeEntry(p, entry, 3);
}

void addSessionEntry(TestProgram &p) {
  llmc_entry_record entry = openEntry(p, "session", LLMC_ENTRY_SESSION);
  addExpr(p, LLMC_EXPR_SYMBOL, 0, 0, 1); // 0: sequence
  addExpr(p, LLMC_EXPR_SYMBOL, 0, 0, 2); // 1: past
  addExpr(p, LLMC_EXPR_CONST, 0, 0, 4);  // 2
  addExpr(p, LLMC_EXPR_MUL, 0, 2, 0);    // 3
  p.bindings.push_back({1, LLMC_BIND_SESSION_SEQ, kNone, kNone});
  p.bindings.push_back({2, LLMC_BIND_SESSION_PAST, kNone, kNone});
  addIo(p, "input_ids", LLMC_DTYPE_I64, LLMC_ROLE_IDS, {0}, 0, kNone, kNone);
  addIo(p, "logits", LLMC_DTYPE_BF16, LLMC_ROLE_LOGITS, {2}, 1, kNone, kNone);
  p.buffers.push_back(buffer(LLMC_BUFFER_INPUT, 0, 0, 3, 0, 0));
  p.buffers.push_back(buffer(LLMC_BUFFER_OUTPUT, 0, 0, 2, 0, 0));
  llmc_buffer_record cache = buffer(LLMC_BUFFER_KV, 0, kNone, kNone, 0, 0);
  cache.kv_heads = 2;
  cache.kv_head_size = 3;
  cache.kv_dtype = LLMC_DTYPE_F32;
  cache.size = 64 * 2 * 3 * 4;
  p.buffers.push_back(cache);
  addInstruction(p, LLMC_OP_DISPATCH, 0, 1, "append", {0, 2}, {1});
  addInstruction(p, LLMC_OP_DISPATCH, 0, 0, "attention", {0, 2, 1}, {0, 1});
  closeEntry(p, entry, 1);
}

} // namespace

TestProgram makeTestProgram() {
  TestProgram p;
  for (std::string_view name : {"cpu0", "cpu1"}) {
    llmc_str text = p.addString(name);
    p.devices.push_back({text, p.addString("cpu")});
  }
  for (std::string_view name : {"batch", "sequence", "past"})
    p.symbols.push_back({p.addString(name)});
  llmc_str name = p.addString("matmul_f32_8x8");
  p.kernels.push_back({name, p.addString("matmul f32 8x8 +gelu"), 4096, 3, 2, 1, 0});
  name = p.addString("append_kv");
  p.kernels.push_back({name, p.addString(""), 0, 2, 1, 1, 0});
  addRunEntry(p);
  addSessionEntry(p);
  return p;
}

} // namespace llmc::test
