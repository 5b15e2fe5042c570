// SPDX-License-Identifier: Apache-2.0
//
// Rows of attention and rotary embedding. Heads packed in the last dimension
// are unpacked here, so that the rest of the compiler sees four dimensions.
#include "compiler/onnx/OpTable.h"
#include "compiler/onnx/lower/AttentionParts.h"

#include <cmath>
#include <limits>

using namespace mlir;
using llmc::llm::ElementKind;

namespace llmc::onnx {

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

Tensor splitHeads(Lowering &l, Tensor x, int64_t heads, StringRef what) {
  if (!x)
    return {};
  if (heads <= 0)
    return l.fail(1203, l.node.getOpType() + " needs " + what + " for an input of rank 3");
  AffineExpr size = l.symbols.floorDiv(x.dim(2), l.size(heads));
  return l.reshape(x, {x.dim(0), x.dim(1), l.size(heads), size});
}

Tensor toRank4(Lowering &l, Tensor x) {
  if (!x)
    return {};
  Sizes dims = x.dims();
  while (dims.size() < 4)
    dims.insert(dims.begin(), l.size(1));
  return l.reshape(x, dims);
}

void restrict(Lowering &l, Visibility &see, Tensor condition) {
  if (condition)
    see.allowed = toRank4(l, see.allowed ? l.elementwise(ElementKind::And, {see.allowed, condition})
                                         : condition);
}

/// One mask of both kinds.
static Tensor combined(Lowering &l, const Visibility &see) {
  if (!see.additive || !see.allowed)
    return see.additive ? see.additive : see.allowed;
  Type type = see.additive.elementType();
  return l.select(see.allowed, see.additive,
                  l.scalar(-std::numeric_limits<double>::infinity(), type));
}

Tensor attend(Lowering &l, AttentionInputs in, const Visibility &see) {
  if (!in.query || !in.key || !in.value || l.failed())
    return {};
  std::string op = l.node.getOpType().str();
  int64_t headAxis = in.headsLast ? 2 : 1;
  if (in.query.rank() != 4 || in.key.rank() != 4 || in.value.rank() != 4)
    return l.fail(1204, op + " needs query, key and value of four dimensions");
  AffineExpr keys =
      l.agree(in.key.dim(2), in.value.dim(2), "the number of keys and values of " + op);
  AffineExpr batch =
      l.agree(in.query.dim(0), in.key.dim(0), "the batches of query and key of " + op);
  AffineExpr width = l.agree(in.query.dim(3), in.key.dim(3), "the sizes of query and key of " + op);
  if (!keys || !batch || !width)
    return {};
  std::optional<int64_t> heads = llm::constantOf(in.query.dim(headAxis)),
                         kvHeads = llm::constantOf(in.key.dim(1));
  if (heads && kvHeads && (*kvHeads == 0 || *heads % *kvHeads != 0))
    return l.fail(1204, op + " has " + Twine(*heads) + " query heads, no multiple of " +
                            Twine(*kvHeads) + " key heads");
  if (!in.scale) {
    std::optional<int64_t> size = llm::constantOf(width);
    if (!size || *size <= 0)
      return l.fail(1205, op + " without a scale needs a constant head size");
    in.scale = 1.0 / std::sqrt(double(*size));
  }
  Tensor mask = combined(l, see);
  if (!mask && (see.additive || see.allowed))
    return {};
  Builder &b = l.builder;
  Sizes dims = in.query.dims();
  dims[3] = in.value.dim(3);
  auto offset =
      see.causalOffset ? llm::DimsAttr::get(b.getContext(), {see.causalOffset}) : llm::DimsAttr();
  return l.make<llm::AttentionOp>(dims, in.query.elementType(), l.value(in.query), l.value(in.key),
                                  l.value(in.value), mask ? l.value(mask) : Value(),
                                  b.getF64FloatAttr(*in.scale), offset,
                                  see.window ? b.getI64IntegerAttr(*see.window) : IntegerAttr(),
                                  in.softcap > 0 ? b.getF64FloatAttr(in.softcap) : FloatAttr(),
                                  llm::DimsAttr(), in.headsLast ? b.getUnitAttr() : UnitAttr());
}

namespace {

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

LogicalResult rotaryEmbedding(Lowering &l) {
  Tensor x = l.input(0), cos = l.input(1), sin = l.input(2);
  if (!x || !cos || !sin)
    return failure();
  if (x.rank() != 3 && x.rank() != 4)
    return l.result(
        l.fail(1204, "RotaryEmbedding needs rank 3 or 4, not shape " + l.text(x.dims())));
  bool packed = x.rank() == 3;
  Sizes dims = x.dims();
  if (packed)
    x = splitHeads(l, x, l.intAttr("num_heads", 0), "num_heads");
  if (l.has(3)) {
    Tensor positions = l.input(3);
    cos = l.gather(cos, positions, 0);
    sin = l.gather(sin, positions, 0);
  }
  if (!x || !cos || !sin)
    return failure();
  if (cos.rank() != 3 || sin.rank() != 3)
    return l.result(l.fail(1204, "RotaryEmbedding needs cos and sin of rank 3 (batch, sequence, "
                                 "half), not shapes " +
                                     l.text(cos.dims()) + " and " + l.text(sin.dims())));
  int64_t rotated = l.intAttr("rotary_embedding_dim", 0);
  AffineExpr full = rotated ? l.size(rotated) : x.dims().back();
  AffineExpr half = l.symbols.floorDiv(full, l.size(2));
  for (Tensor *table : {&cos, &sin}) {
    Sizes want = table->dims();
    want.back() = half;
    *table =
        l.withDims(*table, want, "half of the rotated size and the width of the cos/sin table");
    // (batch, sequence, half): the heads are before the sequence, or after it when packed.
    *table = l.unsqueeze(*table, packed ? 2 : 1);
    if (!*table)
      return failure();
  }
  Tensor y = l.make<llm::RopeOp>(x.dims(), x.elementType(), l.value(x), l.value(cos), l.value(sin),
                                 l.intAttr("interleaved", 0) != 0);
  return l.result(packed ? l.reshape(y, dims) : y);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// The explicit mask, extended by invisible keys where it is shorter than the keys.
bool readMask(Lowering &l, AffineExpr keys, Visibility &see) {
  Tensor mask = l.input(3);
  if (!mask)
    return false;
  if (mask.rank() == 0 || mask.rank() > 4) {
    l.fail(1204, "the mask of Attention has shape " + l.text(mask.dims()));
    return false;
  }
  bool boolean = !mask.isFloat();
  if (boolean && mask.elementType() != l.i1()) {
    l.fail(1206, "the mask of Attention must be boolean or of the query's type");
    return false;
  }
  Sizes dims = mask.dims();
  if (dims.back() != keys) {
    l.symbols.requireAtMost(dims.back(), keys, "the mask of Attention covers at most all keys");
    if (llm::constantOf(dims.back()) && llm::constantOf(keys) &&
        *llm::constantOf(dims.back()) > *llm::constantOf(keys)) {
      l.fail(1204, "the mask of Attention has " + l.symbols.text(dims.back()) + " keys of " +
                       l.symbols.text(keys));
      return false;
    }
    dims.back() = keys;
    Tensor filling = boolean
                         ? l.scalar(0, l.i1())
                         : l.scalar(-std::numeric_limits<double>::infinity(), mask.elementType());
    Sizes low(dims.size(), l.size(0));
    mask =
        l.make<llm::PadOp>(dims, mask.elementType(), l.value(mask), l.value(filling),
                           llm::PadMode::Constant, llm::DimsAttr::get(l.builder.getContext(), low));
  }
  (boolean ? see.allowed : see.additive) = toRank4(l, mask);
  return true;
}

/// Causal masking, windows and valid lengths. Where the op's attributes can't say it, an explicit
/// boolean mask does.
bool readLimits(Lowering &l, AffineExpr queries, AffineExpr keys, AffineExpr past,
                Visibility &see) {
  bool causal = l.intAttr("is_causal", 0) != 0;
  int64_t left = l.intAttr("left_window_size", -1), right = l.intAttr("right_window_size", -1);
  if (right == 0)
    causal = true;
  bool lengths = l.version() >= 24 && l.has(6);
  bool plain = !lengths && (causal || (left < 0 && right < 0));
  if (plain) {
    if (causal)
      see.causalOffset = past;
    if (left >= 0)
      see.window = left + 1;
    return true;
  }
  Tensor key = l.iota(l.size(0), 1, keys, l.i64());
  Tensor query = l.iota(past, 1, queries, l.i64());
  query = l.reshape(query, {queries, l.size(1)});
  if (lengths) {
    Tensor valid = l.cast(l.input(6), l.i64());
    if (!valid)
      return false;
    valid = l.reshape(valid, {valid.dim(0), l.size(1), l.size(1), l.size(1)});
    restrict(l, see, l.compare(ElementKind::Less, key, valid));
    // Without a past of its own, the last query is the last valid token.
    query = l.add(query, l.sub(valid, l.integer(queries, l.i64())));
  }
  if (causal)
    restrict(l, see, l.compare(ElementKind::LessEqual, key, query));
  if (left >= 0)
    restrict(
        l, see,
        l.compare(ElementKind::GreaterEqual, key, l.with(ElementKind::Sub, query, double(left))));
  if (right >= 0)
    restrict(
        l, see,
        l.compare(ElementKind::LessEqual, key, l.with(ElementKind::Add, query, double(right))));
  see.allowed = toRank4(l, see.allowed);
  return bool(see.allowed);
}

/// What qk_matmul_output holds: the scores scaled (mode 0), soft-capped (1), masked (2), or their
/// softmax (3).
Tensor scoresOf(Lowering &l, const AttentionInputs &in, Visibility see) {
  Tensor query = in.headsLast ? l.transpose(in.query, {0, 2, 1, 3}) : in.query;
  Sizes dims = query.dims();
  AffineExpr keys = in.key.dim(2), kvHeads = in.key.dim(1);
  std::optional<int64_t> size = llm::constantOf(dims[3]);
  double scale = in.scale ? *in.scale : 1.0 / std::sqrt(double(size.value_or(1)));
  // A group of query heads are more queries of its key head.
  AffineExpr rows = l.symbols.mul(l.symbols.floorDiv(dims[1], kvHeads), dims[2]);
  Tensor x = l.reshape(l.with(ElementKind::Mul, query, scale), {dims[0], kvHeads, rows, dims[3]});
  x = l.reshape(l.matmul(x, in.key, /*transposeRhs=*/true), {dims[0], dims[1], dims[2], keys});
  int64_t mode = l.intAttr("qk_matmul_output_mode", 0);
  if (mode == 0 || !x)
    return x;
  if (in.softcap > 0)
    x = l.with(ElementKind::Mul,
               l.elementwise(ElementKind::Tanh, {l.with(ElementKind::Div, x, in.softcap)}),
               in.softcap);
  if (mode == 1)
    return x;
  if (see.causalOffset) {
    Tensor key = l.iota(l.size(0), 1, keys, l.i64());
    Tensor own = l.reshape(l.iota(see.causalOffset, 1, dims[2], l.i64()), {dims[2], l.size(1)});
    restrict(l, see, l.compare(ElementKind::LessEqual, key, own));
    if (see.window)
      restrict(
          l, see,
          l.compare(ElementKind::Greater, key, l.with(ElementKind::Sub, own, double(*see.window))));
  }
  if (see.additive)
    x = l.add(x, see.additive);
  if (see.allowed && x)
    x = l.select(see.allowed, x,
                 l.scalar(-std::numeric_limits<double>::infinity(), x.elementType()));
  if (mode == 2 || !x)
    return x;
  // A query that sees nothing gives zeros.
  Tensor highest = l.reduce(llm::ReduceKind::Max, x, {3}, /*keepDims=*/true);
  Tensor none = l.compare(ElementKind::Equal, highest,
                          l.scalar(-std::numeric_limits<double>::infinity(), x.elementType()));
  return l.select(none, l.scalar(0, x.elementType()), l.softmax(x, 3));
}

LogicalResult attention(Lowering &l) {
  Tensor query = l.input(0), key = l.input(1), value = l.input(2);
  if (!query || !key || !value)
    return failure();
  bool packed = query.rank() == 3;
  if ((!packed && query.rank() != 4) || key.rank() != query.rank() || value.rank() != query.rank())
    return l.result(l.fail(
        1204, "Attention needs query, key and value of rank 3 or 4, not shapes " +
                  l.text(query.dims()) + ", " + l.text(key.dims()) + ", " + l.text(value.dims())));
  Sizes packedDims = query.dims();
  if (packed) {
    int64_t kvHeads = l.intAttr("kv_num_heads", 0);
    query = splitHeads(l, query, l.intAttr("q_num_heads", 0), "q_num_heads");
    key = l.transpose(splitHeads(l, key, kvHeads, "kv_num_heads"), {0, 2, 1, 3});
    value = l.transpose(splitHeads(l, value, kvHeads, "kv_num_heads"), {0, 2, 1, 3});
    if (!query || !key || !value)
      return failure();
  }
  AffineExpr past = l.size(0);
  if (l.has(4) != l.has(5))
    return l.result(l.fail(1202, "Attention needs past_key and past_value together"));
  if (l.has(4)) {
    Tensor pastKey = l.input(4), pastValue = l.input(5);
    if (!pastKey || !pastValue || pastKey.rank() != 4)
      return l.result(pastKey ? l.fail(1204, "Attention needs a past of rank 4") : Tensor());
    past = pastKey.dim(2);
    key = l.concat(2, {pastKey, key});
    value = l.concat(2, {pastValue, value});
  }
  if (!key || !value)
    return failure();
  Visibility see;
  if (l.has(3) && !readMask(l, key.dim(2), see))
    return failure();
  if (!readLimits(l, query.dim(packed ? 1 : 2), key.dim(2), past, see))
    return failure();
  AttentionInputs inputs{query, key, value, packed, std::nullopt, l.floatAttr("softcap", 0.0)};
  if (l.attr("scale"))
    inputs.scale = l.floatAttr("scale", 0.0);
  Tensor y = attend(l, inputs, see);
  if (y && packed)
    y = l.reshape(y, {packedDims[0], packedDims[1], l.symbols.mul(y.dim(2), y.dim(3))});
  SmallVector<Tensor> results{y};
  if (l.node.getOutputs().size() > 1)
    results.push_back(key);
  if (l.node.getOutputs().size() > 2)
    results.push_back(value);
  if (l.wants(3) && y)
    results.push_back(scoresOf(l, inputs, see));
  return l.results(results);
}

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {"", "Attention",       23, attention, "softmax always in f32 or wider"},
    {"", "RotaryEmbedding", 23, rotaryEmbedding},
};
// clang-format on

} // namespace

ArrayRef<OpRow> attentionRows() { return kRows; }

} // namespace llmc::onnx
