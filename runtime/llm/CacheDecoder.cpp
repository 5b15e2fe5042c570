// SPDX-License-Identifier: Apache-2.0
//
// The layout of a cache tensor is the exporter's; only the dimension that grows
// is known. (outer, tokens, inner) describes them all.
#include "runtime/llm/CacheDecoder.h"

#include <algorithm>
#include <cstring>

namespace llmc {

/// Buffers grow to a multiple of this many tokens, so that a new token rarely needs memory.
static constexpr size_t kGrowTokens = 256;

Result<std::vector<CacheDecoder::Pair>> CacheDecoder::pairTensors(const Program &program,
                                                                  const llmc_entry_record &entry) {
  std::span<const llmc_io_record> ins = program.inputs(entry);
  std::span<const llmc_io_record> outs = program.outputs(entry);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < ins.size(); ++i) {
    const llmc_io_record &past = ins[i];
    if (past.role != LLMC_ROLE_PAST)
      continue;
    if (past.pair == LLMC_NONE)
      return Status::error(Code::InvalidArgument,
                           "can't generate: no output continues the cache input '{}'",
                           program.string(past.name));
    const llmc_io_record &present = outs[past.pair];
    if (present.dtype != past.dtype || present.dims.count != past.dims.count ||
        present.cache_axis != past.cache_axis)
      return Status::error(Code::InvalidArgument,
                           "can't generate: the output '{}' has another type or rank than the "
                           "cache input '{}' that it continues",
                           program.string(present.name), program.string(past.name));
    pairs.push_back({i, past.pair, past.cache_axis, Dtype(past.dtype)});
  }
  return pairs;
}

Result<std::unique_ptr<Decoder>> CacheDecoder::create(const std::shared_ptr<Executor> &executor,
                                                      size_t entry, int64_t capacity) {
  const Program &program = executor->program();
  const llmc_entry_record &record = program.entries()[entry];
  LLMC_TRY_ASSIGN(LogitsReader reader, LogitsReader::create(program, record));
  LLMC_TRY_ASSIGN(SequenceInputs inputs, SequenceInputs::create(program, entry));
  LLMC_TRY_ASSIGN(std::vector<Pair> pairs, pairTensors(program, record));
  std::unique_ptr<CacheDecoder> decoder(
      new CacheDecoder(executor, entry, std::move(inputs), std::move(reader)));
  for (const Pair &pair : pairs)
    decoder->caches.push_back({pair, {}, {}, {}});
  decoder->capacity = static_cast<size_t>(capacity);
  return std::unique_ptr<Decoder>(std::move(decoder));
}

std::string CacheDecoder::nameOf(const Cache &cache) const {
  return std::string(
      program.string(program.outputs(program.entries()[entry])[cache.pair.output].name));
}

Decoder::Step CacheDecoder::step() const {
  if (inputs.fixedStep() != 0)
    return {inputs.fixedStep(), true};
  return {kStepTokens, false};
}

/// Gives `past`, which has the shape of a cache of that length, its data.
Status CacheDecoder::bindPast(Cache &cache, ConstTensor &past) {
  if (taken == 0) {
    // An empty cache; a state of fixed size starts as zeros.
    LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(past.dtype, past.shape));
    if (bytes > 0) {
      LLMC_TRY(cache.current.reserve(bytes));
      std::memset(cache.current.data(), 0, bytes);
    }
    cache.shape = past.shape;
  }
  past.shape = cache.shape;
  past.data = cache.current.data();
  return Status::ok();
}

Result<Tensor> CacheDecoder::preparePresent(Cache &cache, const Shape &past, const Shape &shape,
                                            size_t total) {
  Shape expected = past;
  if (cache.pair.axis != LLMC_NONE)
    expected[cache.pair.axis] = static_cast<int64_t>(total);
  if (shape != expected)
    return Status::error(Code::InvalidArgument,
                         "can't generate: after {} tokens the cache output '{}' has shape {} "
                         "where {} was expected",
                         total, nameOf(cache), shapeText(shape), shapeText(expected));
  LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(cache.pair.dtype, shape));
  uint64_t preferred = bytes;
  if (cache.pair.axis != LLMC_NONE) {
    size_t rounded = (total + kGrowTokens - 1) / kGrowTokens * kGrowTokens;
    preferred = bytes / total * std::max(total, std::min(rounded, capacity));
  }
  LLMC_TRY(cache.next.reserve(bytes, preferred));
  return Tensor{cache.pair.dtype, shape, cache.next.data()};
}

Status CacheDecoder::advance(std::span<const int32_t> tokens, const CallOptions &options) {
  LLMC_TRY_ASSIGN(std::vector<ConstTensor> given, inputs.make(tokens, taken));
  for (Cache &cache : caches)
    LLMC_TRY(bindPast(cache, given[cache.pair.input]));
  LLMC_TRY_ASSIGN(std::vector<Shape> shapes, execContext->outputShapes(entry, given, options));
  std::vector<Tensor> results(shapes.size());
  for (Cache &cache : caches) {
    LLMC_TRY_ASSIGN(results[cache.pair.output],
                    preparePresent(cache, given[cache.pair.input].shape, shapes[cache.pair.output],
                                   tokens.size()));
  }
  std::span<const llmc_io_record> ios = program.outputs(program.entries()[entry]);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (results[i].dtype == Dtype::Invalid) {
      LLMC_TRY_ASSIGN(results[i], outputs.prepare(i, Dtype(ios[i].dtype), shapes[i]));
    }
  }
  LLMC_TRY(execContext->run(entry, given, results, options));
  LLMC_TRY(logitsReader.read(results[logitsReader.output()]));
  for (Cache &cache : caches) {
    std::swap(cache.current, cache.next);
    cache.shape = shapes[cache.pair.output];
  }
  taken = tokens.size();
  return Status::ok();
}

Status CacheDecoder::truncate(size_t length) {
  bool canCut =
      std::ranges::all_of(caches, [](const Cache &cache) { return cache.pair.axis != LLMC_NONE; });
  if (length == 0 || !canCut) {
    taken = 0;
    return Status::ok();
  }
  for (Cache &cache : caches) {
    // (outer, tokens, inner): each outer row's first `length` tokens move up behind the last row's.
    size_t outer = 1, inner = dtypeSize(cache.pair.dtype);
    for (size_t axis = 0; axis < cache.shape.size(); ++axis) {
      auto dim = static_cast<size_t>(cache.shape[axis]);
      if (axis < cache.pair.axis)
        outer *= dim;
      else if (axis > cache.pair.axis)
        inner *= dim;
    }
    for (size_t row = 1; row < outer; ++row)
      std::memmove(cache.current.data() + row * length * inner,
                   cache.current.data() + row * taken * inner, length * inner);
    cache.shape[cache.pair.axis] = static_cast<int64_t>(length);
  }
  taken = length;
  return Status::ok();
}

} // namespace llmc
