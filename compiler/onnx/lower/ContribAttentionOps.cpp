// SPDX-License-Identifier: Apache-2.0
//
// Rows of ONNX Runtime's attention operators and its rotary embedding. Packed
// projections, padding and caches are taken apart here; one `llm.attention`
// remains. Sequences of a batch may have pasts of different lengths.
#include "compiler/onnx/OpTable.h"
#include "compiler/onnx/lower/AttentionParts.h"

#include <limits>

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {
namespace {

constexpr const char *kMs = "com.microsoft";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// (batch, sequence, heads, size) as (batch, heads, sequence, size), and back.
Tensor swapHeads(Lowering &l, Tensor x) { return x ? l.transpose(x, {0, 2, 1, 3}) : Tensor(); }

/// Part `i` of `count` along `axis`, which then is gone.
Tensor partOf(Lowering &l, Tensor x, int64_t axis, int64_t i) {
  Sizes dims = x.dims();
  dims.erase(dims.begin() + axis);
  return l.reshape(l.sliceAxis(x, axis, l.size(i), l.size(1)), dims);
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

/// Rotates by the rows of the tables at `positions`, (batch or 1, sequence).
Tensor rotated(Lowering &l, Tensor x, Tensor positions, Tensor cos, Tensor sin, bool headsLast,
               bool interleaved) {
  cos = l.gather(cos, positions, 0);
  sin = l.gather(sin, positions, 0);
  if (!x || !cos || !sin)
    return {};
  if (cos.rank() != 3 || sin.rank() != 3)
    return l.fail(1204, l.node.getOpType() + " needs tables of two dimensions and positions of "
                                             "shape (batch, sequence)");
  sin = l.withDims(sin, cos.dims(), "cos and sin of " + l.node.getOpType());
  cos = l.unsqueeze(cos, headsLast ? 2 : 1);
  sin = l.unsqueeze(sin, headsLast ? 2 : 1);
  if (!cos || !sin)
    return {};
  return l.make<llm::RopeOp>(x.dims(), x.elementType(), l.value(x), l.value(cos), l.value(sin),
                             interleaved);
}

LogicalResult rotaryEmbedding(Lowering &l) {
  Tensor x = l.input(0), positions = l.input(1), cos = l.input(2), sin = l.input(3);
  if (!x || !positions || !cos || !sin)
    return failure();
  if ((x.rank() != 3 && x.rank() != 4) || cos.rank() != 2)
    return l.result(l.fail(1204, "RotaryEmbedding needs an input of rank 3 or 4 and tables of rank "
                                 "2, not shapes " +
                                     l.text(x.dims()) + " and " + l.text(cos.dims())));
  bool packed = x.rank() == 3;
  Sizes dims = x.dims();
  AffineExpr sequence = dims[packed ? 1 : 2];
  if (packed) {
    int64_t heads = l.intAttr("num_heads", 0);
    // Without a number of heads, their size is that of the tables.
    AffineExpr size = heads > 0 ? l.symbols.floorDiv(dims[2], l.size(heads))
                                : l.symbols.mul(cos.dim(1), l.size(2));
    AffineExpr count = heads > 0 ? l.size(heads) : l.symbols.floorDiv(dims[2], size);
    x = l.reshape(x, {dims[0], dims[1], count, size});
  }
  positions = l.cast(positions, l.i64());
  if (positions && positions.rank() == 1) // the first position of every sequence
    positions = l.add(l.reshape(positions, {l.size(1), l.size(1)}),
                      l.iota(l.size(0), 1, sequence, l.i64()));
  Tensor y = rotated(l, x, positions, cos, sin, packed, l.intAttr("interleaved", 0) != 0);
  return l.result(y && packed ? l.reshape(y, dims) : y);
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// `filter` where `valid` is false, added to the scores.
void hide(Lowering &l, Visibility &see, Tensor valid, double filter, Type type) {
  Tensor mask = l.select(valid, l.scalar(0, type), l.scalar(filter, type));
  if (see.additive)
    mask = l.add(see.additive, mask);
  see.additive = toRank4(l, mask);
}

/// The integer mask of Attention and MultiHeadAttention: lengths, ends and starts, or a matrix.
LogicalResult readPadding(Lowering &l, unsigned input, AffineExpr batch, AffineExpr queries,
                          AffineExpr keys, AffineExpr past, Type type, Visibility &see) {
  Tensor mask = l.input(input);
  if (!mask)
    return failure();
  double filter = l.floatAttr("mask_filter_value", -10000.0);
  mask = l.cast(mask, l.i64());
  AffineExpr one = l.size(1);
  Sizes dims = mask.dims();
  Tensor zero = l.scalar(0, l.i64());
  switch (mask.rank()) {
  case 1: {
    bool starts = dims[0] == l.symbols.mul(batch, l.size(2)) && dims[0] != batch;
    AffineExpr more = l.symbols.add(l.symbols.mul(batch, l.size(3)), l.size(2));
    if (!starts && dims[0] == more) {
      l.fail(1209, l.node.getOpType() + " with a mask of cumulated lengths isn't supported");
      return failure();
    }
    Tensor key = l.iota(l.size(0), 1, keys, l.i64());
    auto bound = [&](AffineExpr from) {
      return l.reshape(l.sliceAxis(mask, 0, from, batch), {batch, one, one, one});
    };
    Tensor valid = l.compare(ElementKind::Less, key, bound(l.size(0)));
    if (starts)
      valid = l.elementwise(ElementKind::And,
                            {valid, l.compare(ElementKind::GreaterEqual, key, bound(batch))});
    else if (!l.agree(dims[0], batch, "the mask and the batch of " + l.node.getOpType()))
      return failure();
    hide(l, see, valid, filter, type);
    break;
  }
  case 2: // (batch, keys)
    mask = l.reshape(mask, {dims[0], one, one, dims[1]});
    hide(l, see, l.compare(ElementKind::Greater, mask, zero), filter, type);
    break;
  case 3: // (batch, queries, keys)
    mask = l.reshape(mask, {dims[0], one, dims[1], dims[2]});
    hide(l, see, l.compare(ElementKind::Greater, mask, zero), filter, type);
    break;
  case 4: // (batch, 1, longest, longest)
    mask = l.sliceAxis(l.sliceAxis(mask, 2, past, queries), 3, l.size(0), keys);
    hide(l, see, l.compare(ElementKind::Greater, mask, zero), filter, type);
    break;
  default:
    l.fail(1204, "the mask of " + l.node.getOpType() + " has shape " + l.text(dims));
  }
  return failure(l.failed());
}

void addBias(Lowering &l, Visibility &see, Tensor bias) {
  see.additive = toRank4(l, see.additive ? l.add(see.additive, bias) : bias);
}

/// The attribute `scale`, of which 0 means the default.
std::optional<double> scaleOf(Lowering &l) {
  double scale = l.floatAttr("scale", 0.0);
  return scale == 0.0 ? std::nullopt : std::optional(scale);
}

/// (batch, queries, heads, size) as (batch, queries, hidden).
Tensor mergeHeads(Lowering &l, Tensor y) {
  return y ? l.reshape(y, {y.dim(0), y.dim(1), l.symbols.mul(y.dim(2), y.dim(3))}) : Tensor();
}

//===----------------------------------------------------------------------===//
// GroupQueryAttention
//===----------------------------------------------------------------------===//

/// One more key of score `sinks`, (heads), whose value is 0: takes its share of the probability.
void addSinks(Lowering &l, AttentionInputs &in, Visibility &see, Tensor sinks) {
  if (!in.key || !in.value || !sinks)
    return;
  Type type = in.query.elementType();
  AffineExpr one = l.size(1), heads = in.query.dim(2), queries = in.query.dim(1),
             keys = in.key.dim(2);
  Tensor mask = see.additive ? see.additive : l.scalar(0, type);
  if (see.allowed)
    mask = l.select(see.allowed, mask, l.scalar(-kInfinity, type));
  Sizes dims{mask && mask.rank() == 4 ? mask.dim(0) : one, heads, queries, keys};
  mask = l.broadcast(mask, dims);
  dims[3] = one;
  mask = l.concat(3, {mask, l.broadcast(l.reshape(sinks, {one, heads, one, one}), dims)});
  for (Tensor *x : {&in.key, &in.value}) {
    Sizes line = x->dims();
    line[2] = one;
    *x = l.concat(2, {*x, l.filled(line, 0, type)});
  }
  see.allowed = Tensor();
  see.additive = mask;
}

/// `fresh`, (batch, heads, sequence, size), behind each sequence's past.
Tensor withPast(Lowering &l, unsigned input, Tensor fresh, Tensor lengths, AffineExpr total) {
  Tensor past = l.input(input);
  if (!past || !fresh)
    return {};
  Sizes dims = fresh.dims();
  if (past.rank() != 4 || past.elementType() != fresh.elementType())
    return l.fail(1204, "the past of GroupQueryAttention must have four dimensions and the "
                        "query's type, not shape " +
                            l.text(past.dims()));
  Sizes wanted = dims;
  wanted[2] = past.dim(2);
  past = l.withDims(past, wanted, "past and new keys of GroupQueryAttention");
  // A past that is longer than what there will be is a buffer with room for more.
  dims[2] = total ? l.symbols.max(wanted[2], total) : l.symbols.add(wanted[2], dims[2]);
  return past ? l.make<llm::KvConcatOp>(dims, fresh.elementType(), l.value(past), l.value(fresh),
                                        l.value(lengths))
              : Tensor();
}

LogicalResult groupQueryAttention(Lowering &l) {
  Tensor query = l.input(0);
  int64_t heads = l.intAttr("num_heads", 0), kvHeads = l.intAttr("kv_num_heads", 0);
  if (!query)
    return failure();
  if (query.rank() != 3 || heads <= 0 || kvHeads <= 0)
    return l.result(l.fail(1203, "GroupQueryAttention needs num_heads, kv_num_heads and a query of "
                                 "three dimensions, not shape " +
                                     l.text(query.dims())));
  if (l.has(12) || l.has(13))
    return l.result(l.fail(1209, "GroupQueryAttention with a quantized cache isn't supported"));
  if (l.wants(3))
    return l.result(l.fail(1209, "the output output_qk of GroupQueryAttention isn't supported"));
  Tensor key, value;
  AffineExpr batch = query.dim(0), sequence = query.dim(1);
  if (!l.has(1)) { // query, key and value in one
    AffineExpr size = l.symbols.floorDiv(query.dim(2), l.size(heads + 2 * kvHeads));
    Tensor all = l.reshape(query, {batch, sequence, l.size(heads + 2 * kvHeads), size});
    query = l.sliceAxis(all, 2, l.size(0), l.size(heads));
    key = l.sliceAxis(all, 2, l.size(heads), l.size(kvHeads));
    value = l.sliceAxis(all, 2, l.size(heads + kvHeads), l.size(kvHeads));
  } else {
    query = splitHeads(l, query, heads, "num_heads");
    key = splitHeads(l, l.input(1), kvHeads, "kv_num_heads");
    value = splitHeads(l, l.input(2), kvHeads, "kv_num_heads");
  }
  for (auto [i, x] : {std::pair(14u, &query), std::pair(15u, &key)})
    if (*x && l.has(i)) {
      Tensor scale = l.withDims(l.input(i), {x->dim(3)}, "head size and its norm's scale");
      if (!scale)
        return failure();
      *x = l.make<llm::RmsNormOp>(x->dims(), x->elementType(), l.value(*x), l.value(scale), 3,
                                  llvm::APFloat(l.floatAttr("qk_norm_epsilon", 1e-6)));
    }

  // How many tokens of each sequence came before, (batch, 1): the first call's are all new, and
  // some of them may be padding at the end.
  Tensor lengths = l.filled({batch, l.size(1)}, 0, l.i64());
  AffineExpr total;
  bool hasPast = l.has(3) || l.has(4);
  if (hasPast) {
    Tensor last = l.reshape(l.cast(l.input(5), l.i64()), {batch, l.size(1)});
    lengths = l.add(last, l.integer(l.symbols.sub(l.size(1), sequence), l.i64()));
    lengths = l.with(ElementKind::Max, lengths, 0);
    if (Tensor given = l.has(6) ? l.input(6) : Tensor())
      if (const Content *content = given.content(); content && content->elements.size() == 1)
        total = content->elements[0].divisor == 1 ? content->elements[0].size : AffineExpr();
  }
  if (l.intAttr("do_rotary", 0) != 0) {
    Tensor positions = l.has(9) ? l.cast(l.input(9), l.i64())
                                : l.add(lengths, l.iota(l.size(0), 1, sequence, l.i64()));
    bool interleaved = l.intAttr("rotary_interleaved", 0) != 0;
    Tensor cos = l.input(7), sin = l.input(8);
    query = rotated(l, query, positions, cos, sin, /*headsLast=*/true, interleaved);
    key = rotated(l, key, positions, cos, sin, /*headsLast=*/true, interleaved);
  }
  key = swapHeads(l, key);
  value = swapHeads(l, value);
  if (hasPast) {
    key = withPast(l, 3, key, lengths, total);
    value = withPast(l, 4, value, lengths, total);
  }
  if (!query || !key || !value || !lengths)
    return failure();

  Visibility see;
  int64_t window = l.intAttr("local_window_size", -1);
  bool causal = l.intAttr("causal", 1) != 0;
  if (!hasPast && causal) {
    see.causalOffset = l.size(0);
    if (window > 0)
      see.window = window;
  } else if (hasPast) {
    Tensor position = l.iota(l.size(0), 1, key.dim(2), l.i64());
    Tensor before = l.reshape(lengths, {batch, l.size(1), l.size(1), l.size(1)});
    Tensor own =
        l.add(before, l.reshape(l.iota(l.size(0), 1, sequence, l.i64()), {sequence, l.size(1)}));
    Tensor end =
        causal ? own : l.add(before, l.integer(l.symbols.sub(sequence, l.size(1)), l.i64()));
    restrict(l, see, l.compare(ElementKind::LessEqual, position, end));
    if (window > 0)
      restrict(
          l, see,
          l.compare(ElementKind::Greater, position, l.with(ElementKind::Sub, own, double(window))));
  }
  if (l.has(10))
    addBias(l, see, l.input(10));
  Tensor presentKey = key, presentValue = value;
  AttentionInputs in{
      query, key, value, /*headsLast=*/true, scaleOf(l), l.floatAttr("softcap", 0.0)};
  if (l.has(11) || l.intAttr("smooth_softmax", -1) == 1) {
    if (see.causalOffset) { // as a mask, which the sinks extend
      Tensor row = l.reshape(l.iota(l.size(0), 1, sequence, l.i64()), {sequence, l.size(1)});
      Tensor column = l.iota(l.size(0), 1, sequence, l.i64());
      restrict(l, see, l.compare(ElementKind::LessEqual, column, row));
      if (see.window)
        restrict(
            l, see,
            l.compare(ElementKind::Greater, column, l.with(ElementKind::Sub, row, double(window))));
      see.causalOffset = AffineExpr();
      see.window.reset();
    }
    addSinks(l, in, see,
             l.has(11) ? l.input(11) : l.filled({l.size(heads)}, 0, query.elementType()));
  }
  Tensor y = mergeHeads(l, attend(l, in, see));
  return l.results({y, presentKey, presentValue});
}

//===----------------------------------------------------------------------===//
// MultiHeadAttention and Attention
//===----------------------------------------------------------------------===//

/// `x` plus elements [start, start + width) of `bias`, where there is one.
Tensor withBias(Lowering &l, Tensor x, Tensor bias, AffineExpr &start) {
  if (!x || !bias)
    return x;
  AffineExpr width = x.dims().back();
  Tensor part = l.sliceAxis(bias, 0, start, width);
  start = l.symbols.add(start, width);
  return l.add(x, part);
}

LogicalResult multiHeadAttention(Lowering &l) {
  int64_t heads = l.intAttr("num_heads", 0);
  Tensor query = l.input(0), bias = l.has(3) ? l.input(3) : Tensor();
  if (!query || l.failed())
    return failure();
  if (heads <= 0)
    return l.result(l.fail(1203, "MultiHeadAttention needs num_heads"));
  if (l.has(8) || l.has(9))
    return l.result(
        l.fail(1209, "MultiHeadAttention with a shared buffer or beams isn't supported"));
  if (l.wants(3))
    return l.result(l.fail(1209, "the output qk of MultiHeadAttention isn't supported"));
  Tensor key, value; // (batch, keys, heads, size), or (batch, heads, keys, size) when `swapped`
  bool swapped = false;
  AffineExpr start = l.size(0);
  auto split = [&](Tensor x) { return splitHeads(l, x, heads, "num_heads"); };
  if (query.rank() == 5) { // (batch, sequence, heads, 3, size)
    key = partOf(l, query, 3, 1);
    value = partOf(l, query, 3, 2);
    query = partOf(l, query, 3, 0);
    for (Tensor *x : {&query, &key, &value}) {
      Sizes dims = x->dims();
      *x = split(withBias(l, mergeHeads(l, *x), bias, start));
    }
  } else if (Tensor packed = l.has(1) ? l.input(1) : Tensor(); packed && packed.rank() == 5) {
    query = split(withBias(l, query, bias, start)); // (batch, keys, heads, 2, size)
    key = split(withBias(l, mergeHeads(l, partOf(l, packed, 3, 0)), bias, start));
    value = split(withBias(l, mergeHeads(l, partOf(l, packed, 3, 1)), bias, start));
  } else {
    if (!l.has(1) || !l.has(2))
      return l.result(l.fail(1202, "MultiHeadAttention needs key and value"));
    query = split(withBias(l, query, bias, start));
    key = l.input(1);
    value = l.input(2);
    if (!key || !value)
      return failure();
    swapped = key.rank() == 4;
    if (!swapped) {
      key = split(withBias(l, key, bias, start));
      value = split(withBias(l, value, bias, start));
    }
  }
  if (!swapped) {
    key = swapHeads(l, key);
    value = swapHeads(l, value);
  }
  AffineExpr past = l.size(0);
  if (l.has(6) && l.has(7)) {
    Tensor pastKey = l.input(6), pastValue = l.input(7);
    if (!pastKey || !pastValue || pastKey.rank() != 4)
      return l.result(pastKey ? l.fail(1204, "MultiHeadAttention needs a past of rank 4")
                              : pastKey);
    past = pastKey.dim(2);
    key = l.concat(2, {pastKey, key});
    value = l.concat(2, {pastValue, value});
  }
  if (!query || !key || !value)
    return failure();
  Visibility see;
  if (l.has(4) && failed(readPadding(l, 4, query.dim(0), query.dim(1), key.dim(2), past,
                                     query.elementType(), see)))
    return failure();
  if (l.has(5))
    addBias(l, see, l.input(5));
  if (l.intAttr("unidirectional", 0) != 0)
    see.causalOffset = past;
  Tensor y = attend(l, {query, key, value, /*headsLast=*/true, scaleOf(l)}, see);
  return l.results({mergeHeads(l, y), key, value});
}

LogicalResult attention(Lowering &l) {
  Tensor x = l.input(0), weights = l.input(1), bias = l.has(2) ? l.input(2) : Tensor();
  int64_t heads = l.intAttr("num_heads", 0);
  if (!x || !weights || l.failed())
    return failure();
  if (heads <= 0 || x.rank() != 3 || weights.rank() != 2)
    return l.result(l.fail(1203, "Attention needs num_heads, an input of three dimensions and "
                                 "weights of two, not shapes " +
                                     l.text(x.dims()) + " and " + l.text(weights.dims())));
  if (l.intAttr("do_rotary", 0) != 0 || l.intAttr("past_present_share_buffer", 0) != 0 || l.has(6))
    return l.result(
        l.fail(1209, "Attention with a rotary embedding or a shared buffer isn't supported"));
  Tensor all = l.matmul(x, weights);
  if (bias)
    all = l.add(all, bias);
  if (!all)
    return failure();
  AffineExpr third = l.symbols.floorDiv(all.dim(2), l.size(3));
  Sizes widths{third, third, third};
  if (auto given = l.intsAttr("qkv_hidden_sizes"); given && given->size() == 3)
    for (auto [width, size] : llvm::zip_equal(widths, *given))
      width = l.size(size);
  Tensor parts[3];
  AffineExpr start = l.size(0);
  for (auto [part, width] : llvm::zip_equal(parts, widths)) {
    part = splitHeads(l, l.sliceAxis(all, 2, start, width), heads, "num_heads");
    start = l.symbols.add(start, width);
  }
  auto [query, key, value] = parts;
  key = swapHeads(l, key);
  value = swapHeads(l, value);
  AffineExpr past = l.size(0);
  if (l.has(4)) { // (2, batch, heads, past, size)
    Tensor both = l.input(4);
    if (!both || both.rank() != 5)
      return l.result(both ? l.fail(1204, "Attention needs a past of rank 5") : both);
    past = both.dim(3);
    key = l.concat(2, {partOf(l, both, 0, 0), key});
    value = l.concat(2, {partOf(l, both, 0, 1), value});
  }
  if (!query || !key || !value)
    return failure();
  Visibility see;
  if (l.has(3) &&
      failed(readPadding(l, 3, x.dim(0), x.dim(1), key.dim(2), past, x.elementType(), see)))
    return failure();
  if (l.has(5))
    addBias(l, see, l.input(5));
  if (l.intAttr("unidirectional", 0) != 0)
    see.causalOffset = past;
  SmallVector<Tensor> results{
      mergeHeads(l, attend(l, {query, key, value, /*headsLast=*/true, scaleOf(l)}, see))};
  if (l.wants(1))
    results.push_back(l.concat(0, {l.unsqueeze(key, 0), l.unsqueeze(value, 0)}));
  return l.results(results);
}

constexpr const char *kSearch = "export the plain decoder instead: `llmc generate` searches itself";
constexpr const char *kServing = "an operator of servers; export plain attention instead";

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {kMs, "Attention",           1, attention, "without do_rotary, shared buffers, cumulated lengths"},
    {kMs, "BeamSearch",          1, nullptr, kSearch},
    {kMs, "GreedySearch",        1, nullptr, kSearch},
    {kMs, "GroupQueryAttention", 1, groupQueryAttention, "without quantized caches and output_qk"},
    {kMs, "MultiHeadAttention",  1, multiHeadAttention, "without shared buffers, beams, cumulated lengths, qk"},
    {kMs, "PagedAttention",      1, nullptr, kServing},
    {kMs, "RotaryEmbedding",     1, rotaryEmbedding},
    {kMs, "Sampling",            1, nullptr, kSearch},
    {kMs, "SparseAttention",     1, nullptr, kServing},
    {kMs, "WhisperBeamSearch",   1, nullptr, kSearch},
};
// clang-format on

} // namespace

ArrayRef<OpRow> contribAttentionRows() { return kRows; }

} // namespace llmc::onnx
