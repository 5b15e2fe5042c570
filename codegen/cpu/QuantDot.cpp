// SPDX-License-Identifier: Apache-2.0
//
// Without dot-product instructions, u4 weights are multiplied by `vpmaddubsw`
// and added as 16 bits with wrap-around over up to 64 k: the true sums fit,
// since a chain starts with -8 times its own activations. s8 weights take
// their sign to the activations, as unsigned they would saturate.
#include "codegen/cpu/QuantDot.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::cpu {

Value QuantDot::splat(VectorType type, int64_t value) {
  return arith::ConstantOp::create(
      b, SplatElementsAttr::get(type, b.getIntegerAttr(type.getElementType(), value)));
}

Value QuantDot::broadcastInteger(Value pointer) {
  return vector::BroadcastOp::create(b, integersType(),
                                     e.load(pointer, e.index(0), b.getI32Type()));
}

Value QuantDot::call(StringRef name, StringRef wideName, VectorType result, Value x, Value y) {
  auto one = [&](StringRef intrinsic, VectorType type, Value left, Value right) -> Value {
    return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(intrinsic),
                                         ValueRange{left, right})
        .getResult(0);
  };
  if (lanes() == 8)
    return one(name, result, x, y);
  if (!e.isa.isEmulated)
    return one(wideName, result, x, y);
  auto half = [&](Value value, bool upper) -> Value {
    int64_t count = cast<VectorType>(value.getType()).getNumElements() / 2;
    SmallVector<int64_t> lanes;
    for (int64_t i = 0; i < count; ++i)
      lanes.push_back(i + (upper ? count : 0));
    return vector::ShuffleOp::create(b, value, value, lanes);
  };
  auto halfType = vectorOf(result.getNumElements() / 2, result.getElementType());
  Value low = one(name, halfType, half(x, false), half(y, false)),
        high = one(name, halfType, half(x, true), half(y, true));
  SmallVector<int64_t> all;
  for (int64_t i = 0; i < result.getNumElements(); ++i)
    all.push_back(i);
  return vector::ShuffleOp::create(b, low, high, all);
}

Value QuantDot::multiplyBytes(Value unsignedBytes, Value signedBytes) {
  return call("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx512.pmaddubs.w.512", wordsType(),
              unsignedBytes, signedBytes);
}

Value QuantDot::multiplyWords(Value x, Value y) {
  return call("llvm.x86.avx2.pmadd.wd", "llvm.x86.avx512.pmaddw.d.512", integersType(), x, y);
}

Value QuantDot::addByteDots(Value sums, Value unsignedBytes, Value signedBytes) {
  if (!e.isa.isEmulated)
    return LLVM::CallIntrinsicOp::create(b, integersType(),
                                         b.getStringAttr("llvm.x86.avx512.vpdpbusd.512"),
                                         ValueRange{sums, unsignedBytes, signedBytes})
        .getResult(0);
  // Bytes 0 and 2 of each four, then 1 and 3, as words.
  Value x = vector::BitCastOp::create(b, wordsType(), unsignedBytes),
        y = vector::BitCastOp::create(b, wordsType(), signedBytes);
  Value eight = splat(wordsType(), 8);
  Value even = multiplyWords(arith::AndIOp::create(b, x, splat(wordsType(), 255)),
                             arith::ShRSIOp::create(b, arith::ShLIOp::create(b, y, eight), eight));
  Value odd =
      multiplyWords(arith::ShRUIOp::create(b, x, eight), arith::ShRSIOp::create(b, y, eight));
  return arith::AddIOp::create(b, sums, arith::AddIOp::create(b, even, odd));
}

Value QuantDot::start(Value activationRecord) {
  if (e.isa.byteDots) {
    Value sum = e.load(e.address(activationRecord, e.index(record.sumOffset()), b.getI8Type()),
                       e.index(0), b.getI32Type());
    Value offset = arith::ConstantIntOp::create(b, int4 ? -8 : -128, 32);
    return vector::BroadcastOp::create(b, integersType(), arith::MulIOp::create(b, sum, offset));
  }
  if (!int4)
    return splat(integersType(), 0);
  Value pair =
      broadcastInteger(e.address(activationRecord, e.index(record.pairOffset()), b.getI8Type()));
  return vector::BitCastOp::create(b, wordsType(), pair);
}

Value QuantDot::loadBytes(Value pointer, int64_t offset) {
  return e.loadVector(pointer, e.index(offset), b.getI8Type(), unsigned(4 * lanes()));
}

Value QuantDot::lowNibbles(Value bytes) {
  return arith::AndIOp::create(b, bytes, splat(bytesType(), 15));
}

Value QuantDot::highNibbles(Value bytes) {
  return arith::ShRUIOp::create(b, bytes, splat(bytesType(), 4));
}

Value QuantDot::broadcastBytes(Value pointer) {
  return vector::BitCastOp::create(b, bytesType(), broadcastInteger(pointer));
}

Value QuantDot::step(Value chain, Value weights, Value activations) {
  if (e.isa.byteDots)
    return addByteDots(chain, weights, activations);
  if (int4)
    return arith::AddIOp::create(b, chain, multiplyBytes(weights, activations));
  Value values = arith::XOrIOp::create(b, weights, splat(bytesType(), 128));
  Value turned;
  if (lanes() == 8) {
    turned = call("llvm.x86.avx2.psign.b", "", bytesType(), activations, values);
  } else {
    Value negative =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, values, splat(bytesType(), 0));
    Value opposite = arith::SubIOp::create(b, splat(bytesType(), 0), activations);
    turned = arith::SelectOp::create(b, negative, opposite, activations);
  }
  Value products = multiplyBytes(math::AbsIOp::create(b, values), turned);
  return arith::AddIOp::create(b, chain, multiplyWords(products, splat(wordsType(), 1)));
}

Value QuantDot::finish(Value chain) {
  return int4 && !e.isa.byteDots ? multiplyWords(chain, splat(wordsType(), 1)) : chain;
}

Value QuantDot::timesSum(Value factor, Value activationRecord) {
  // The sum fits 16 bits and the factor's upper half is masked off, so one instruction does.
  Value sum =
      broadcastInteger(e.address(activationRecord, e.index(record.sumOffset()), b.getI8Type()));
  Value low = arith::AndIOp::create(b, sum, splat(integersType(), 0xFFFF));
  auto words = [&](Value x) -> Value { return vector::BitCastOp::create(b, wordsType(), x); };
  return multiplyWords(words(factor), words(low));
}

} // namespace llmc::cpu
