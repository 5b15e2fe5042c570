// SPDX-License-Identifier: Apache-2.0
//
// Construction of sources, elementwise ops, contractions and reductions. The
// shape ops are in LegalizerShapes.cpp.
#include "compiler/onnx/LegalizerEmitter.h"

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {

Tensor Emitter::fail(int code, const Twine &text) {
  if (!hasFailed)
    emitError(loc) << "[LLMC" << code << "] " << text;
  hasFailed = true;
  return {};
}

std::string Emitter::text(ArrayRef<AffineExpr> dims) const {
  std::string out = "[";
  for (auto [i, dim] : llvm::enumerate(dims))
    out += (i ? ", " : "") + symbols.text(dim);
  return out + "]";
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

Tensor Emitter::wrap(Value value, std::optional<Content> content) {
  tensors.push_back({cast<RankedTensorType>(value.getType()), value, std::move(content), loc});
  return Tensor(&tensors.back());
}

Tensor Emitter::known(Content content, Type elementType) {
  auto type = RankedTensorType::get(content.shape, elementType);
  tensors.push_back({type, Value(), std::move(content), loc});
  return Tensor(&tensors.back());
}

Tensor Emitter::finish(std::optional<Content> content, Type elementType,
                       llvm::function_ref<Tensor()> emit) {
  if (content && content->complete())
    return known(std::move(*content), elementType);
  Tensor result = emit();
  if (result && content && content->anyKnown())
    result.info->content = std::move(content);
  return result;
}

Tensor Emitter::constant(DenseElementsAttr value) {
  if (std::optional<Content> content = contentOf(value))
    return known(std::move(*content), value.getElementType());
  return wrap(llm::ConstantOp::create(builder, loc, value));
}

Tensor Emitter::scalar(double value, Type elementType) {
  Element element = Element::of(value);
  if (!isa<FloatType>(elementType))
    element = Element::of(size(int64_t(value)));
  return known({{}, {element}}, elementType);
}

Tensor Emitter::integer(AffineExpr value, Type elementType) {
  return known({{}, {Element::of(value)}}, elementType);
}

Tensor Emitter::sizes(ArrayRef<AffineExpr> values) {
  Content content;
  content.shape.push_back(values.size());
  for (AffineExpr value : values)
    content.elements.push_back(Element::of(value));
  return known(std::move(content), i64());
}

Tensor Emitter::filled(ArrayRef<AffineExpr> dims, double value, Type elementType) {
  return broadcast(scalar(value, elementType), dims);
}

Tensor Emitter::iota(AffineExpr start, int64_t step, AffineExpr count, Type elementType) {
  std::optional<Content> content;
  std::optional<int64_t> n = llm::constantOf(count);
  if (n && *n <= kMaxContent) {
    content.emplace();
    content->shape.push_back(*n);
    for (int64_t i = 0; i < *n; ++i)
      content->elements.push_back(Element::of(llm::canonical(start + i * step)));
  }
  auto starts = llm::DimsAttr::get(builder.getContext(), {llm::canonical(start)});
  return wrap(llm::IotaOp::create(builder, loc, llm::tensorOf({count}, elementType), starts, step),
              std::move(content));
}

Value Emitter::value(Tensor tensor) {
  Tensor::Info &info = *tensor.info;
  if (info.value)
    return info.value;
  const Content &content = *info.content;
  Type elementType = info.type.getElementType();
  MLIRContext *context = builder.getContext();
  if (DenseElementsAttr constant = onnx::constantOf(content, elementType, context)) {
    info.value = llm::ConstantOp::create(builder, info.loc, constant);
    return info.value;
  }
  SmallVector<AffineExpr> values;
  SmallVector<int64_t> divisors;
  for (const Element &element : content.elements) {
    // In a tensor with sizes, constants of float type are whole numbers or become numerators.
    values.push_back(element.size ? element.size : size(0));
    divisors.push_back(element.size ? element.divisor : 1);
  }
  bool viaI64 = isa<FloatType>(elementType) || elementType.isInteger(1);
  auto flat = RankedTensorType::get(
      info.type.getRank() > 1 ? ArrayRef<int64_t>(int64_t(values.size())) : info.type.getShape(),
      viaI64 ? i64() : elementType);
  Value result = llm::SizesOp::create(builder, info.loc, flat, llm::DimsAttr::get(context, values));
  auto elementwise = [&](ElementKind kind, ValueRange operands) {
    return llm::ElementwiseOp::create(builder, info.loc,
                                      cast<RankedTensorType>(result.getType()).clone(elementType),
                                      kind, operands);
  };
  if (viaI64)
    result = elementwise(ElementKind::Cast, result);
  if (isa<FloatType>(elementType)) {
    Content scale{SmallVector<int64_t, 2>(flat.getShape()), {}}, offset = scale;
    for (auto [element, divisor] : llvm::zip_equal(content.elements, divisors)) {
      scale.elements.push_back(Element::of(double(divisor)));
      offset.elements.push_back(Element::of(element.real.value_or(0.0)));
    }
    auto constant = [&](const Content &c) -> Value {
      return llm::ConstantOp::create(builder, info.loc, onnx::constantOf(c, elementType, context));
    };
    if (llvm::any_of(divisors, [](int64_t d) { return d != 1; }))
      result = elementwise(ElementKind::Div, {result, constant(scale)});
    if (llvm::any_of(content.elements, [](const Element &e) { return e.real.has_value(); }))
      result = elementwise(ElementKind::Add, {result, constant(offset)});
  }
  if (info.type.getRank() > 1)
    result = llm::ReshapeOp::create(builder, info.loc, info.type, result);
  info.value = result;
  return result;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Tensor Emitter::elementwise(ElementKind kind, ArrayRef<Tensor> operands, Type resultElement) {
  std::optional<Sizes> dims = Sizes();
  bool allContent = true;
  for (Tensor operand : operands) {
    if (!operand)
      return {};
    dims = broadcastDims(*dims, operand.dims());
    if (!dims)
      return {};
    allContent &= operand.content() != nullptr;
  }
  Type operandElement = operands.back().elementType();
  for (Tensor operand : operands.drop_front(kind == ElementKind::Select ? 1 : 0))
    if (operand.elementType() != operandElement) {
      std::string types;
      llvm::raw_string_ostream(types) << operand.elementType() << " and " << operandElement;
      return fail(1206, "operands have different element types: " + types);
    }
  if (!resultElement)
    resultElement = operandElement;

  auto type = llm::tensorOf(*dims, resultElement);
  std::optional<Content> content;
  if (allContent && mayHaveContent(type)) {
    content.emplace();
    content->shape.assign(type.getShape().begin(), type.getShape().end());
    forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
      SmallVector<Element, 3> elements;
      for (Tensor operand : operands)
        elements.push_back(
            operand.content()->elements[broadcastOffset(index, operand.content()->shape)]);
      content->elements.push_back(evaluate(kind, elements, operandElement, resultElement, symbols));
    });
  }
  return finish(std::move(content), resultElement, [&] {
    SmallVector<Value, 3> values;
    for (Tensor operand : operands)
      values.push_back(value(operand));
    return make<llm::ElementwiseOp>(*dims, resultElement, kind, values);
  });
}

Tensor Emitter::cast(Tensor x, Type elementType) {
  if (!x || x.elementType() == elementType)
    return x;
  return elementwise(ElementKind::Cast, {x}, elementType);
}

Tensor Emitter::compare(ElementKind kind, Tensor a, Tensor b) {
  return elementwise(kind, {a, b}, i1());
}

Tensor Emitter::select(Tensor condition, Tensor yes, Tensor no) {
  return elementwise(ElementKind::Select, {condition, yes, no});
}

Tensor Emitter::with(ElementKind kind, Tensor x, double constant) {
  return x ? elementwise(kind, {x, scalar(constant, x.elementType())}) : Tensor();
}

//===----------------------------------------------------------------------===//
// Contraction and reduction
//===----------------------------------------------------------------------===//

Tensor Emitter::matmul(Tensor a, Tensor b, bool transposeRhs) {
  if (!a || !b)
    return {};
  if (a.rank() < 2 || b.rank() < 2 || a.elementType() != b.elementType())
    return fail(1204, "matrix product of " + text(a.dims()) + " and " + text(b.dims()) +
                          " needs two dimensions and one element type");
  Sizes lhs = a.dims(), rhs = b.dims();
  size_t inner = rhs.size() - (transposeRhs ? 1 : 2), outer = rhs.size() - (transposeRhs ? 2 : 1);
  AffineExpr k = agree(lhs.back(), rhs[inner], "the contracted dimension of a matrix product");
  if (!k)
    return {};
  lhs.back() = rhs[inner] = k;
  a = withDims(a, lhs, "matrix product");
  b = withDims(b, rhs, "matrix product");
  std::optional<Sizes> dims = broadcastDims(ArrayRef(lhs).drop_back(2), ArrayRef(rhs).drop_back(2));
  if (!dims)
    return {};
  dims->push_back(lhs[lhs.size() - 2]);
  dims->push_back(rhs[outer]);
  return make<llm::MatmulOp>(*dims, a.elementType(), value(a), value(b), transposeRhs,
                             IntegerAttr());
}

Tensor Emitter::reduce(ReduceKind kind, Tensor x, ArrayRef<int64_t> axes, bool keepDims,
                       bool lastIndex) {
  if (!x)
    return {};
  bool arg = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
  Type elementType = arg ? i64() : x.elementType();
  Sizes kept = x.dims(), dropped;
  for (int64_t axis : axes)
    kept[axis] = size(1);
  for (auto [i, dim] : llvm::enumerate(kept))
    if (!llvm::is_contained(axes, int64_t(i)))
      dropped.push_back(dim);
  auto type = llm::tensorOf(kept, elementType);
  std::optional<Content> content;
  if (const Content *in = x.content(); in && !axes.empty()) {
    content.emplace();
    content->shape.assign(type.getShape().begin(), type.getShape().end());
    std::vector<SmallVector<Element>> groups(type.getNumElements());
    size_t position = 0;
    forEachIndex(in->shape, [&](ArrayRef<int64_t> index) {
      groups[broadcastOffset(index, content->shape)].push_back(in->elements[position++]);
    });
    for (auto &group : groups)
      content->elements.push_back(evaluateReduction(kind, group, elementType, symbols));
  }
  Tensor result = finish(std::move(content), elementType, [&] {
    return make<llm::ReduceOp>(kept, elementType, kind, value(x), axes, lastIndex);
  });
  return keepDims ? result : reshape(result, dropped);
}

Tensor Emitter::softmax(Tensor x, int64_t axis, bool log) {
  return x ? make<llm::SoftmaxOp>(x.dims(), x.elementType(), value(x), axis, log) : Tensor();
}

} // namespace llmc::onnx
