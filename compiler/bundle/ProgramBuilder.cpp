// SPDX-License-Identifier: Apache-2.0
//
// One pass over each entry: bindings from the arguments' sizes, then buffers
// and instructions in the order of the ops.
#include "compiler/bundle/ProgramBuilder.h"

#include "compiler/ir/llm/Arithmetic.h"
#include "compiler/ir/llm/Dims.h"
#include "compiler/ir/llm/Symbols.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace llmc {

uint32_t dtypeNumber(Type element) {
  if (element.isF32())
    return LLMC_DTYPE_F32;
  if (element.isF16())
    return LLMC_DTYPE_F16;
  if (element.isBF16())
    return LLMC_DTYPE_BF16;
  if (element.isF64())
    return LLMC_DTYPE_F64;
  // Narrow types take a byte for each element: a float its bits, an integer its value.
  if (isa<FloatType>(element))
    return element.getIntOrFloatBitWidth() <= 8 ? LLMC_DTYPE_U8 : 0;
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer)
    return 0;
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return LLMC_DTYPE_BOOL;
  case 2:
  case 4:
  case 8:
    return isUnsigned ? LLMC_DTYPE_U8 : LLMC_DTYPE_I8;
  case 16:
    return isUnsigned ? LLMC_DTYPE_U16 : LLMC_DTYPE_I16;
  case 32:
    return isUnsigned ? LLMC_DTYPE_U32 : LLMC_DTYPE_I32;
  case 64:
    return isUnsigned ? LLMC_DTYPE_U64 : LLMC_DTYPE_I64;
  default:
    return 0;
  }
}

static uint64_t elementBytes(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

namespace {

/// What a name in `llm.role` is in the format.
uint32_t roleNumber(StringAttr role) {
  static constexpr std::pair<llvm::StringLiteral, uint32_t> kRoles[] = {
      {"ids", LLMC_ROLE_IDS},
      {"embeddings", LLMC_ROLE_EMBEDDINGS},
      {"positions", LLMC_ROLE_POSITIONS},
      {"mask", LLMC_ROLE_MASK},
      {"past", LLMC_ROLE_PAST},
      {"present", LLMC_ROLE_PRESENT},
      {"logits", LLMC_ROLE_LOGITS},
      {"cache_position", LLMC_ROLE_CACHE_POSITION},
      {"use_cache", LLMC_ROLE_USE_CACHE},
  };
  for (auto [name, number] : kRoles)
    if (role && role.getValue() == name)
      return number;
  return LLMC_ROLE_OTHER;
}

class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, llvm::function_ref<std::string(rt::WeightOp)> same)
      : module(module), symbols(module), same(same) {}

  FailureOr<BuiltProgram> build();

private:
  LogicalResult buildEntry(func::FuncOp function);
  LogicalResult addArguments(func::FuncOp function);
  LogicalResult addOp(Operation *op);
  LogicalResult addResults(func::FuncOp function);
  void addKernels();

  llmc_str text(StringRef value);
  uint32_t device(StringRef name);
  uint32_t symbol(unsigned position);
  uint32_t expr(AffineExpr value);
  uint32_t record(uint32_t op, uint32_t a, uint32_t b, int64_t value);
  uint32_t byteSize(Type type);
  llmc_range list(ArrayRef<uint32_t> values);
  LogicalResult addIo(Location loc, Type type, DictionaryAttr attrs, uint32_t buffer);
  uint32_t addBuffer(const llmc_buffer_record &buffer);
  uint32_t bufferOf(Value value) const { return buffers.lookup(value); }
  /// Extends the lifetime of `value`'s memory to the next instruction, and returns its buffer.
  uint32_t use(Value value);
  void instruction(uint32_t op, Location loc, uint32_t device, uint32_t target,
                   ArrayRef<uint32_t> args, ArrayRef<uint32_t> scalars,
                   uint32_t arithmetic = LLMC_NONE);
  uint32_t arithmetic(rt::DispatchOp dispatch);
  uint64_t placeWeight(Operation *op, const std::string &key, uint64_t size);

  ModuleOp module;
  llm::Symbols symbols;
  llvm::function_ref<std::string(rt::WeightOp)> same;

  std::string strings;
  llvm::StringMap<llmc_str> knownStrings;
  std::vector<uint32_t> pool;
  std::vector<llmc_device_record> devices;
  std::vector<llmc_symbol_record> symbolRecords;
  DenseMap<unsigned, uint32_t> symbolNumbers;
  std::vector<llmc_kernel_record> kernels;
  llvm::StringMap<uint32_t> kernelNumbers;
  llvm::StringMap<AffineExpr> kernelArithmetic; // in the kernel's own sizes
  std::vector<llmc_entry_record> entries;
  std::vector<llmc_expr_record> exprs;
  std::vector<llmc_binding_record> bindings;
  std::vector<llmc_check_record> checks;
  std::vector<llmc_buffer_record> bufferRecords;
  std::vector<llmc_io_record> ios;
  std::vector<llmc_instruction_record> instructions;
  BuiltProgram result;
  llvm::StringMap<uint64_t> weightOffsets;

  // Of the entry that is being built; record numbers are relative to these starts.
  uint32_t exprStart = 0, bufferStart = 0, instructionStart = 0;
  DenseMap<AffineExpr, uint32_t> knownExprs;
  DenseMap<Value, uint32_t> buffers;
  DenseMap<unsigned, bool> bound;
};

llmc_str ProgramBuilder::text(StringRef value) {
  auto [entry, isNew] = knownStrings.try_emplace(value);
  if (isNew) {
    entry->second = {uint32_t(strings.size()), uint32_t(value.size())};
    strings += value;
  }
  return entry->second;
}

uint32_t ProgramBuilder::device(StringRef name) {
  llmc_str wanted = text(name);
  for (auto [i, known] : llvm::enumerate(devices))
    if (known.name.offset == wanted.offset && known.name.size == wanted.size)
      return i;
  // "cpu1" is an instance of driver "cpu".
  devices.push_back({wanted, text(name.rtrim("0123456789"))});
  return devices.size() - 1;
}

llmc_range ProgramBuilder::list(ArrayRef<uint32_t> values) {
  llmc_range range{uint32_t(pool.size()), uint32_t(values.size())};
  pool.insert(pool.end(), values.begin(), values.end());
  return range;
}

uint32_t ProgramBuilder::record(uint32_t op, uint32_t a, uint32_t b, int64_t value) {
  exprs.push_back({op, a, b, 0, value});
  return exprs.size() - 1 - exprStart;
}

uint32_t ProgramBuilder::symbol(unsigned position) {
  auto [entry, isNew] = symbolNumbers.try_emplace(position, symbolRecords.size());
  if (isNew)
    symbolRecords.push_back({text(symbols.all()[position].getName())});
  return entry->second;
}

uint32_t ProgramBuilder::expr(AffineExpr value) {
  if (auto known = knownExprs.find(value); known != knownExprs.end())
    return known->second;
  uint32_t number;
  if (auto constant = dyn_cast<AffineConstantExpr>(value)) {
    number = record(LLMC_EXPR_CONST, 0, 0, constant.getValue());
  } else if (auto leaf = dyn_cast<AffineSymbolExpr>(value)) {
    llm::SymbolAttr definition = symbols.all()[leaf.getPosition()];
    uint32_t op = LLMC_EXPR_SYMBOL;
    switch (definition.getKind()) {
    case llm::SymbolKind::Input:
    case llm::SymbolKind::SessionSeq:
    case llm::SymbolKind::SessionPast:
      break;
    case llm::SymbolKind::FloorDiv:
      op = LLMC_EXPR_FLOORDIV;
      break;
    case llm::SymbolKind::Mod:
      op = LLMC_EXPR_MOD;
      break;
    case llm::SymbolKind::Min:
      op = LLMC_EXPR_MIN;
      break;
    case llm::SymbolKind::Max:
      op = LLMC_EXPR_MAX;
      break;
    case llm::SymbolKind::Broadcast:
      op = LLMC_EXPR_BROADCAST;
      break;
    }
    if (op == LLMC_EXPR_SYMBOL) {
      number = record(op, 0, 0, symbol(leaf.getPosition()));
    } else {
      uint32_t a = expr(definition.getOperands().getExprs()[0]),
               b = expr(definition.getOperands().getExprs()[1]);
      number = record(op, a, b, 0);
    }
  } else {
    auto binary = cast<AffineBinaryOpExpr>(value);
    uint32_t a = expr(binary.getLHS()), b = expr(binary.getRHS());
    number =
        record(binary.getKind() == AffineExprKind::Mul ? LLMC_EXPR_MUL : LLMC_EXPR_ADD, a, b, 0);
  }
  knownExprs[value] = number;
  return number;
}

uint32_t ProgramBuilder::byteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  AffineExpr bytes = llm::productOf(llm::dimsOf(tensor), module.getContext());
  return expr(llm::canonical(bytes * int64_t(elementBytes(tensor.getElementType()))));
}

uint32_t ProgramBuilder::addBuffer(const llmc_buffer_record &buffer) {
  bufferRecords.push_back(buffer);
  return bufferRecords.size() - 1 - bufferStart;
}

LogicalResult ProgramBuilder::addIo(Location loc, Type type, DictionaryAttr attrs,
                                    uint32_t buffer) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  uint32_t dtype = tensor ? dtypeNumber(tensor.getElementType()) : 0;
  auto name = attrs ? attrs.getAs<StringAttr>("llm.name") : StringAttr();
  if (!dtype)
    return emitError(loc) << "[LLMC1402] input or output '" << (name ? name.getValue() : "")
                          << "' has type " << type << ", which a bundle cannot hold";
  SmallVector<uint32_t> dims, names;
  for (AffineExpr dim : llm::dimsOf(type)) {
    dims.push_back(expr(dim));
    llmc_str words = isa<AffineConstantExpr>(dim) ? llmc_str{0, 0} : text(symbols.text(dim));
    names.append({words.offset, words.size});
  }
  llmc_io_record io{};
  io.name = text(name ? name.getValue() : "");
  io.dtype = dtype;
  io.role = roleNumber(attrs ? attrs.getAs<StringAttr>("llm.role") : StringAttr());
  io.dims = list(dims);
  io.dim_names = list(names);
  io.buffer = buffer;
  auto pair = attrs ? attrs.getAs<IntegerAttr>("llm.pair") : IntegerAttr();
  auto axis = attrs ? attrs.getAs<IntegerAttr>("llm.cache_axis") : IntegerAttr();
  io.pair = pair ? pair.getInt() : LLMC_NONE;
  io.cache_axis = axis ? axis.getInt() : LLMC_NONE;
  ios.push_back(io);
  return success();
}

uint32_t ProgramBuilder::use(Value value) {
  uint32_t number = bufferOf(value);
  llmc_buffer_record *buffer = &bufferRecords[bufferStart + number];
  uint32_t now = instructions.size() - instructionStart;
  buffer->last = std::max(buffer->last, now);
  if (buffer->kind == LLMC_BUFFER_ALIAS) {
    buffer = &bufferRecords[bufferStart + buffer->source];
    buffer->last = std::max(buffer->last, now);
  }
  return number;
}

void ProgramBuilder::instruction(uint32_t op, Location loc, uint32_t device, uint32_t target,
                                 ArrayRef<uint32_t> args, ArrayRef<uint32_t> scalars,
                                 uint32_t arithmetic) {
  // Fused kernels stand for several nodes; the first few tell where to look.
  static constexpr size_t kMostNames = 4;
  SmallVector<StringRef> names;
  loc->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && !llvm::is_contained(names, named.getName()))
      names.push_back(named.getName());
    return WalkResult::advance();
  });
  std::string name = llvm::join(ArrayRef(names).take_front(kMostNames), ", ");
  if (names.size() > kMostNames)
    name += ", …";
  llmc_str label = text(name);
  instructions.push_back(
      {op, device, target, label.offset, label.size, list(args), list(scalars), arithmetic});
}

/// What a kernel's products count, in the sizes of this call; none for a kernel without.
uint32_t ProgramBuilder::arithmetic(rt::DispatchOp dispatch) {
  AffineExpr counted = kernelArithmetic.lookup(dispatch.getKernel());
  if (llm::isConstant(counted, 0))
    return LLMC_NONE;
  ArrayRef<AffineExpr> sizes = dispatch.getScalars().getExprs();
  return expr(llm::substitute(counted, [&](unsigned position) { return sizes[position]; }));
}

uint64_t ProgramBuilder::placeWeight(Operation *op, const std::string &key, uint64_t size) {
  auto [entry, isNew] = weightOffsets.try_emplace(key);
  if (isNew) {
    entry->second = llvm::alignTo(result.weightsSize, LLMC_ALIGN_BUFFER);
    result.weights.push_back({op, entry->second, size});
    result.weightsSize = entry->second + size;
  }
  return entry->second;
}

LogicalResult ProgramBuilder::addArguments(func::FuncOp function) {
  // First the sizes that stand alone in some dimension: they give the symbols their values.
  for (auto [i, argument] : llvm::enumerate(function.getArguments()))
    if (isa<RankedTensorType>(argument.getType()))
      for (auto [d, dim] : llvm::enumerate(llm::dimsOf(argument.getType())))
        if (auto leaf = dyn_cast<AffineSymbolExpr>(dim))
          if (symbols.all()[leaf.getPosition()].getKind() == llm::SymbolKind::Input &&
              bound.try_emplace(leaf.getPosition(), true).second)
            bindings.push_back(
                {symbol(leaf.getPosition()), LLMC_BIND_INPUT_DIM, uint32_t(i), uint32_t(d)});
  for (auto [position, attr] : llvm::enumerate(symbols.all())) {
    bool session = attr.getKind() == llm::SymbolKind::SessionSeq ||
                   attr.getKind() == llm::SymbolKind::SessionPast;
    if (session && function->getAttrOfType<StringAttr>("rt.entry") == "session") {
      uint32_t kind = attr.getKind() == llm::SymbolKind::SessionSeq ? LLMC_BIND_SESSION_SEQ
                                                                    : LLMC_BIND_SESSION_PAST;
      bindings.push_back({symbol(position), kind, LLMC_NONE, LLMC_NONE});
      bound[position] = true;
    }
  }
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    llmc_buffer_record buffer{};
    buffer.kind = LLMC_BUFFER_INPUT;
    buffer.device = device(rt::kHostDevice);
    buffer.source = i;
    buffer.size_expr = byteSize(argument.getType());
    buffers[argument] = addBuffer(buffer);
    if (failed(addIo(function.getLoc(), argument.getType(), function.getArgAttrDict(i),
                     buffers[argument])))
      return failure();
  }
  return success();
}

LogicalResult ProgramBuilder::addOp(Operation *op) {
  auto arena = [&](Value value, uint32_t where) {
    llmc_buffer_record buffer{};
    buffer.kind = LLMC_BUFFER_ARENA;
    buffer.device = where;
    buffer.source = LLMC_NONE;
    buffer.size_expr = byteSize(value.getType());
    buffer.first = buffer.last = instructions.size() - instructionStart;
    buffers[value] = addBuffer(buffer);
    return buffers[value];
  };
  auto weight = [&](Value value, uint64_t offset, uint64_t size) {
    llmc_buffer_record buffer{};
    buffer.kind = LLMC_BUFFER_WEIGHT;
    auto where = op->getAttrOfType<StringAttr>(rt::kDeviceAttr);
    buffer.device = device(where ? where.getValue() : StringRef(rt::kHostDevice));
    buffer.source = buffer.size_expr = LLMC_NONE;
    buffer.offset = offset;
    buffer.size = size;
    buffers[value] = addBuffer(buffer);
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](rt::WeightOp w) {
        uint64_t size = 0;
        if (auto bytes = w->getAttrOfType<IntegerAttr>("rt.bytes"))
          size = bytes.getInt();
        else
          size = cast<RankedTensorType>(w.getType()).getNumElements() *
                 elementBytes(cast<RankedTensorType>(w.getType()).getElementType());
        weight(w.getResult(), placeWeight(op, same(w), size), size);
        return success();
      })
      .Case([&](rt::ConstantOp c) {
        auto type = cast<RankedTensorType>(c.getType());
        uint64_t size = type.getNumElements() * elementBytes(type.getElementType());
        std::string key = "constant:";
        llvm::raw_string_ostream(key) << c.getValueAttr();
        weight(c.getResult(), placeWeight(op, key, size), size);
        return success();
      })
      .Case([&](rt::ViewOp view) {
        uint32_t root = bufferOf(view.getInput());
        if (bufferRecords[bufferStart + root].kind == LLMC_BUFFER_ALIAS)
          root = bufferRecords[bufferStart + root].source;
        llmc_buffer_record buffer{};
        buffer.kind = LLMC_BUFFER_ALIAS;
        buffer.device = bufferRecords[bufferStart + root].device;
        buffer.source = root;
        buffer.size_expr = byteSize(view.getType());
        buffer.first = buffer.last = instructions.size() - instructionStart;
        buffers[view.getResult()] = addBuffer(buffer);
        return success();
      })
      .Case([&](rt::KvOp kv) {
        auto type = cast<llm::KvType>(kv.getType());
        llmc_buffer_record buffer{};
        buffer.kind = LLMC_BUFFER_KV;
        auto where = op->getAttrOfType<StringAttr>(rt::kDeviceAttr);
        buffer.device = device(where ? where.getValue() : StringRef(rt::kHostDevice));
        buffer.source = buffer.size_expr = LLMC_NONE;
        buffer.kv_heads = type.getHeads();
        buffer.kv_head_size = type.getHeadSize();
        buffer.kv_dtype = dtypeNumber(type.getElementType());
        buffer.kv_layout = type.getColumns() ? LLMC_KV_LAYOUT_COLUMNS : LLMC_KV_LAYOUT_ROWS;
        buffer.size = uint64_t(type.getHeads()) * LLMC_KV_BLOCK_TOKENS * type.getHeadSize() *
                      elementBytes(type.getElementType());
        buffers[kv.getResult()] = addBuffer(buffer);
        return success();
      })
      .Case([&](rt::DispatchOp dispatch) {
        SmallVector<uint32_t> args, scalars;
        uint32_t where = device(dispatch.getDevice());
        for (Value input : dispatch.getInputs())
          args.push_back(use(input));
        for (Value output : dispatch.getOutputs())
          args.push_back(arena(output, where));
        for (AffineExpr scalar : dispatch.getScalars().getExprs())
          scalars.push_back(expr(scalar));
        instruction(LLMC_OP_DISPATCH, op->getLoc(), where,
                    kernelNumbers.lookup(dispatch.getKernel()), args, scalars,
                    arithmetic(dispatch));
        return success();
      })
      .Case([&](rt::TransferOp transfer) {
        uint32_t where = device(transfer.getDevice()), bytes = byteSize(transfer.getType());
        uint32_t from = use(transfer.getInput()), to = arena(transfer.getResult(), where);
        instruction(LLMC_OP_TRANSFER, op->getLoc(), where, bytes, {to, from}, {});
        return success();
      })
      .Case([&](rt::WaitOp wait) {
        instruction(LLMC_OP_WAIT, op->getLoc(), device(wait.getDevice()), 0, {}, {});
        return success();
      })
      .Case([](func::ReturnOp) { return success(); })
      .Default([](Operation *other) {
        return other->emitError("[LLMC1401] an op of a finished program was expected, not '")
               << other->getName() << "'";
      });
}

LogicalResult ProgramBuilder::addResults(func::FuncOp function) {
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  for (auto [o, value] : llvm::enumerate(terminator.getOperands())) {
    uint32_t number = bufferOf(value);
    uint32_t root = number;
    if (bufferRecords[bufferStart + root].kind == LLMC_BUFFER_ALIAS)
      root = bufferRecords[bufferStart + root].source;
    llmc_buffer_record &buffer = bufferRecords[bufferStart + root];
    uint32_t bytes = byteSize(value.getType());
    if (buffer.kind == LLMC_BUFFER_ARENA && buffer.device == device(rt::kHostDevice)) {
      // Computed where the caller wants it.
      buffer.kind = LLMC_BUFFER_OUTPUT;
      buffer.source = o;
      if (failed(addIo(function.getLoc(), value.getType(), function.getResultAttrDict(o), root)))
        return failure();
      continue;
    }
    // An input, a weight, another output, or another device's memory: copied.
    llmc_buffer_record copy{};
    copy.kind = LLMC_BUFFER_OUTPUT;
    copy.device = device(rt::kHostDevice);
    copy.source = o;
    copy.size_expr = bytes;
    uint32_t from = use(value), to = addBuffer(copy);
    bool remote = bufferRecords[bufferStart + root].device != copy.device;
    instruction(remote ? LLMC_OP_TRANSFER : LLMC_OP_COPY, function.getLoc(), copy.device, bytes,
                {to, from}, {});
    if (failed(addIo(function.getLoc(), value.getType(), function.getResultAttrDict(o), to)))
      return failure();
  }
  return success();
}

LogicalResult ProgramBuilder::buildEntry(func::FuncOp function) {
  exprStart = exprs.size();
  bufferStart = bufferRecords.size();
  instructionStart = instructions.size();
  knownExprs.clear();
  buffers.clear();
  bound.clear();
  auto kind = function->getAttrOfType<StringAttr>("rt.entry");
  llmc_entry_record entry{};
  entry.name = text(kind ? kind.getValue() : function.getName());
  entry.kind = kind && kind.getValue() == "session" ? LLMC_ENTRY_SESSION : LLMC_ENTRY_RUN;
  entry.inputs.begin = ios.size();
  entry.bindings.begin = bindings.size();
  entry.checks.begin = checks.size();
  entry.exprs.begin = exprStart;
  entry.buffers.begin = bufferStart;
  entry.instructions.begin = instructionStart;
  if (failed(addArguments(function)))
    return failure();
  entry.inputs.count = ios.size() - entry.inputs.begin;

  for (Operation &op : function.getBody().front())
    if (failed(addOp(&op)))
      return failure();
  entry.outputs.begin = ios.size();
  if (failed(addResults(function)))
    return failure();
  entry.outputs.count = ios.size() - entry.outputs.begin;

  // Conditions on sizes that this entry knows; another entry may know others.
  std::function<bool(AffineExpr)> known = [&](AffineExpr value) {
    return llvm::all_of(llm::symbolsIn(value), [&](unsigned position) {
      llm::SymbolAttr attr = symbols.all()[position];
      return attr.getOperands() ? llvm::all_of(attr.getOperands().getExprs(), known)
                                : bound.contains(position);
    });
  };
  for (llm::CheckAttr check : symbols.checks()) {
    ArrayRef<AffineExpr> sides = check.getSides().getExprs();
    if (!known(sides[0]) || !known(sides[1]))
      continue;
    uint32_t a = expr(sides[0]), b = expr(sides[1]);
    checks.push_back(
        {check.getKind() == llm::CheckKind::Eq ? uint32_t(LLMC_CHECK_EQ) : uint32_t(LLMC_CHECK_LE),
         a, b, 0, text(check.getMessage())});
  }
  for (auto &[value, number] : knownExprs)
    for (unsigned position : llm::symbolsIn(value))
      if (!symbols.all()[position].getOperands() && !bound.contains(position))
        return function.emitError("[LLMC1403] the size '")
               << symbols.all()[position].getName()
               << "' is used but no input has it as a dimension of its own";

  entry.bindings.count = bindings.size() - entry.bindings.begin;
  entry.checks.count = checks.size() - entry.checks.begin;
  entry.exprs.count = exprs.size() - exprStart;
  entry.buffers.count = bufferRecords.size() - bufferStart;
  entry.instructions.count = instructions.size() - instructionStart;
  entries.push_back(entry);
  return success();
}

void ProgramBuilder::addKernels() {
  for (auto kernel : module.getOps<rt::KernelOp>()) {
    kernelNumbers[kernel.getSymName()] = kernels.size();
    Block &body = kernel.getBody().front();
    AffineExpr counted = getAffineConstantExpr(0, module.getContext());
    for (Operation &op : body)
      counted = counted + llm::arithmeticOf(&op);
    kernelArithmetic[kernel.getSymName()] = llm::canonical(counted);
    llmc_kernel_record record{};
    record.name = text(kernel.getSymName());
    record.label = text(kernel.getLabel());
    if (auto scratch = kernel->getAttrOfType<IntegerAttr>("rt.scratch"))
      record.scratch_bytes = scratch.getInt();
    record.operand_count = body.getNumArguments() + body.getTerminator()->getNumOperands();
    record.output_count = body.getTerminator()->getNumOperands();
    record.scalar_count = kernel.getSizes();
    kernels.push_back(record);
  }
}

FailureOr<BuiltProgram> ProgramBuilder::build() {
  text(""); // offset 0 is the empty string
  device(rt::kHostDevice);
  addKernels();
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration() && failed(buildEntry(function)))
      return failure();

  llmc_program_header header{};
  std::memcpy(header.magic, LLMC_PROGRAM_MAGIC, sizeof header.magic);
  header.version_major = LLMC_FORMAT_MAJOR;
  header.version_minor = LLMC_FORMAT_MINOR;
  std::string bytes(sizeof header, '\0');
  auto append = [&](const auto &records) -> llmc_table {
    bytes.resize(llvm::alignTo(bytes.size(), 8), '\0');
    llmc_table table{bytes.size(), records.size()};
    bytes.append(reinterpret_cast<const char *>(records.data()),
                 records.size() * sizeof(records[0]));
    return table;
  };
  header.strings = append(strings);
  header.pool = append(pool);
  header.devices = append(devices);
  header.symbols = append(symbolRecords);
  header.kernels = append(kernels);
  header.entries = append(entries);
  header.exprs = append(exprs);
  header.bindings = append(bindings);
  header.checks = append(checks);
  header.buffers = append(bufferRecords);
  header.ios = append(ios);
  header.instructions = append(instructions);
  header.file_size = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  result.bytes = std::move(bytes);
  return std::move(result);
}

} // namespace

FailureOr<BuiltProgram> buildProgram(ModuleOp module,
                                     llvm::function_ref<std::string(rt::WeightOp)> same) {
  return ProgramBuilder(module, same).build();
}

} // namespace llmc
