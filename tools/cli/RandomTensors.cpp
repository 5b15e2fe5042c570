// SPDX-License-Identifier: Apache-2.0
//
// Which sizes and values a model is likely to accept, by the roles of its
// inputs. What it doesn't accept, the executor refuses.
#include "tools/cli/RandomTensors.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

namespace llmc::cli {

namespace {

/// SplitMix64: a few lines that give the same numbers everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// In [0, bound).
  uint64_t below(uint64_t bound) { return next() % bound; }
  /// About normal with variance 1, from sums alone, so that no math library is involved.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += double(next() >> 11) * 0x1p-53;
    return sum;
  }

private:
  uint64_t state;
};

uint16_t toHalf(double value) {
  double magnitude = std::fabs(value);
  auto sign = uint16_t(std::signbit(value) ? 0x8000 : 0);
  if (magnitude < 0x1p-14)
    return uint16_t(sign | uint16_t(std::nearbyint(magnitude * 0x1p24)));
  int exponent;
  double fraction = std::frexp(magnitude, &exponent);        // [0.5, 1)
  auto mantissa = uint16_t(std::nearbyint(fraction * 2048)); // 1024 to 2048
  return uint16_t(sign | (uint16_t(exponent + 13) << 10) + mantissa);
}

void store(OwnedTensor &tensor, uint64_t index, double value) {
  auto put = [&](auto number) {
    std::memcpy(&tensor.data[index * sizeof(number)], &number, sizeof(number));
  };
  switch (tensor.dtype) {
  case Dtype::F32:
    return put(float(value));
  case Dtype::F64:
    return put(value);
  case Dtype::F16:
    return put(toHalf(value));
  case Dtype::BF16:
    return put(uint16_t(std::bit_cast<uint32_t>(float(value)) >> 16));
  case Dtype::Bool:
    return put(uint8_t(value != 0));
  case Dtype::U8:
  case Dtype::I8:
    return put(int8_t(value));
  case Dtype::U16:
  case Dtype::I16:
    return put(int16_t(value));
  case Dtype::U32:
  case Dtype::I32:
    return put(int32_t(value));
  case Dtype::U64:
  case Dtype::I64:
    return put(int64_t(value));
  case Dtype::Invalid:
    break;
  }
}

bool isFloat(Dtype dtype) {
  return dtype == Dtype::F32 || dtype == Dtype::F64 || dtype == Dtype::F16 || dtype == Dtype::BF16;
}

/// Fills in the sizes of one entry's inputs.
class ShapeSolver {
public:
  ShapeSolver(const Program &program, const llmc_entry_record &entry)
      : program(program), entry(entry), symbols(program.symbols().size()) {}

  Status take(const llmc_io_record &io, const Shape &shape) {
    std::span<const uint32_t> dims = program.pool(io.dims);
    if (dims.size() != shape.size())
      return Status::error(Code::InvalidArgument, "input '{}' has {} dimensions; {} has {}",
                           program.string(io.name), dims.size(), shapeText(shape), shape.size());
    for (size_t axis = 0; axis < dims.size(); ++axis)
      bind(dims[axis], shape[axis]);
    return Status::ok();
  }

  /// What is likely for the sizes still open.
  void assumeRest() {
    evaluate();
    for (const llmc_io_record &io : program.inputs(entry)) {
      std::span<const uint32_t> dims = program.pool(io.dims);
      if (io.role == LLMC_ROLE_IDS && !dims.empty())
        sequence = values[dims.back()].value_or(sequence);
      if (io.role == LLMC_ROLE_PAST && io.cache_axis != LLMC_NONE)
        past = values[dims[io.cache_axis]].value_or(past);
    }
    for (const llmc_io_record &io : program.inputs(entry)) {
      std::span<const uint32_t> dims = program.pool(io.dims);
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        bool last = axis + 1 == dims.size();
        int64_t likely = 1;
        if (io.role == LLMC_ROLE_PAST)
          likely = axis == io.cache_axis ? past : 1;
        else if (io.role == LLMC_ROLE_MASK)
          likely = last ? past + sequence : 1;
        else if (io.role == LLMC_ROLE_EMBEDDINGS)
          likely = axis == 1 ? sequence : 1;
        else if (axis > 0 || io.role == LLMC_ROLE_CACHE_POSITION)
          likely = sequence;
        bind(dims[axis], likely);
      }
    }
    evaluate();
  }

  Result<Shape> shapeOf(const llmc_io_record &io) const {
    Shape shape;
    std::span<const uint32_t> dims = program.pool(io.dims);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      auto value = values[dims[axis]];
      if (!value)
        return Status::error(Code::InvalidArgument,
                             "the size '{}' of input '{}' is open; give it with --shape '{}=…'",
                             program.dimName(io, uint32_t(axis)), program.string(io.name),
                             program.string(io.name));
      shape.push_back(*value);
    }
    return shape;
  }

private:
  void bind(uint32_t expr, int64_t value) {
    const llmc_expr_record &record = program.exprs(entry)[expr];
    if (record.op == LLMC_EXPR_SYMBOL && !symbols[size_t(record.value)])
      symbols[size_t(record.value)] = value;
  }

  /// The values of all expressions, as far as they are known. Each refers to earlier ones only.
  void evaluate() {
    std::span<const llmc_expr_record> exprs = program.exprs(entry);
    values.assign(exprs.size(), std::nullopt);
    for (size_t i = 0; i < exprs.size(); ++i) {
      const llmc_expr_record &expr = exprs[i];
      int64_t value;
      if (expr.op == LLMC_EXPR_CONST)
        values[i] = expr.value;
      else if (expr.op == LLMC_EXPR_SYMBOL)
        values[i] = symbols[size_t(expr.value)];
      else if (!values[expr.a] || !values[expr.b])
        continue;
      else if (expr.op == LLMC_EXPR_ADD &&
               !__builtin_add_overflow(*values[expr.a], *values[expr.b], &value))
        values[i] = value;
      else if (expr.op == LLMC_EXPR_MUL &&
               !__builtin_mul_overflow(*values[expr.a], *values[expr.b], &value))
        values[i] = value;
    }
  }

  const Program &program;
  const llmc_entry_record &entry;
  std::vector<std::optional<int64_t>> symbols;
  std::vector<std::optional<int64_t>> values; // of the expressions
  int64_t sequence = 8;
  int64_t past = 0;
};

void fill(OwnedTensor &tensor, uint32_t role, Random &random) {
  uint64_t count = tensor.elements();
  auto row = tensor.dims.empty() ? 1 : uint64_t(tensor.dims.back());
  for (uint64_t i = 0; i < count; ++i) {
    double value;
    if (role == LLMC_ROLE_MASK || (tensor.dtype == Dtype::Bool && role != LLMC_ROLE_OTHER))
      value = 1;
    else if (role == LLMC_ROLE_POSITIONS || role == LLMC_ROLE_CACHE_POSITION)
      value = double(i % row);
    else if (isFloat(tensor.dtype))
      value = random.normal();
    else
      value = double(random.below(role == LLMC_ROLE_IDS ? 100 : 2));
    store(tensor, i, value);
  }
}

} // namespace

Status parseShape(const std::string &text, ShapeMap &shapes) {
  size_t equals = text.rfind('=');
  auto bad = [&] {
    return Status::error(Code::InvalidArgument, "'{}' is not of the form name=2x7", text);
  };
  if (equals == std::string::npos || equals == 0)
    return bad();
  Shape shape;
  const char *at = text.data() + equals + 1, *end = text.data() + text.size();
  while (at != end) {
    int64_t value;
    auto [rest, failure] = std::from_chars(at, end, value);
    if (failure != std::errc() || value < 0 || (rest != end && (*rest != 'x' || rest + 1 == end)))
      return bad();
    shape.push_back(value);
    at = rest == end ? end : rest + 1;
  }
  if (!shapes.emplace(text.substr(0, equals), std::move(shape)).second)
    return Status::error(Code::InvalidArgument, "input '{}' is given two shapes",
                         text.substr(0, equals));
  return Status::ok();
}

Result<std::vector<OwnedTensor>> randomInputs(const Program &program, size_t entryIndex,
                                              const ShapeMap &shapes, uint64_t seed) {
  const llmc_entry_record &entry = program.entries()[entryIndex];
  std::span<const llmc_io_record> ios = program.inputs(entry);
  ShapeSolver solver(program, entry);
  size_t known = 0;
  for (const llmc_io_record &io : ios) {
    auto given = shapes.find(std::string(program.string(io.name)));
    if (given == shapes.end())
      continue;
    ++known;
    LLMC_TRY(solver.take(io, given->second));
  }
  if (known != shapes.size())
    for (const auto &[name, shape] : shapes)
      if (std::ranges::none_of(
              ios, [&](const llmc_io_record &io) { return program.string(io.name) == name; }))
        return Status::error(Code::InvalidArgument, "there is no input '{}'", name);
  solver.assumeRest();

  Random random(seed);
  std::vector<OwnedTensor> tensors;
  for (const llmc_io_record &io : ios) {
    OwnedTensor tensor;
    tensor.name = program.string(io.name);
    tensor.dtype = Dtype(io.dtype);
    auto given = shapes.find(tensor.name);
    if (given != shapes.end()) {
      tensor.dims = given->second;
    } else {
      LLMC_TRY_ASSIGN(tensor.dims, solver.shapeOf(io));
    }
    LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(tensor.dtype, tensor.dims));
    tensor.data.resize(bytes);
    fill(tensor, io.role, random);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

} // namespace llmc::cli
