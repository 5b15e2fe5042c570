// SPDX-License-Identifier: Apache-2.0
//
// A kernel is two functions: the exported one unpacks the argument block, the
// private one has every operand as a `noalias` pointer, which LLVM turns into
// scopes when it inlines and which lets it vectorise scalar loops.
#include "codegen/cpu/KernelEmitter.h"

#include "codegen/common/ScalarOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace llmc::cpu {

/// Fields of llmc_kernel_args, all pointers.
enum { kArgBuffers = 0, kArgScalars = 1, kArgScratch = 2 };

KernelEmitter::KernelEmitter(ModuleOp module, rt::KernelOp kernel, const IsaLevel &isa)
    : b(kernel.getLoc(), OpBuilder::atBlockEnd(module.getBody())), isa(isa), kernel(kernel) {
  Block &body = kernel.getBody().front();
  unsigned inputCount = body.getNumArguments();
  unsigned outputCount = body.getTerminator()->getNumOperands();
  unsigned scalarCount = kernel.getSizes();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();

  SmallVector<Type> types(inputCount + outputCount, pointer);
  types.append(scalarCount, i64);
  types.append({pointer, i64, i64});
  auto inner = func::FuncOp::create(b, (kernel.getSymName() + ".body").str(),
                                    b.getFunctionType(types, b.getI32Type()));
  inner.setPrivate();
  for (unsigned i = 0; i < inputCount + outputCount; ++i)
    inner.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());

  auto outer = func::FuncOp::create(b, kernel.getSymName(),
                                    b.getFunctionType({pointer, i64, i64}, b.getI32Type()));
  Block *outerEntry = outer.addEntryBlock();
  b.setInsertionPointToStart(outerEntry);
  auto loadAt = [&](Value from, int64_t position, Type type) -> Value {
    return LLVM::LoadOp::create(b, type, address(from, index(position), type));
  };
  Value block = outerEntry->getArgument(0);
  Value buffers = loadAt(block, kArgBuffers, pointer),
        numbers = loadAt(block, kArgScalars, pointer);
  SmallVector<Value> arguments;
  for (unsigned i = 0; i < inputCount + outputCount; ++i)
    arguments.push_back(loadAt(buffers, i, pointer));
  for (unsigned i = 0; i < scalarCount; ++i)
    arguments.push_back(loadAt(numbers, i, i64));
  arguments.append({loadAt(block, kArgScratch, pointer), outerEntry->getArgument(1),
                    outerEntry->getArgument(2)});
  auto call = func::CallOp::create(b, inner, arguments);
  func::ReturnOp::create(b, call.getResults());

  entry = inner.addEntryBlock();
  auto values = entry->getArguments();
  inputs.assign(values.begin(), values.begin() + inputCount);
  outputs.assign(values.begin() + inputCount, values.begin() + inputCount + outputCount);
  scalars.assign(values.begin() + inputCount + outputCount, values.end() - 3);
  scratch = values[values.size() - 3];
  worker = values[values.size() - 2];
  workers = values[values.size() - 1];
  b.setInsertionPointToStart(entry);
  errorSlot = slot(b.getI32Type());
  b.setInsertionPointToEnd(entry);
  LLVM::StoreOp::create(b, arith::ConstantIntOp::create(b, 0, 32), errorSlot);
}

void KernelEmitter::finish() {
  Value code = LLVM::LoadOp::create(b, b.getI32Type(), errorSlot);
  func::ReturnOp::create(b, code);
}

Value KernelEmitter::index(int64_t value) { return arith::ConstantIntOp::create(b, value, 64); }

// Sizes and positions are below 2^63 (the runtime checks every buffer's bytes), so nsw holds; it
// lets LLVM see contiguous accesses.
static constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw;

Value KernelEmitter::add(Value x, Value y) { return arith::AddIOp::create(b, x, y, kNoWrap); }
Value KernelEmitter::sub(Value x, Value y) { return arith::SubIOp::create(b, x, y, kNoWrap); }
Value KernelEmitter::mul(Value x, Value y) { return arith::MulIOp::create(b, x, y, kNoWrap); }
Value KernelEmitter::divide(Value x, Value y) { return arith::DivUIOp::create(b, x, y); }
Value KernelEmitter::rest(Value x, Value y) { return arith::RemUIOp::create(b, x, y); }
Value KernelEmitter::min(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
Value KernelEmitter::max(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
Value KernelEmitter::less(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
}
Value KernelEmitter::equal(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
}
Value KernelEmitter::both(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
Value KernelEmitter::negate(Value x) {
  return arith::XOrIOp::create(b, x, arith::ConstantIntOp::create(b, 1, 1));
}
Value KernelEmitter::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, condition, x, y);
}

Value KernelEmitter::size(AffineExpr expr) {
  if (std::optional<int64_t> constant = llm::constantOf(expr))
    return index(*constant);
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return scalars[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = size(binary.getLHS()), rhs = size(binary.getRHS());
  return binary.getKind() == AffineExprKind::Mul ? mul(lhs, rhs) : add(lhs, rhs);
}

KernelEmitter::IndexList KernelEmitter::sizes(Type tensor) {
  IndexList list;
  for (AffineExpr dim : llm::dimsOf(tensor))
    list.push_back(size(dim));
  return list;
}

Value KernelEmitter::product(ArrayRef<Value> sizes) {
  Value total = index(1);
  for (Value size : sizes)
    total = mul(total, size);
  return total;
}

/// The type in memory: booleans are bytes.
static Type storageType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  return signlessType(element);
}

Value KernelEmitter::address(Value pointer, Value index, Type element) {
  return LLVM::GEPOp::create(b, pointer.getType(), storageType(element), pointer,
                             ArrayRef<LLVM::GEPArg>{index}, LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelEmitter::load(Value pointer, Value index, Type element) {
  Value value = LLVM::LoadOp::create(b, storageType(element), address(pointer, index, element));
  if (!element.isInteger(1))
    return value;
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value,
                               Value(arith::ConstantIntOp::create(b, 0, 8)));
}

void KernelEmitter::store(Value value, Value pointer, Value index, Type element) {
  if (element.isInteger(1))
    value = arith::ExtUIOp::create(b, b.getI8Type(), value);
  LLVM::StoreOp::create(b, value, address(pointer, index, element));
}

Value KernelEmitter::loadVector(Value pointer, Value index, Type element, unsigned lanes) {
  Type type = VectorType::get({int64_t(lanes)}, storageType(element));
  unsigned align = storageType(element).getIntOrFloatBitWidth() / 8;
  return LLVM::LoadOp::create(b, type, address(pointer, index, element), align);
}

void KernelEmitter::storeVector(Value vector, Value pointer, Value index, Type element) {
  unsigned align = storageType(element).getIntOrFloatBitWidth() / 8;
  LLVM::StoreOp::create(b, vector, address(pointer, index, element), align);
}

Value KernelEmitter::slot(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  Value length = arith::ConstantIntOp::create(b, count, 64);
  return LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), element, length, 64);
}

Value KernelEmitter::linear(ArrayRef<Value> indices, ArrayRef<Value> sizes) {
  Value position;
  for (auto [i, size] : llvm::zip_equal(indices, sizes))
    position = position ? add(mul(position, size), i) : i;
  return position ? position : index(0);
}

KernelEmitter::IndexList KernelEmitter::delinear(Value linear, ArrayRef<Value> sizes) {
  IndexList indices(sizes.size());
  for (size_t i = sizes.size(); i-- > 1;) {
    indices[i] = rest(linear, sizes[i]);
    linear = divide(linear, sizes[i]);
  }
  if (!sizes.empty())
    indices[0] = linear;
  return indices;
}

void KernelEmitter::loop(Value low, Value high, llvm::function_ref<void(Value)> body,
                         int64_t step) {
  auto loop = scf::ForOp::create(b, low, high, index(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

SmallVector<Value> KernelEmitter::loop(Value low, Value high, ArrayRef<Value> initial,
                                       CarriedBody body, int64_t step) {
  auto loop = scf::ForOp::create(b, low, high, index(step), initial,
                                 [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, results);
  return SmallVector<Value>(loop.getResults());
}

void KernelEmitter::when(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

Value KernelEmitter::choose(Value condition, Type type, llvm::function_ref<Value()> yes,
                            llvm::function_ref<Value()> no) {
  if (type.isBF16()) {
    // As its bits: LLVM would carry the value in f32 and call a library to come back.
    Type bits = b.getI16Type();
    Value chosen = choose(
        condition, bits, [&]() -> Value { return arith::BitcastOp::create(b, bits, yes()); },
        [&]() -> Value { return arith::BitcastOp::create(b, bits, no()); });
    return arith::BitcastOp::create(b, type, chosen);
  }
  auto branch = scf::IfOp::create(b, TypeRange{type}, condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, yes());
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, no());
  return branch.getResult(0);
}

void KernelEmitter::partition(Value total, llvm::function_ref<void(Value, Value)> body) {
  Value low = divide(mul(total, worker), workers);
  Value high = divide(mul(total, add(worker, index(1))), workers);
  body(low, high);
}

void KernelEmitter::forEachRow(ArrayRef<Value> sizes, RowBody body, bool wholeRows) {
  if (sizes.empty()) {
    when(equal(worker, index(0)), [&] { body({}, index(0), index(1)); });
    return;
  }
  Value rows = product(sizes.drop_back()), length = sizes.back();
  if (wholeRows) {
    partition(rows, [&](Value low, Value high) {
      loop(low, high, [&](Value row) { body(delinear(row, sizes.drop_back()), index(0), length); });
    });
    return;
  }
  Value pieces = divide(add(length, index(kPiece - 1)), index(kPiece));
  partition(mul(rows, pieces), [&](Value low, Value high) {
    loop(low, high, [&](Value task) {
      IndexList row = delinear(divide(task, pieces), sizes.drop_back());
      Value start = mul(rest(task, pieces), index(kPiece));
      body(row, start, min(length, add(start, index(kPiece))));
    });
  });
}

void KernelEmitter::fail(Value condition, int32_t code) {
  when(condition,
       [&] { LLVM::StoreOp::create(b, arith::ConstantIntOp::create(b, code, 32), errorSlot); });
}

} // namespace llmc::cpu
