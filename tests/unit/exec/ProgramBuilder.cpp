// SPDX-License-Identifier: Apache-2.0
//
// Tables are written in the header's order, each at a multiple of 8.
#include "tests/unit/exec/ProgramBuilder.h"

#include <algorithm>
#include <cstring>

namespace llmc {

llmc_str ProgramBuilder::text(std::string_view value) {
  llmc_str result{static_cast<uint32_t>(strings.size()), static_cast<uint32_t>(value.size())};
  strings += value;
  return result;
}

llmc_range ProgramBuilder::list(const std::vector<uint32_t> &values) {
  llmc_range range{static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(values.size())};
  pool.insert(pool.end(), values.begin(), values.end());
  return range;
}

uint32_t ProgramBuilder::device(std::string_view name, std::string_view driver) {
  llmc_str nameText = text(name);
  devices.push_back({nameText, text(driver)});
  return static_cast<uint32_t>(devices.size()) - 1;
}

uint32_t ProgramBuilder::symbol(std::string_view name) {
  symbols.push_back({text(name)});
  return static_cast<uint32_t>(symbols.size()) - 1;
}

uint32_t ProgramBuilder::kernel(std::string_view name, uint32_t operands, uint32_t outputs,
                                uint32_t scalars, uint64_t scratch) {
  if (auto it = kernelIndex.find(name); it != kernelIndex.end())
    return it->second;
  llmc_kernel_record record{};
  record.name = text(name);
  record.label = text("label of " + std::string(name));
  record.scratch_bytes = scratch;
  record.operand_count = operands;
  record.output_count = outputs;
  record.scalar_count = scalars;
  kernels.push_back(record);
  return kernelIndex[std::string(name)] = static_cast<uint32_t>(kernels.size()) - 1;
}

void ProgramBuilder::beginEntry(std::string_view name, uint32_t kind) {
  llmc_entry_record entry{};
  entry.name = text(name);
  entry.kind = kind;
  entry.exprs.begin = static_cast<uint32_t>(exprs.size());
  entry.bindings.begin = static_cast<uint32_t>(bindings.size());
  entry.checks.begin = static_cast<uint32_t>(checks.size());
  entry.buffers.begin = static_cast<uint32_t>(buffers.size());
  entry.instructions.begin = static_cast<uint32_t>(instructions.size());
  entries.push_back(entry);
}

void ProgramBuilder::endEntry() {
  llmc_entry_record &entry = entries.back();
  auto close = [](llmc_range &range, size_t size) {
    range.count = static_cast<uint32_t>(size) - range.begin;
  };
  close(entry.exprs, exprs.size());
  close(entry.bindings, bindings.size());
  close(entry.checks, checks.size());
  close(entry.buffers, buffers.size());
  close(entry.instructions, instructions.size());
  entry.inputs = {static_cast<uint32_t>(ios.size()), static_cast<uint32_t>(inputs.size())};
  ios.insert(ios.end(), inputs.begin(), inputs.end());
  entry.outputs = {static_cast<uint32_t>(ios.size()), static_cast<uint32_t>(outputs.size())};
  ios.insert(ios.end(), outputs.begin(), outputs.end());
  inputs.clear();
  outputs.clear();

  llmc_buffer_record *own = buffers.data() + entry.buffers.begin;
  for (uint32_t i = 0; i < entry.instructions.count; ++i) {
    const llmc_range &args = instructions[entry.instructions.begin + i].args;
    for (uint32_t arg = args.begin; arg < args.begin + args.count; ++arg) {
      llmc_buffer_record *buffer = own + pool[arg];
      if (buffer->kind == LLMC_BUFFER_ALIAS)
        buffer = own + buffer->source;
      buffer->first = std::min(buffer->first, i);
      buffer->last = buffer->last == LLMC_NONE ? i : std::max(buffer->last, i);
    }
  }
}

uint32_t ProgramBuilder::expr(uint32_t op, uint32_t a, uint32_t b, int64_t value) {
  exprs.push_back({op, a, b, 0, value});
  return static_cast<uint32_t>(exprs.size()) - 1 - entries.back().exprs.begin;
}

static llmc_buffer_record bufferRecord(uint32_t kind, uint32_t device) {
  llmc_buffer_record record{};
  record.kind = kind;
  record.device = device;
  record.source = record.size_expr = record.first = record.last = LLMC_NONE;
  return record;
}

uint32_t ProgramBuilder::io(std::vector<llmc_io_record> &list, uint32_t bufferKind,
                            std::string_view name, Dtype dtype, const std::vector<uint32_t> &dims,
                            const std::vector<std::string> &names, uint32_t role,
                            uint32_t cacheAxis) {
  uint32_t size = constant(static_cast<int64_t>(dtypeSize(dtype)));
  for (uint32_t dim : dims)
    size = mul(size, dim);
  llmc_io_record record{};
  record.name = text(name);
  record.dtype = static_cast<uint32_t>(dtype);
  record.role = role;
  record.dims = this->list(dims);
  std::vector<uint32_t> words;
  for (size_t i = 0; i < dims.size(); ++i) {
    llmc_str dimName = text(i < names.size() ? names[i] : "");
    words.push_back(dimName.offset);
    words.push_back(dimName.size);
  }
  record.dim_names = this->list(words);
  record.pair = LLMC_NONE;
  record.cache_axis = cacheAxis;
  llmc_buffer_record buffer = bufferRecord(bufferKind, 0);
  buffer.source = static_cast<uint32_t>(list.size());
  buffer.size_expr = size;
  buffers.push_back(buffer);
  record.buffer = static_cast<uint32_t>(buffers.size()) - 1 - entries.back().buffers.begin;
  list.push_back(record);
  return record.buffer;
}

uint32_t ProgramBuilder::input(std::string_view name, Dtype dtype, std::vector<uint32_t> dims,
                               std::vector<std::string> names, uint32_t role, uint32_t cacheAxis) {
  return io(inputs, LLMC_BUFFER_INPUT, name, dtype, dims, names, role, cacheAxis);
}

uint32_t ProgramBuilder::output(std::string_view name, Dtype dtype, std::vector<uint32_t> dims,
                                std::vector<std::string> names, uint32_t role, uint32_t cacheAxis) {
  return io(outputs, LLMC_BUFFER_OUTPUT, name, dtype, dims, names, role, cacheAxis);
}

void ProgramBuilder::pair(uint32_t input, uint32_t output) {
  inputs[input].pair = output;
  outputs[output].pair = input;
}

void ProgramBuilder::bindInput(uint32_t symbol, uint32_t input, uint32_t dim) {
  bindings.push_back({symbol, LLMC_BIND_INPUT_DIM, input, dim});
}

void ProgramBuilder::bindSession(uint32_t symbol, uint32_t kind) {
  bindings.push_back({symbol, kind, LLMC_NONE, LLMC_NONE});
}

void ProgramBuilder::check(uint32_t kind, uint32_t a, uint32_t b, std::string_view message) {
  checks.push_back({kind, a, b, 0, text(message)});
}

uint32_t ProgramBuilder::arena(uint32_t sizeExpr, uint32_t device) {
  llmc_buffer_record record = bufferRecord(LLMC_BUFFER_ARENA, device);
  record.size_expr = sizeExpr;
  buffers.push_back(record);
  return static_cast<uint32_t>(buffers.size()) - 1 - entries.back().buffers.begin;
}

uint32_t ProgramBuilder::weight(uint64_t offset, uint64_t size, uint32_t device) {
  llmc_buffer_record record = bufferRecord(LLMC_BUFFER_WEIGHT, device);
  record.offset = offset;
  record.size = size;
  buffers.push_back(record);
  return static_cast<uint32_t>(buffers.size()) - 1 - entries.back().buffers.begin;
}

uint32_t ProgramBuilder::alias(uint32_t buffer, uint32_t sizeExpr) {
  uint32_t device = buffers[entries.back().buffers.begin + buffer].device;
  llmc_buffer_record record = bufferRecord(LLMC_BUFFER_ALIAS, device);
  record.source = buffer;
  record.size_expr = sizeExpr;
  buffers.push_back(record);
  return static_cast<uint32_t>(buffers.size()) - 1 - entries.back().buffers.begin;
}

uint32_t ProgramBuilder::kv(uint32_t device) {
  llmc_buffer_record record = bufferRecord(LLMC_BUFFER_KV, device);
  record.kv_heads = 1;
  record.kv_head_size = 4;
  record.kv_dtype = LLMC_DTYPE_F32;
  record.kv_layout = LLMC_KV_LAYOUT_ROWS;
  record.size = uint64_t{LLMC_KV_BLOCK_TOKENS} * 4 * 4;
  buffers.push_back(record);
  return static_cast<uint32_t>(buffers.size()) - 1 - entries.back().buffers.begin;
}

void ProgramBuilder::instruction(uint32_t op, uint32_t device, uint32_t target,
                                 const std::vector<uint32_t> &args,
                                 const std::vector<uint32_t> &scalars, std::string_view label) {
  llmc_instruction_record record{};
  record.op = op;
  record.device = device;
  record.target = target;
  llmc_str labelText = text(label);
  record.label_offset = labelText.offset;
  record.label_size = labelText.size;
  record.args = list(args);
  record.scalars = list(scalars);
  record.arithmetic = LLMC_NONE;
  instructions.push_back(record);
}

void ProgramBuilder::dispatch(uint32_t kernel, std::vector<uint32_t> args,
                              std::vector<uint32_t> scalars, std::string_view label,
                              uint32_t device) {
  instruction(LLMC_OP_DISPATCH, device, kernel, args, scalars, label);
}

void ProgramBuilder::copy(uint32_t to, uint32_t from, uint32_t bytesExpr, uint32_t device) {
  instruction(LLMC_OP_COPY, device, bytesExpr, {to, from}, {}, "copy");
}

void ProgramBuilder::transfer(uint32_t to, uint32_t from, uint32_t bytesExpr, uint32_t device) {
  instruction(LLMC_OP_TRANSFER, device, bytesExpr, {to, from}, {}, "transfer");
}

void ProgramBuilder::wait(uint32_t device) {
  instruction(LLMC_OP_WAIT, device, LLMC_NONE, {}, {}, "wait");
}

std::vector<std::byte> ProgramBuilder::encode() const {
  std::vector<std::byte> bytes(sizeof(llmc_program_header));
  llmc_program_header header{};
  auto write = [&](llmc_table &table, const auto &records) {
    bytes.resize((bytes.size() + 7) / 8 * 8);
    table = {bytes.size(), records.size()};
    const auto *begin = reinterpret_cast<const std::byte *>(records.data());
    bytes.insert(bytes.end(), begin, begin + records.size() * sizeof(*records.data()));
  };
  std::memcpy(header.magic, LLMC_PROGRAM_MAGIC, sizeof(header.magic));
  header.version_major = LLMC_FORMAT_MAJOR;
  header.version_minor = LLMC_FORMAT_MINOR;
  write(header.strings, strings);
  write(header.pool, pool);
  write(header.devices, devices);
  write(header.symbols, symbols);
  write(header.kernels, kernels);
  write(header.entries, entries);
  write(header.exprs, exprs);
  write(header.bindings, bindings);
  write(header.checks, checks);
  write(header.buffers, buffers);
  write(header.ios, ios);
  write(header.instructions, instructions);
  header.file_size = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Result<std::shared_ptr<const Program>> ProgramBuilder::build(uint64_t weightsSize) const {
  return Program::load(encode(), weightsSize);
}

} // namespace llmc
