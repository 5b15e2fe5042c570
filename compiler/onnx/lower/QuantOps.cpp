// SPDX-License-Identifier: Apache-2.0
//
// Rows of quantization: integers are computed exactly, rounding is half to
// even, results saturate. Quantized weights stay what the file holds behind an
// `llm.dequantize`, for what comes after to choose their form.
#include "compiler/onnx/OpTable.h"
#include "compiler/onnx/lower/CastParts.h"
#include "compiler/onnx/lower/ConvParts.h"

using namespace mlir;
using llmc::llm::ElementKind;
using llmc::llm::ReduceKind;

namespace llmc::onnx {
namespace {

constexpr const char *kMs = "com.microsoft";

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Whether a tensor has one element, known while compiling.
bool isSingle(Tensor x) {
  return llvm::all_of(x.dims(), [](AffineExpr dim) { return llm::isConstant(dim, 1); });
}

/// A parameter of `x`: with one element, one for each index of `axis`, or for each `block` of them.
/// As `llm.dequantize` has it.
Tensor parameter(Lowering &l, Tensor x, Tensor value, int64_t axis, int64_t block) {
  if (!x || !value)
    return {};
  if (block == 0 && isSingle(value)) {
    if (value.rank() == 0)
      return value;
    if (auto weight =
            value.content() ? llm::WeightOp() : l.value(value).getDefiningOp<llm::WeightOp>())
      return l.wrap(llm::WeightOp::create(
          l.builder, l.loc, RankedTensorType::get({}, value.elementType()), weight.getKey()));
    return l.reshape(value, {});
  }
  if (block == 0 && value.rank() == 1)
    return l.withDims(value, {x.dim(axis)}, "scales and the axis of " + l.node.getOpType());
  Sizes dims = x.dims();
  if (block > 0 && value.rank() == x.rank()) {
    dims[axis] = l.symbols.floorDiv(l.symbols.add(dims[axis], l.size(block - 1)), l.size(block));
    return l.withDims(value, dims, "scales and blocks of " + l.node.getOpType());
  }
  return l.fail(1204, l.node.getOpType() + " of " + l.text(x.dims()) +
                          " has scales or zero points "
                          "of shape " +
                          l.text(value.dims()));
}

/// Such a parameter so that it broadcasts to the dims of `x`.
Tensor spread(Lowering &l, Tensor x, Tensor value, int64_t axis, int64_t block) {
  value = parameter(l, x, value, axis, block);
  if (!value || value.rank() == 0)
    return value;
  if (block == 0) {
    Sizes dims(x.rank(), l.size(1));
    dims[axis] = x.dim(axis);
    return l.reshape(value, dims);
  }
  // Each element `block` times, then what is too much cut.
  Sizes dims = value.dims(), repeated = dims;
  dims.insert(dims.begin() + axis + 1, l.size(1));
  repeated.insert(repeated.begin() + axis + 1, l.size(block));
  value = l.broadcast(l.reshape(value, dims), repeated);
  dims = x.dims();
  Sizes flat = dims;
  flat[axis] = l.symbols.mul(repeated[axis], l.size(block));
  value = l.reshape(value, flat);
  return l.sliceAxis(value, axis, l.size(0), dims[axis]);
}

/// The axis that scales of one dimension or blocks count along.
std::optional<int64_t> scaleAxis(Lowering &l, Tensor x, Tensor scale, int64_t block) {
  if (block == 0 && isSingle(scale))
    return 0;
  return l.axisOf(l.intAttr("axis", 1), x.rank());
}

//===----------------------------------------------------------------------===//
// QuantizeLinear, DequantizeLinear
//===----------------------------------------------------------------------===//

std::pair<double, double> limitsOf(IntegerType type) {
  unsigned width = type.getWidth();
  if (type.isUnsigned())
    return {0, double((uint64_t(1) << width) - 1)};
  return {-double(int64_t(1) << (width - 1)), double((int64_t(1) << (width - 1)) - 1)};
}

/// round(x / scale) + zero in the integers of `type`, all of f32.
Tensor quantized(Lowering &l, Tensor x, Tensor scale, Tensor zero, IntegerType type) {
  Type f32 = l.builder.getF32Type();
  Tensor y = l.elementwise(ElementKind::Round, {l.div(l.cast(x, f32), l.cast(scale, f32))});
  if (zero)
    y = l.add(y, l.cast(zero, f32));
  auto [low, high] = limitsOf(type);
  y = l.with(ElementKind::Min, l.with(ElementKind::Max, y, low), high);
  return l.cast(y, type);
}

LogicalResult quantizeLinear(Lowering &l) {
  Tensor x = l.input(0), scale = l.input(1), zero = l.has(2) ? l.input(2) : Tensor();
  if (!x || !scale || l.failed())
    return failure();
  Type type = zero ? zero.elementType() : l.builder.getIntegerType(8, /*isSigned=*/false);
  if (int64_t number = l.intAttr("output_dtype", 0); number && !zero)
    type = l.elementTypeOf(number);
  auto integer = dyn_cast_or_null<IntegerType>(type);
  bool fits = type && type.getIntOrFloatBitWidth() <= (integer ? 16 : 8);
  if (!fits)
    return l.result(type ? l.fail(1206, "QuantizeLinear to this type isn't supported") : Tensor());
  int64_t block = l.intAttr("block_size", 0);
  std::optional<int64_t> axis = scaleAxis(l, x, scale, block);
  if (!axis)
    return failure();
  scale = spread(l, x, scale, *axis, block);
  if (!integer) { // the zero point says only the type
    Type f32 = l.builder.getF32Type();
    Tensor y = l.div(l.cast(x, f32), l.cast(scale, f32));
    return l.result(castTo(l, l.with(ElementKind::Add, y, 0), type)); // no -0
  }
  if (zero && !(zero = spread(l, x, zero, *axis, block)))
    return failure();
  return l.result(quantized(l, x, scale, zero, integer));
}

LogicalResult dequantizeLinear(Lowering &l) {
  Tensor x = l.storedInput(0), scale = l.storedInput(1),
         zero = l.has(2) ? l.storedInput(2) : Tensor();
  if (!x || !scale || l.failed())
    return failure();
  Type type = scale.elementType();
  if (int64_t number = l.intAttr("output_dtype", 0))
    type = l.elementTypeOf(number);
  if (!type)
    return failure();
  int64_t block = l.intAttr("block_size", 0);
  std::optional<int64_t> axis = scaleAxis(l, x, scale, block);
  if (!axis)
    return failure();
  scale = parameter(l, x, scale, *axis, block);
  if (zero && !(zero = parameter(l, x, zero, *axis, block)))
    return failure();
  if (!l.isStored(x) || !l.isStored(scale) || (zero && !l.isStored(zero))) {
    // At run time each element has a byte of its own.
    x = l.input(0);
    zero = zero ? parameter(l, x, l.input(2), *axis, block) : zero;
    if (!x || l.failed())
      return failure();
  }
  if (isa<FloatType>(x.elementType()))
    zero = Tensor(); // says only the type
  return l.result(l.make<llm::DequantizeOp>(x.dims(), type, l.value(x), l.value(scale),
                                            zero ? l.value(zero) : Value(), *axis, block));
}

LogicalResult dynamicQuantizeLinear(Lowering &l) {
  Tensor x = l.input(0);
  if (!x)
    return failure();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  // The range always holds 0; an empty or all-zero tensor has a scale of 1.
  Tensor low = l.with(ElementKind::Min, l.reduce(ReduceKind::Min, x, axes, /*keepDims=*/false), 0);
  Tensor high = l.with(ElementKind::Max, l.reduce(ReduceKind::Max, x, axes, /*keepDims=*/false), 0);
  Tensor range = l.sub(high, low);
  if (!range)
    return failure();
  Tensor scale = l.select(l.compare(ElementKind::Equal, range, l.scalar(0, range.elementType())),
                          l.scalar(1, range.elementType()), l.with(ElementKind::Div, range, 255));
  auto u8 = cast<IntegerType>(l.builder.getIntegerType(8, /*isSigned=*/false));
  Tensor zero = l.div(low, scale);
  zero = l.elementwise(ElementKind::Round, {zero ? l.elementwise(ElementKind::Neg, {zero}) : zero});
  zero = l.cast(l.with(ElementKind::Min, l.with(ElementKind::Max, zero, 0), 255), u8);
  return l.results({quantized(l, x, scale, zero, u8), scale, zero});
}

//===----------------------------------------------------------------------===//
// Integer products
//===----------------------------------------------------------------------===//

/// `x - zero` in i32; of a weight, a weight. `zero` has one element or, along `axis`, the input's.
Tensor centred(Lowering &l, Tensor x, Tensor zero, int64_t axis) {
  Type i32 = l.builder.getI32Type();
  if (!x || l.failed())
    return {};
  if (l.isStored(x) && (!zero || l.isStored(zero)) && x.rank() > 0 &&
      (!zero || isSingle(zero) || zero.rank() == 1)) {
    if (zero && !(zero = parameter(l, x, zero, axis, 0)))
      return {};
    return l.make<llm::DequantizeOp>(x.dims(), i32, l.value(x), Value(),
                                     zero ? l.value(zero) : Value(), axis, 0);
  }
  Tensor wide = l.cast(x, i32);
  if (!zero)
    return wide;
  zero = l.cast(zero, i32);
  if (isSingle(zero))
    return l.sub(wide, l.reshape(zero, {}));
  if (zero.rank() == 1 && x.rank() > 1 && axis == x.rank() - 2) // one for each row
    zero = l.unsqueeze(zero, 1);
  return l.sub(wide, zero);
}

/// The i32 product of two tensors with zero points at inputs `zeroA` and `zeroB`.
Tensor integerProduct(Lowering &l, Tensor a, Tensor b, unsigned zeroA, unsigned zeroB) {
  if (!a || !b)
    return {};
  if (a.rank() == 0 || b.rank() == 0)
    return l.fail(1204, l.node.getOpType() + " needs operands of rank 1 or more");
  Tensor za = l.has(zeroA) ? l.input(zeroA) : Tensor(),
         zb = l.has(zeroB) ? l.input(zeroB) : Tensor();
  bool vectorLeft = a.rank() == 1, vectorRight = b.rank() == 1;
  if (vectorLeft)
    a = l.unsqueeze(a, 0);
  if (vectorRight)
    b = l.unsqueeze(b, 1);
  Tensor product = l.matmul(centred(l, a, za, a.rank() - 2), centred(l, b, zb, b.rank() - 1));
  if (!product || (!vectorLeft && !vectorRight))
    return product;
  Sizes dims = product.dims();
  if (vectorRight)
    dims.pop_back();
  if (vectorLeft)
    dims.erase(dims.end() - (vectorRight ? 1 : 2));
  return l.reshape(product, dims);
}

LogicalResult matMulInteger(Lowering &l) {
  return l.result(integerProduct(l, l.input(0), l.input(1), 2, 3));
}

/// A scale of the rows of a product: of each row where it is a vector.
Tensor rowScale(Lowering &l, Tensor scale) {
  scale = l.cast(scale, l.builder.getF32Type());
  if (!scale)
    return {};
  return isSingle(scale) ? l.reshape(scale, {}) : scale.rank() == 1 ? l.unsqueeze(scale, 1) : scale;
}

Tensor columnScale(Lowering &l, Tensor scale) {
  scale = l.cast(scale, l.builder.getF32Type());
  return scale && isSingle(scale) ? l.reshape(scale, {}) : scale;
}

LogicalResult qLinearMatMul(Lowering &l) {
  Tensor product = integerProduct(l, l.input(0), l.input(3), 2, 5);
  Tensor zero = l.input(7);
  auto type = zero ? dyn_cast<IntegerType>(zero.elementType()) : IntegerType();
  if (!product || !type)
    return failure();
  Tensor scale =
      l.div(l.mul(rowScale(l, l.input(1)), columnScale(l, l.input(4))), rowScale(l, l.input(6)));
  Type f32 = l.builder.getF32Type();
  Tensor y = l.elementwise(ElementKind::Round, {l.mul(l.cast(product, f32), scale)});
  y = l.add(y, l.cast(rowScale(l, zero), f32));
  auto [low, high] = limitsOf(type);
  return l.result(l.cast(l.with(ElementKind::Min, l.with(ElementKind::Max, y, low), high), type));
}

/// MatMulInteger of com.microsoft's dynamic quantization, with scales and bias.
LogicalResult matMulIntegerToFloat(Lowering &l) {
  Tensor product = integerProduct(l, l.input(0), l.input(1), 4, 5);
  Tensor scale = l.mul(columnScale(l, l.input(2)), columnScale(l, l.input(3)));
  Tensor y = l.mul(l.cast(product, l.builder.getF32Type()), scale);
  return l.result(l.has(6) ? l.add(y, l.input(6)) : y);
}

/// The zero point of a convolution's weight: one, or one for each output channel.
Tensor centredKernel(Lowering &l, Tensor w, Tensor zero) {
  if (w && zero && zero.rank() == 1 && !isSingle(zero) && !(l.isStored(w) && l.isStored(zero))) {
    Sizes dims(w.rank(), l.size(1));
    dims[0] = w.dim(0);
    Type i32 = l.builder.getI32Type();
    return l.sub(l.cast(w, i32), l.reshape(l.cast(zero, i32), dims));
  }
  return centred(l, w, zero, 0);
}

LogicalResult convInteger(Lowering &l) {
  Tensor x = l.input(0), w = l.input(1);
  Tensor zx = l.has(2) ? l.input(2) : Tensor(), zw = l.has(3) ? l.input(3) : Tensor();
  if (!x || !w || l.failed())
    return failure();
  return l.result(convolve(l, centred(l, x, zx, 0), centredKernel(l, w, zw), Tensor()));
}

/// A scale or zero point with one element, or one for each channel of a result of `rank`.
Tensor channelScale(Lowering &l, Tensor scale, int64_t rank) {
  scale = l.cast(scale, l.builder.getF32Type());
  if (!scale)
    return {};
  if (isSingle(scale))
    return l.reshape(scale, {});
  Sizes dims(rank, l.size(1));
  dims[1] = scale.dim(0);
  return l.reshape(scale, dims);
}

LogicalResult qLinearConv(Lowering &l) {
  Tensor x = l.input(0), w = l.input(3), zero = l.input(7);
  Tensor bias = l.has(8) ? l.input(8) : Tensor();
  auto type = zero ? dyn_cast<IntegerType>(zero.elementType()) : IntegerType();
  if (!x || !w || !type || l.failed())
    return failure();
  Tensor sum = convolve(l, centred(l, x, l.input(2), 0), centredKernel(l, w, l.input(5)), bias);
  if (!sum)
    return failure();
  int64_t rank = sum.rank();
  Tensor scale = l.div(l.mul(channelScale(l, l.input(1), rank), channelScale(l, l.input(4), rank)),
                       channelScale(l, l.input(6), rank));
  Type f32 = l.builder.getF32Type();
  Tensor y = l.elementwise(ElementKind::Round, {l.mul(l.cast(sum, f32), scale)});
  y = l.add(y, channelScale(l, zero, rank));
  auto [low, high] = limitsOf(type);
  return l.result(l.cast(l.with(ElementKind::Min, l.with(ElementKind::Max, y, low), high), type));
}

//===----------------------------------------------------------------------===//
// Block-quantized weights
//===----------------------------------------------------------------------===//

/// Where zero points are packed like the values, each row begins a byte.
int64_t packedBlocks(int64_t blocks, int64_t bits) {
  return bits < 8 ? int64_t(llvm::alignTo(blocks, 8 / bits)) : blocks;
}

/// The numbers that a matrix of `n` rows of `k` values in blocks stands for: inputs `data`,
/// `scales` and, if there, `zeros` of the node. `packed` values lie in bytes.
Tensor blockedMatrix(Lowering &l, unsigned data, unsigned scales, unsigned zeros, int64_t n,
                     int64_t k, int64_t padded, int64_t bits, int64_t block, bool packed) {
  int64_t blocks = llvm::divideCeil(k, block);
  Tensor like = l.storedInput(scales), values = l.storedInput(data);
  if (!like || !values)
    return {};
  Type element =
      packed ? l.builder.getIntegerType(unsigned(bits), /*isSigned=*/false) : values.elementType();
  Tensor w = l.weightInput(data, RankedTensorType::get({n, padded}, element), "the weight");
  Tensor s =
      l.weightInput(scales, RankedTensorType::get({n, blocks}, like.elementType()), "the scales");
  Tensor z;
  if (l.has(zeros)) {
    Tensor zero = l.storedInput(zeros);
    if (!zero)
      return {};
    bool inBytes = packed && !zero.isFloat();
    auto type = RankedTensorType::get({n, inBytes ? packedBlocks(blocks, bits) : blocks},
                                      inBytes ? element : zero.elementType());
    z = l.weightInput(zeros, type, "the zero points");
    if (!z)
      return {};
  } else if (packed) { // the middle
    auto type = RankedTensorType::get({n, blocks}, l.builder.getIntegerType(8, /*isSigned=*/false));
    z = l.wrap(llm::ConstantOp::create(
        l.builder, l.loc, DenseElementsAttr::get(type, llvm::APInt(8, uint64_t(1) << (bits - 1)))));
  }
  if (!w || !s)
    return {};
  return l.make<llm::DequantizeOp>({l.size(n), l.size(k)}, like.elementType(), l.value(w),
                                   l.value(s), z ? l.value(z) : Value(), 1, block);
}

LogicalResult matMulNBits(Lowering &l) {
  Tensor x = l.input(0);
  int64_t n = l.intAttr("N", 0), k = l.intAttr("K", 0), bits = l.intAttr("bits", 4),
          block = l.intAttr("block_size", 0);
  if (!x)
    return failure();
  bool known = bits == 2 || bits == 4 || bits == 8;
  if (n <= 0 || k <= 0 || !known || block < 16 || !llvm::isPowerOf2_64(block))
    return l.result(
        l.fail(1203, "MatMulNBits needs N, K, a block_size that is a power of 2 from 16 "
                     "on and bits 2, 4 or 8; it has " +
                         Twine(n) + ", " + Twine(k) + ", " + Twine(block) + ", " + Twine(bits)));
  if (l.has(4))
    return l.result(l.fail(1209,
                           "MatMulNBits with an order of its own for the inputs (g_idx) isn't "
                           "supported; quantize without act_order"));
  if (l.intAttr("weight_prepacked", 0) != 0)
    return l.result(l.fail(1209, "MatMulNBits with a weight that is packed for one device isn't "
                                 "supported; export with weight_prepacked = 0"));
  if (x.rank() == 0)
    return l.result(l.fail(1204, "MatMulNBits needs an input of rank 1 or more"));
  int64_t padded = int64_t(llvm::alignTo(k, block));
  Tensor w = blockedMatrix(l, 1, 2, 3, n, k, padded, bits, block, /*packed=*/true);
  bool vector = x.rank() == 1;
  if (vector)
    x = l.unsqueeze(x, 0);
  Tensor y = l.matmul(x, w && x ? l.cast(w, x.elementType()) : w, /*transposeRhs=*/true);
  if (y && vector)
    y = l.reshape(y, {l.size(n)});
  return l.result(l.has(5) ? l.add(y, l.input(5)) : y);
}

/// Rows of a block-quantized table.
LogicalResult gatherBlockQuantized(Lowering &l) {
  Tensor data = l.storedInput(0), indices = l.input(1);
  if (!data || !indices)
    return failure();
  int64_t block = l.intAttr("block_size", 128), bits = l.intAttr("bits", 4), rank = data.rank();
  std::optional<int64_t> axis = l.axisOf(l.intAttr("gather_axis", 0), rank),
                         along = l.axisOf(l.intAttr("quantize_axis", 1), rank);
  if (!axis || !along)
    return failure();
  bool packed = data.elementType().getIntOrFloatBitWidth() == 8;
  if (rank != 2 || *axis != 0 || *along != 1 || !data.type().hasStaticShape())
    return l.result(l.fail(1209, "GatherBlockQuantized is supported for rows of a constant matrix "
                                 "with blocks along them, not for shape " +
                                     l.text(data.dims())));
  bool known = bits == 2 || bits == 4 || bits == 8;
  if (!known || block < 16)
    return l.result(
        l.fail(1203, "GatherBlockQuantized has an unknown block_size or number of bits"));
  if (!packed)
    bits = data.elementType().getIntOrFloatBitWidth();
  int64_t n = data.type().getDimSize(0), k = data.type().getDimSize(1) * (packed ? 8 / bits : 1);
  Tensor table = blockedMatrix(l, 0, 2, 3, n, k, k, bits, block, packed);
  return l.result(l.gather(table, indices, 0));
}

constexpr const char *kPrepacked = "export with MatMulNBits, which says how its blocks lie";

// clang-format off
constexpr OpRow kRows[] = {
    // domain, op, since, lowering, remark
    {"",  "ConvInteger",           10, convInteger},
    {"",  "DequantizeLinear",      10, dequantizeLinear},
    {"",  "DynamicQuantizeLinear", 11, dynamicQuantizeLinear},
    {"",  "MatMulInteger",         10, matMulInteger},
    {"",  "QLinearConv",           10, qLinearConv},
    {"",  "QLinearMatMul",         10, qLinearMatMul},
    {"",  "QuantizeLinear",        10, quantizeLinear, "not to integers of 32 bits"},
    {kMs, "DequantizeLinear",      1,  dequantizeLinear},
    {kMs, "GatherBlockQuantized",  1,  gatherBlockQuantized, "rows of a constant matrix"},
    {kMs, "MatMulIntegerToFloat",  1,  matMulIntegerToFloat},
    {kMs, "MatMulNBits",           1,  matMulNBits, "2, 4 and 8 bits, without g_idx"},
    {kMs, "MatMulBnb4",            1,  nullptr, kPrepacked},
    {kMs, "QuantizeLinear",        1,  quantizeLinear},
};
// clang-format on

} // namespace

ArrayRef<OpRow> quantRows() { return kRows; }

} // namespace llmc::onnx
