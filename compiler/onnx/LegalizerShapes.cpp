// SPDX-License-Identifier: Apache-2.0
//
// Construction of the ops that move elements, on values and on known elements.
#include "compiler/onnx/LegalizerEmitter.h"

using namespace mlir;

namespace llmc::onnx {

/// A content of `shape` whose element at an index is what `pick` returns.
static std::optional<Content> rearranged(RankedTensorType type,
                                         llvm::function_ref<Element(ArrayRef<int64_t>)> pick) {
  if (!mayHaveContent(type))
    return std::nullopt;
  Content content;
  content.shape.assign(type.getShape().begin(), type.getShape().end());
  forEachIndex(type.getShape(),
               [&](ArrayRef<int64_t> index) { content.elements.push_back(pick(index)); });
  return content;
}

std::optional<Sizes> Emitter::broadcastDims(ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Sizes dims(a);
  for (size_t i = 0; i < b.size(); ++i) {
    AffineExpr &dim = dims[a.size() - b.size() + i];
    AffineExpr both = symbols.broadcast(dim, b[i], "a broadcast needs sizes that are equal or 1");
    if (!both) {
      fail(1204, "shapes " + text(a) + " and " + text(b) +
                     " don't broadcast: " + symbols.text(dim) + " against " + symbols.text(b[i]));
      return std::nullopt;
    }
    dim = both;
  }
  return dims;
}

AffineExpr Emitter::agree(AffineExpr a, AffineExpr b, const Twine &what) {
  if (a == b)
    return a;
  if (llm::constantOf(a) && llm::constantOf(b)) {
    fail(1204,
         "sizes " + symbols.text(a) + " and " + symbols.text(b) + " of " + what + " must be equal");
    return {};
  }
  symbols.requireEqual(a, b, what + " must be equal");
  return llm::constantOf(b) ? b : a;
}

Tensor Emitter::withDims(Tensor x, ArrayRef<AffineExpr> dims, const Twine &what) {
  if (!x)
    return {};
  if (x.rank() != int64_t(dims.size()))
    return fail(1204, what + ": shape " + text(x.dims()) + " has not the rank of " + text(dims));
  for (auto [have, want] : llvm::zip_equal(x.dims(), dims))
    if (!agree(have, want, what))
      return {};
  return reshape(x, dims);
}

Tensor Emitter::reshape(Tensor x, ArrayRef<AffineExpr> dims) {
  if (!x)
    return {};
  auto type = llm::tensorOf(dims, x.elementType());
  if (type == x.type())
    return x;
  AffineExpr before = llm::productOf(x.dims(), builder.getContext());
  AffineExpr after = llm::productOf(dims, builder.getContext());
  if (before != after) {
    if (llm::constantOf(before) && llm::constantOf(after))
      return fail(1204, "shape " + text(x.dims()) + " can't become " + text(dims) + ": " +
                            symbols.text(before) + " elements against " + symbols.text(after));
    symbols.requireEqual(before, after, "number of elements of a reshape");
  }
  std::optional<Content> content;
  if (const Content *in = x.content();
      in && type.hasStaticShape() && type.getNumElements() == int64_t(in->elements.size()))
    content = Content{SmallVector<int64_t, 2>(type.getShape()), in->elements};
  return finish(std::move(content), x.elementType(),
                [&] { return make<llm::ReshapeOp>(dims, x.elementType(), value(x)); });
}

Tensor Emitter::broadcast(Tensor x, ArrayRef<AffineExpr> dims) {
  if (!x)
    return {};
  auto type = llm::tensorOf(dims, x.elementType());
  if (type == x.type())
    return x;
  std::optional<Content> content;
  if (const Content *in = x.content())
    content = rearranged(type, [&](ArrayRef<int64_t> index) {
      return in->elements[broadcastOffset(index, in->shape)];
    });
  return finish(std::move(content), x.elementType(),
                [&] { return make<llm::BroadcastOp>(dims, x.elementType(), value(x)); });
}

Tensor Emitter::transpose(Tensor x, ArrayRef<int64_t> permutation) {
  if (!x)
    return {};
  Sizes from = x.dims(), dims;
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(permutation)) {
    dims.push_back(from[p]);
    identity &= p == int64_t(i);
  }
  if (identity)
    return x;
  std::optional<Content> content;
  if (const Content *in = x.content())
    content = rearranged(llm::tensorOf(dims, x.elementType()), [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t, 4> source(index.size());
      for (auto [i, p] : llvm::enumerate(permutation))
        source[p] = index[i];
      return in->elements[broadcastOffset(source, in->shape)];
    });
  return finish(std::move(content), x.elementType(), [&] {
    return make<llm::TransposeOp>(dims, x.elementType(), value(x), permutation);
  });
}

Tensor Emitter::swapLast(Tensor x) {
  if (!x)
    return {};
  SmallVector<int64_t> permutation(llvm::to_vector(llvm::seq<int64_t>(0, x.rank())));
  std::swap(permutation[x.rank() - 2], permutation[x.rank() - 1]);
  return transpose(x, permutation);
}

Tensor Emitter::unsqueeze(Tensor x, int64_t axis) {
  if (!x)
    return {};
  Sizes dims = x.dims();
  dims.insert(dims.begin() + axis, size(1));
  return reshape(x, dims);
}

Tensor Emitter::slice(Tensor x, ArrayRef<AffineExpr> starts, ArrayRef<int64_t> steps,
                      ArrayRef<AffineExpr> dims) {
  if (!x)
    return {};
  auto type = llm::tensorOf(dims, x.elementType());
  bool constantStarts = true, forward = true;
  for (AffineExpr start : starts)
    constantStarts &= llm::constantOf(start).has_value();
  for (int64_t step : steps)
    forward &= step == 1;
  if (type == x.type() && forward)
    return x;
  std::optional<Content> content;
  if (const Content *in = x.content(); in && constantStarts)
    content = rearranged(type, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t, 4> source;
      for (auto [i, start, step] : llvm::zip_equal(index, starts, steps))
        source.push_back(*llm::constantOf(start) + i * step);
      return in->elements[broadcastOffset(source, in->shape)];
    });
  return finish(std::move(content), x.elementType(), [&] {
    auto attr = llm::DimsAttr::get(builder.getContext(), starts);
    return make<llm::SliceOp>(dims, x.elementType(), value(x), attr, steps);
  });
}

Tensor Emitter::sliceAxis(Tensor x, int64_t axis, AffineExpr start, AffineExpr count) {
  if (!x)
    return {};
  Sizes dims = x.dims(), starts(x.rank(), size(0));
  starts[axis] = start;
  dims[axis] = count;
  return slice(x, starts, SmallVector<int64_t>(x.rank(), 1), dims);
}

Tensor Emitter::concat(int64_t axis, ArrayRef<Tensor> inputs) {
  for (Tensor input : inputs)
    if (!input)
      return {};
  if (inputs.size() == 1)
    return inputs.front();
  Tensor first = inputs.front();
  Sizes dims = first.dims();
  AffineExpr total = size(0);
  for (Tensor input : inputs) {
    if (input.rank() != first.rank() || input.elementType() != first.elementType())
      return fail(1204, "concatenation of " + text(first.dims()) + " and " + text(input.dims()) +
                            " needs equal ranks and element types");
    for (int64_t i = 0; i < input.rank(); ++i) {
      if (i == axis)
        continue;
      dims[i] = agree(dims[i], input.dim(i), "dimension " + Twine(i) + " of a concatenation");
      if (!dims[i])
        return {};
    }
    total = symbols.add(total, input.dim(axis));
  }
  SmallVector<Tensor> parts;
  bool allContent = true;
  for (Tensor input : inputs) {
    dims[axis] = input.dim(axis);
    parts.push_back(withDims(input, dims, "concatenation"));
    allContent &= input.content() != nullptr;
  }
  dims[axis] = total;
  std::optional<Content> content;
  if (allContent)
    content = rearranged(llm::tensorOf(dims, first.elementType()), [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t, 4> inner(index);
      size_t part = 0;
      while (inner[axis] >= parts[part].content()->shape[axis])
        inner[axis] -= parts[part++].content()->shape[axis];
      const Content &in = *parts[part].content();
      return in.elements[broadcastOffset(inner, in.shape)];
    });
  return finish(std::move(content), first.elementType(), [&] {
    SmallVector<Value> values;
    for (Tensor part : parts)
      values.push_back(value(part));
    return make<llm::ConcatOp>(dims, first.elementType(), axis, values);
  });
}

Tensor Emitter::tile(Tensor x, ArrayRef<AffineExpr> repeats) {
  if (!x)
    return {};
  Sizes dims = x.dims();
  for (auto [dim, repeat] : llvm::zip_equal(dims, repeats))
    dim = symbols.mul(dim, repeat);
  auto type = llm::tensorOf(dims, x.elementType());
  if (type == x.type())
    return x;
  std::optional<Content> content;
  if (const Content *in = x.content())
    content = rearranged(type, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t, 4> source;
      for (auto [i, n] : llvm::zip_equal(index, in->shape))
        source.push_back(i % n);
      return in->elements[broadcastOffset(source, in->shape)];
    });
  return finish(std::move(content), x.elementType(),
                [&] { return make<llm::TileOp>(dims, x.elementType(), value(x)); });
}

Tensor Emitter::gather(Tensor x, Tensor indices, int64_t axis) {
  if (!x || !indices)
    return {};
  Sizes from = x.dims(), dims(from.begin(), from.begin() + axis);
  llvm::append_range(dims, indices.dims());
  dims.append(from.begin() + axis + 1, from.end());
  std::optional<Content> content;
  const Content *in = x.content(), *at = indices.content();
  if (in && at &&
      llvm::all_of(at->elements, [](const Element &e) { return e.integer().has_value(); })) {
    int64_t count = in->shape[axis];
    for (const Element &e : at->elements)
      if (*e.integer() < -count || *e.integer() >= count)
        return fail(1203, "index " + Twine(*e.integer()) + " is outside dimension " + Twine(axis) +
                              " of " + text(from));
    content = rearranged(llm::tensorOf(dims, x.elementType()), [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t, 4> source(index.take_front(axis));
      int64_t chosen =
          *at->elements[broadcastOffset(index.slice(axis, indices.rank()), at->shape)].integer();
      source.push_back(chosen < 0 ? chosen + count : chosen);
      llvm::append_range(source, index.drop_front(axis + indices.rank()));
      return in->elements[broadcastOffset(source, in->shape)];
    });
  }
  return finish(std::move(content), x.elementType(), [&] {
    return make<llm::GatherOp>(dims, x.elementType(), value(x), value(indices), axis);
  });
}

} // namespace llmc::onnx
