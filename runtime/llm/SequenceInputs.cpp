// SPDX-License-Identifier: Apache-2.0
//
// A session holds one sequence, so every batch dimension is 1 and every mask is
// full of ones.
#include "runtime/llm/SequenceInputs.h"

#include <fmt/ranges.h>

#include <cstring>

namespace llmc {

namespace {

/// Writes `value` as element `index`; false when the type can't hold token ids or flags.
bool writeNumber(Dtype dtype, std::byte *data, size_t index, int64_t value) {
  auto put = [&](auto number) {
    std::memcpy(data + index * sizeof(number), &number, sizeof(number));
    return true;
  };
  switch (dtype) {
  case Dtype::I64:
    return put(value);
  case Dtype::I32:
    return put(static_cast<int32_t>(value));
  case Dtype::U8:
  case Dtype::I8:
    return put(static_cast<int8_t>(value));
  case Dtype::Bool:
    return put(static_cast<int8_t>(value != 0));
  case Dtype::F32:
    return put(static_cast<float>(value));
  case Dtype::F64:
    return put(static_cast<double>(value));
  case Dtype::F16:
    return put(static_cast<uint16_t>(value != 0 ? 0x3C00 : 0));
  case Dtype::BF16:
    return put(static_cast<uint16_t>(value != 0 ? 0x3F80 : 0));
  default:
    return false;
  }
}

bool isIndexType(Dtype dtype) { return dtype == Dtype::I64 || dtype == Dtype::I32; }

/// What a role asks of its input.
struct RoleRule {
  uint32_t role;
  size_t minRank, maxRank;
  bool indices; // i32 or i64; else any type that can say 0 and 1
};
constexpr RoleRule kRules[] = {
    {LLMC_ROLE_IDS, 1, 2, true},
    {LLMC_ROLE_POSITIONS, 1, 3, true},
    {LLMC_ROLE_MASK, 1, 2, false},
    {LLMC_ROLE_PAST, 1, LLMC_MAX_RANK, false},
    {LLMC_ROLE_CACHE_POSITION, 1, 1, true},
    {LLMC_ROLE_USE_CACHE, 0, 1, false},
};

const RoleRule *ruleFor(uint32_t role) {
  for (const RoleRule &rule : kRules)
    if (rule.role == role)
      return &rule;
  return nullptr;
}

} // namespace

Result<SequenceInputs> SequenceInputs::create(const Program &program, size_t entry) {
  SequenceInputs inputs(program, program.entries()[entry]);
  LLMC_TRY(inputs.check());
  return inputs;
}

Status SequenceInputs::check() {
  std::vector<std::string> foreign;
  bool hasIds = false;
  for (const llmc_io_record &io : program->inputs(*entry)) {
    auto dtype = Dtype(io.dtype);
    std::string_view name = program->string(io.name);
    const RoleRule *rule = ruleFor(io.role);
    if (!rule) {
      foreign.push_back(fmt::format("'{}'", name));
      continue;
    }
    size_t rank = io.dims.count;
    if (rank < rule->minRank || rank > rule->maxRank)
      return Status::error(Code::InvalidArgument,
                           "can't generate: input '{}' has {} dimensions, which is not how token "
                           "ids, positions or masks of one sequence are given",
                           name, rank);
    std::byte scratch[8];
    bool fits = io.role == LLMC_ROLE_PAST ||
                (rule->indices ? isIndexType(dtype) : writeNumber(dtype, scratch, 0, 1));
    if (!fits)
      return Status::error(Code::InvalidArgument,
                           "can't generate: input '{}' is of type {}, which holds no {}", name,
                           dtypeName(dtype), rule->indices ? "token ids or positions" : "flags");
    if (io.role == LLMC_ROLE_IDS) {
      hasIds = true;
      fixedSequence = static_cast<size_t>(constantDim(io, rank - 1).value_or(0));
      const llmc_expr_record &outer = program->exprs(*entry)[program->pool(io.dims)[0]];
      if (rank == 2 && outer.op == LLMC_EXPR_SYMBOL)
        batchSymbol = outer.value;
      if (rank == 2 && constantDim(io, 0).value_or(1) != 1)
        return Status::error(Code::InvalidArgument,
                             "can't generate: input '{}' takes exactly {} sequences at once", name,
                             *constantDim(io, 0));
    }
    if (io.role == LLMC_ROLE_PAST && io.cache_axis != LLMC_NONE && constantDim(io, io.cache_axis))
      return Status::error(Code::InvalidArgument,
                           "can't generate: the cache input '{}' has a fixed length of {}", name,
                           *constantDim(io, io.cache_axis));
  }
  if (!foreign.empty())
    return Status::error(Code::InvalidArgument,
                         "can't generate: {} can't be made from tokens alone; use run and give "
                         "every input",
                         fmt::join(foreign, ", "));
  if (!hasIds)
    return Status::error(Code::InvalidArgument, "can't generate: the model takes no token ids");
  for (const llmc_io_record &io : program->inputs(*entry))
    if (io.role == LLMC_ROLE_PAST)
      LLMC_TRY(shapeOf(io, 0, 1).status());
  buffers.resize(entry->inputs.count);
  return Status::ok();
}

std::optional<int64_t> SequenceInputs::constantDim(const llmc_io_record &io, size_t axis) const {
  const llmc_expr_record &expr = program->exprs(*entry)[program->pool(io.dims)[axis]];
  if (expr.op == LLMC_EXPR_CONST)
    return expr.value;
  return std::nullopt;
}

/// A dimension of a cache that doesn't grow: made of constants and the batch, which is 1, or what
/// the present that continues it has.
Result<int64_t> SequenceInputs::cacheDim(const llmc_io_record &io, size_t axis) const {
  std::span<const llmc_expr_record> exprs = program->exprs(*entry);
  std::span<const uint32_t> dims = program->pool(io.dims);
  uint32_t index = dims[axis];
  // Exporters may give each cache tensor a batch of its own. It is then the first dimension that
  // isn't constant.
  bool mayBeBatch = true;
  for (size_t before = 0; before < axis; ++before)
    mayBeBatch = mayBeBatch && (before == io.cache_axis || constantDim(io, before));
  // Expressions refer backwards only, so one pass over those before gives this one's value.
  constexpr int64_t kUnknown = -1;
  std::vector<int64_t> values(index + 1, kUnknown);
  for (uint32_t i = 0; i <= index; ++i) {
    const llmc_expr_record &expr = exprs[i];
    if (expr.op == LLMC_EXPR_CONST)
      values[i] = expr.value;
    else if (expr.op == LLMC_EXPR_SYMBOL && (mayBeBatch || expr.value == batchSymbol))
      values[i] = 1;
    else if (expr.op == LLMC_EXPR_MUL && values[expr.a] >= 0 && values[expr.b] >= 0 &&
             __builtin_mul_overflow(values[expr.a], values[expr.b], &values[i]))
      values[i] = kUnknown;
  }
  std::string_view dimName = program->dimName(io, static_cast<uint32_t>(axis));
  // A name such as "batch_size * num_heads" that the compiler couldn't take apart says that the
  // size isn't the batch alone.
  bool opaque = exprs[index].op == LLMC_EXPR_SYMBOL &&
                dimName.find_first_of(" *+-/") != std::string_view::npos;
  if (values[index] >= 0 && !opaque)
    return values[index];
  // Some exporters name a size of the past that the present has as a number.
  if (io.pair != LLMC_NONE) {
    const llmc_io_record &present = program->outputs(*entry)[io.pair];
    if (present.dims.count == io.dims.count)
      if (std::optional<int64_t> size = constantDim(present, axis))
        return *size;
  }
  return Status::error(Code::InvalidArgument,
                       "can't generate: the size '{}' of the cache input '{}' is unknown", dimName,
                       program->string(io.name));
}

Result<Shape> SequenceInputs::shapeOf(const llmc_io_record &io, int64_t past,
                                      int64_t sequence) const {
  size_t rank = io.dims.count;
  Shape shape(rank, 1);
  switch (io.role) {
  case LLMC_ROLE_MASK:
    shape[rank - 1] = past + sequence;
    break;
  case LLMC_ROLE_USE_CACHE:
    break;
  case LLMC_ROLE_POSITIONS:
    // Models with several kinds of position (time, height, width) use the same for text.
    for (size_t axis = 0; axis + 1 < rank; ++axis)
      shape[axis] = constantDim(io, axis).value_or(1);
    shape[rank - 1] = sequence;
    break;
  case LLMC_ROLE_PAST:
    for (size_t axis = 0; axis < rank; ++axis) {
      if (axis == io.cache_axis) {
        shape[axis] = past;
        continue;
      }
      LLMC_TRY_ASSIGN(shape[axis], cacheDim(io, axis));
    }
    break;
  default:
    shape[rank - 1] = sequence;
    break;
  }
  return shape;
}

Result<std::vector<ConstTensor>> SequenceInputs::make(std::span<const int32_t> tokens,
                                                      size_t past) {
  std::span<const llmc_io_record> ios = program->inputs(*entry);
  std::vector<ConstTensor> tensors(ios.size());
  size_t sequence = tokens.size() - past;
  for (size_t i = 0; i < ios.size(); ++i) {
    const llmc_io_record &io = ios[i];
    ConstTensor &tensor = tensors[i];
    tensor.dtype = Dtype(io.dtype);
    LLMC_TRY_ASSIGN(tensor.shape,
                    shapeOf(io, static_cast<int64_t>(past), static_cast<int64_t>(sequence)));
    if (io.role == LLMC_ROLE_PAST)
      continue;
    LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(tensor.dtype, tensor.shape));
    LLMC_TRY(buffers[i].reserve(bytes, bytes + bytes / 2));
    std::byte *data = buffers[i].data();
    tensor.data = data;
    size_t count = bytes / dtypeSize(tensor.dtype);
    for (size_t at = 0; at < count; ++at) {
      int64_t value = 1; // MASK
      if (io.role == LLMC_ROLE_IDS)
        value = tokens[past + at];
      else if (io.role == LLMC_ROLE_POSITIONS || io.role == LLMC_ROLE_CACHE_POSITION)
        value = static_cast<int64_t>(past + at % sequence);
      else if (io.role == LLMC_ROLE_USE_CACHE)
        value = past > 0;
      writeNumber(tensor.dtype, data, at, value);
    }
  }
  return tensors;
}

} // namespace llmc
