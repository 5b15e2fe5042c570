// SPDX-License-Identifier: Apache-2.0
//
// The rules are those of runtime/abi/BundleFormat.h. Messages name the record
// within its entry; ProgramChecker adds which entry.
#include "runtime/bundle/EntryChecker.h"

#include "runtime/core/Dtype.h"

#include <unordered_set>

namespace llmc {
namespace {

template <typename... Args> Status corrupt(fmt::format_string<Args...> text, Args &&...args) {
  return Status::error(Code::Corrupt, text, std::forward<Args>(args)...);
}

template <typename... Args>
Status inContext(const Status &status, fmt::format_string<Args...> text, Args &&...args) {
  return status.isOk() ? status : status.inContext(fmt::format(text, std::forward<Args>(args)...));
}

bool isDtype(uint32_t value) { return dtypeSize(static_cast<Dtype>(value)) != 0; }

/// Which roles an input and an output may have.
constexpr bool isRole(uint32_t role, bool isInput) {
  switch (role) {
  case LLMC_ROLE_OTHER:
    return true;
  case LLMC_ROLE_IDS:
  case LLMC_ROLE_EMBEDDINGS:
  case LLMC_ROLE_POSITIONS:
  case LLMC_ROLE_MASK:
  case LLMC_ROLE_PAST:
  case LLMC_ROLE_CACHE_POSITION:
  case LLMC_ROLE_USE_CACHE:
    return isInput;
  case LLMC_ROLE_PRESENT:
  case LLMC_ROLE_LOGITS:
    return !isInput;
  }
  return false;
}

} // namespace

EntryChecker::EntryChecker(const ProgramChecker &owner, const llmc_entry_record &entry)
    : owner(owner), program(owner.program), entry(entry), inputs(program.inputs(entry)),
      outputs(program.outputs(entry)), exprs(program.exprs(entry)), buffers(program.buffers(entry)),
      instructions(program.instructions(entry)), written(buffers.size()) {}

Status EntryChecker::check() {
  LLMC_TRY(checkExprs());
  LLMC_TRY(checkIos(inputs, /*isInput=*/true));
  LLMC_TRY(checkIos(outputs, /*isInput=*/false));
  LLMC_TRY(checkPairs());
  LLMC_TRY(checkBindings());
  LLMC_TRY(checkConditions());
  LLMC_TRY(checkBuffers());
  LLMC_TRY(checkIoBuffers(inputs, LLMC_BUFFER_INPUT, "input"));
  LLMC_TRY(checkIoBuffers(outputs, LLMC_BUFFER_OUTPUT, "output"));
  return checkInstructions();
}

Status EntryChecker::checkIndex(uint32_t index, size_t count, const char *what) const {
  return index < count ? Status::ok()
                       : corrupt("it names {} {}, but there are {}", what, index, count);
}

Status EntryChecker::checkIndexList(llmc_range range, uint64_t limit, size_t count,
                                    const char *what) const {
  size_t poolSize = program.poolTable.size();
  if (range.count > limit)
    return corrupt("it lists {} {}s; at most {} are allowed", range.count, what, limit);
  if (range.begin > poolSize || range.count > poolSize - range.begin)
    return corrupt("its list of {}s (pool words {} to {}) is not within the {} words", what,
                   range.begin, uint64_t(range.begin) + range.count, poolSize);
  for (uint32_t index : program.pool(range))
    LLMC_TRY(checkIndex(index, count, what));
  return Status::ok();
}

Status EntryChecker::checkExprs() const {
  for (size_t i = 0; i < exprs.size(); ++i) {
    const llmc_expr_record &expr = exprs[i];
    if (expr.reserved != 0)
      return corrupt("expression {} has a reserved field that is not 0", i);
    switch (expr.op) {
    case LLMC_EXPR_CONST:
      break;
    case LLMC_EXPR_SYMBOL:
      if (expr.value < 0 || static_cast<uint64_t>(expr.value) >= program.symbols().size())
        return corrupt("expression {} names symbol {}, but there are {}", i, expr.value,
                       program.symbols().size());
      break;
    case LLMC_EXPR_ADD:
    case LLMC_EXPR_MUL:
    case LLMC_EXPR_FLOORDIV:
    case LLMC_EXPR_CEILDIV:
    case LLMC_EXPR_MOD:
    case LLMC_EXPR_MIN:
    case LLMC_EXPR_MAX:
    case LLMC_EXPR_BROADCAST:
      if (expr.a >= i || expr.b >= i)
        return corrupt("expression {} uses expressions {} and {}, which do not both precede it", i,
                       expr.a, expr.b);
      break;
    default:
      return corrupt("expression {} has the unknown operation {}", i, expr.op);
    }
  }
  return Status::ok();
}

Status EntryChecker::checkIos(std::span<const llmc_io_record> ios, bool isInput) const {
  const char *kind = isInput ? "input" : "output";
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < ios.size(); ++i) {
    LLMC_TRY(inContext(checkIo(ios[i], isInput), "{} {}", kind, i));
    if (!names.insert(program.string(ios[i].name)).second)
      return corrupt("two {}s are named '{}'", kind, program.string(ios[i].name));
  }
  return Status::ok();
}

Status EntryChecker::checkIo(const llmc_io_record &io, bool isInput) const {
  LLMC_TRY(owner.checkString(io.name, "name"));
  if (!isDtype(io.dtype))
    return corrupt("its element type {} is unknown", io.dtype);
  if (!isRole(io.role, isInput))
    return corrupt("the role {} is unknown or not one it can have", io.role);
  if (io.reserved != 0)
    return corrupt("a reserved field is not 0");
  LLMC_TRY(checkIndexList(io.dims, LLMC_MAX_RANK, exprs.size(), "expression"));
  uint32_t rank = io.dims.count;
  LLMC_TRY(checkIndexList(io.dim_names, 2 * LLMC_MAX_RANK, SIZE_MAX, "dim name"));
  if (io.dim_names.count != 2 * rank)
    return corrupt("it has {} words of dim names for {} dims", io.dim_names.count, rank);
  std::span<const uint32_t> words = program.pool(io.dim_names);
  for (uint32_t dim = 0; dim < rank; ++dim)
    LLMC_TRY(owner.checkString({words[2 * dim], words[2 * dim + 1]}, "name of a dim",
                               /*mayBeEmpty=*/true));
  bool isCache = io.role == LLMC_ROLE_PAST || io.role == LLMC_ROLE_PRESENT;
  if (io.cache_axis != LLMC_NONE && (!isCache || io.cache_axis >= rank))
    return corrupt("its cache axis is {}, with role {} and {} dims", io.cache_axis, io.role, rank);
  return Status::ok();
}

Status EntryChecker::checkPairs() const {
  auto checkSide = [&](std::span<const llmc_io_record> ios, uint32_t role,
                       std::span<const llmc_io_record> others, uint32_t otherRole) -> Status {
    for (size_t i = 0; i < ios.size(); ++i) {
      uint32_t pair = ios[i].pair;
      if (pair == LLMC_NONE)
        continue;
      if (ios[i].role != role || pair >= others.size() || others[pair].role != otherRole ||
          others[pair].pair != i)
        return corrupt("'{}' is paired with {}, which is not the other half of its cache",
                       program.string(ios[i].name), pair);
    }
    return Status::ok();
  };
  LLMC_TRY(checkSide(inputs, LLMC_ROLE_PAST, outputs, LLMC_ROLE_PRESENT));
  return checkSide(outputs, LLMC_ROLE_PRESENT, inputs, LLMC_ROLE_PAST);
}

Status EntryChecker::checkBindings() const {
  std::vector<bool> bound(program.symbols().size());
  std::span<const llmc_binding_record> bindings = program.bindings(entry);
  for (size_t i = 0; i < bindings.size(); ++i) {
    const llmc_binding_record &binding = bindings[i];
    LLMC_TRY(inContext(checkIndex(binding.symbol, bound.size(), "symbol"), "binding {}", i));
    if (bound[binding.symbol])
      return corrupt("binding {} gives symbol {} a second value", i, binding.symbol);
    bound[binding.symbol] = true;
    switch (binding.kind) {
    case LLMC_BIND_INPUT_DIM: {
      LLMC_TRY(inContext(checkIndex(binding.input, inputs.size(), "input"), "binding {}", i));
      std::span<const uint32_t> dims = program.pool(inputs[binding.input].dims);
      LLMC_TRY(inContext(checkIndex(binding.dim, dims.size(), "dim"), "binding {}", i));
      const llmc_expr_record &expr = exprs[dims[binding.dim]];
      if (expr.op != LLMC_EXPR_SYMBOL || expr.value != binding.symbol)
        return corrupt("binding {}: dim {} of input {} is not symbol {}", i, binding.dim,
                       binding.input, binding.symbol);
      break;
    }
    case LLMC_BIND_SESSION_SEQ:
    case LLMC_BIND_SESSION_PAST:
      if (entry.kind != LLMC_ENTRY_SESSION)
        return corrupt("binding {} asks a session, but the entry is none", i);
      break;
    default:
      return corrupt("binding {} is of the unknown kind {}", i, binding.kind);
    }
  }
  for (size_t i = 0; i < exprs.size(); ++i)
    if (exprs[i].op == LLMC_EXPR_SYMBOL && !bound[static_cast<size_t>(exprs[i].value)])
      return corrupt("expression {} uses symbol {}, which nothing gives a value", i,
                     exprs[i].value);
  return Status::ok();
}

Status EntryChecker::checkConditions() const {
  std::span<const llmc_check_record> checks = program.checks(entry);
  for (size_t i = 0; i < checks.size(); ++i) {
    const llmc_check_record &check = checks[i];
    if ((check.kind != LLMC_CHECK_EQ && check.kind != LLMC_CHECK_LE) || check.reserved != 0)
      return corrupt("check {} is of the unknown kind {}", i, check.kind);
    LLMC_TRY(inContext(checkIndex(check.a, exprs.size(), "expression"), "check {}", i));
    LLMC_TRY(inContext(checkIndex(check.b, exprs.size(), "expression"), "check {}", i));
    LLMC_TRY(inContext(owner.checkString(check.message, "message"), "check {}", i));
  }
  return Status::ok();
}

Status EntryChecker::checkBuffers() const {
  for (size_t i = 0; i < buffers.size(); ++i)
    LLMC_TRY(inContext(checkBuffer(buffers[i]), "buffer {}", i));
  return Status::ok();
}

Status EntryChecker::checkBuffer(const llmc_buffer_record &buffer) const {
  LLMC_TRY(checkIndex(buffer.device, program.devices().size(), "device"));
  if (buffer.kind != LLMC_BUFFER_WEIGHT && buffer.kind != LLMC_BUFFER_KV)
    LLMC_TRY(checkIndex(buffer.size_expr, exprs.size(), "expression"));
  switch (buffer.kind) {
  case LLMC_BUFFER_ARENA:
    if (buffer.first > buffer.last || buffer.last >= instructions.size())
      return corrupt("it lives from instruction {} to {} of {}", buffer.first, buffer.last,
                     instructions.size());
    return Status::ok();
  case LLMC_BUFFER_INPUT:
  case LLMC_BUFFER_OUTPUT:
    if (buffer.device != 0)
      return corrupt("it is the caller's memory, but lies on device {}", buffer.device);
    return buffer.kind == LLMC_BUFFER_INPUT ? checkIndex(buffer.source, inputs.size(), "input")
                                            : checkIndex(buffer.source, outputs.size(), "output");
  case LLMC_BUFFER_WEIGHT:
    if (buffer.offset % LLMC_ALIGN_BUFFER != 0 || buffer.offset > owner.weightsSize ||
        buffer.size > owner.weightsSize - buffer.offset)
      return corrupt("its weights ({} bytes at {}) are not within the {} bytes of weights, or not "
                     "at a multiple of {}",
                     buffer.size, buffer.offset, owner.weightsSize, LLMC_ALIGN_BUFFER);
    return Status::ok();
  case LLMC_BUFFER_ALIAS: {
    LLMC_TRY(checkIndex(buffer.source, buffers.size(), "buffer"));
    const llmc_buffer_record &source = buffers[buffer.source];
    if (source.kind == LLMC_BUFFER_ALIAS || source.kind == LLMC_BUFFER_KV ||
        source.device != buffer.device)
      return corrupt("it cannot be an alias of buffer {}, which is of kind {} on device {}",
                     buffer.source, source.kind, source.device);
    return Status::ok();
  }
  case LLMC_BUFFER_KV: {
    uint64_t size = dtypeSize(static_cast<Dtype>(buffer.kv_dtype)) * LLMC_KV_BLOCK_TOKENS;
    if (entry.kind != LLMC_ENTRY_SESSION)
      return corrupt("it is a cache, but the entry is no session");
    if (buffer.kv_layout > LLMC_KV_LAYOUT_COLUMNS || size == 0)
      return corrupt("its cache layout {} or element type {} is unknown", buffer.kv_layout,
                     buffer.kv_dtype);
    if (__builtin_mul_overflow(size, buffer.kv_heads, &size) ||
        __builtin_mul_overflow(size, buffer.kv_head_size, &size) || size == 0 ||
        size != buffer.size)
      return corrupt("its cache blocks have {} bytes, which do not hold {} tokens of {} heads of "
                     "{} values",
                     buffer.size, LLMC_KV_BLOCK_TOKENS, buffer.kv_heads, buffer.kv_head_size);
    return Status::ok();
  }
  default:
    return corrupt("its kind {} is unknown", buffer.kind);
  }
}

Status EntryChecker::checkIoBuffers(std::span<const llmc_io_record> ios, uint32_t bufferKind,
                                    const char *kind) const {
  for (size_t i = 0; i < ios.size(); ++i) {
    uint32_t index = ios[i].buffer;
    if (index == LLMC_NONE && bufferKind == LLMC_BUFFER_INPUT)
      continue;
    LLMC_TRY(inContext(checkIndex(index, buffers.size(), "buffer"), "{} {}", kind, i));
    if (buffers[index].kind != bufferKind || buffers[index].source != i)
      return corrupt("{} {} names buffer {}, which does not name it", kind, i, index);
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == bufferKind && ios[buffers[i].source].buffer != i)
      return corrupt("buffer {} names {} {}, which does not name it", i, kind, buffers[i].source);
  return Status::ok();
}

Status EntryChecker::checkInstructions() {
  for (size_t i = 0; i < buffers.size(); ++i)
    written[i] = buffers[i].kind != LLMC_BUFFER_ARENA && buffers[i].kind != LLMC_BUFFER_OUTPUT;
  for (uint32_t i = 0; i < instructions.size(); ++i)
    LLMC_TRY(inContext(checkInstruction(i, instructions[i]), "instruction {}", i));
  return Status::ok();
}

Status EntryChecker::checkInstruction(uint32_t index, const llmc_instruction_record &instruction) {
  LLMC_TRY(checkIndex(instruction.device, program.devices().size(), "device"));
  LLMC_TRY(owner.checkString({instruction.label_offset, instruction.label_size}, "label",
                             /*mayBeEmpty=*/true));
  LLMC_TRY(checkIndexList(instruction.args, LLMC_MAX_OPERANDS, buffers.size(), "buffer"));
  LLMC_TRY(checkIndexList(instruction.scalars, LLMC_MAX_SCALARS, exprs.size(), "expression"));
  if (instruction.arithmetic != LLMC_NONE) {
    if (instruction.op != LLMC_OP_DISPATCH)
      return corrupt("only a dispatch counts its arithmetic");
    LLMC_TRY(checkIndex(instruction.arithmetic, exprs.size(), "expression"));
  }
  std::span<const uint32_t> args = program.pool(instruction.args);

  switch (instruction.op) {
  case LLMC_OP_DISPATCH: {
    LLMC_TRY(checkDispatch(instruction, args));
    size_t firstOutput = args.size() - program.kernels()[instruction.target].output_count;
    for (size_t i = 0; i < firstOutput; ++i)
      LLMC_TRY(checkUse(index, args[i], /*isRead=*/true, /*isWritten=*/false));
    for (size_t i = firstOutput; i < args.size(); ++i)
      LLMC_TRY(checkUse(index, args[i], /*isRead=*/false, /*isWritten=*/true));
    return Status::ok();
  }
  case LLMC_OP_COPY:
  case LLMC_OP_TRANSFER:
    LLMC_TRY(checkCopy(instruction, args));
    LLMC_TRY(checkUse(index, args[1], /*isRead=*/true, /*isWritten=*/false));
    return checkUse(index, args[0], /*isRead=*/false, /*isWritten=*/true);
  case LLMC_OP_WAIT:
    if (!args.empty() || instruction.scalars.count != 0)
      return corrupt("a wait has no operands");
    return Status::ok();
  default:
    return corrupt("its operation {} is unknown", instruction.op);
  }
}

Status EntryChecker::checkDispatch(const llmc_instruction_record &instruction,
                                   std::span<const uint32_t> args) const {
  LLMC_TRY(checkIndex(instruction.target, program.kernels().size(), "kernel"));
  const llmc_kernel_record &kernel = program.kernels()[instruction.target];
  if (args.size() != kernel.operand_count || instruction.scalars.count != kernel.scalar_count)
    return corrupt("it gives {} operands and {} scalars to kernel '{}', which takes {} and {}",
                   args.size(), instruction.scalars.count, program.string(kernel.name),
                   kernel.operand_count, kernel.scalar_count);
  for (uint32_t arg : args)
    if (buffers[arg].device != instruction.device)
      return corrupt("it runs on device {}, but buffer {} is on device {}", instruction.device, arg,
                     buffers[arg].device);
  return Status::ok();
}

Status EntryChecker::checkCopy(const llmc_instruction_record &instruction,
                               std::span<const uint32_t> args) const {
  LLMC_TRY(checkIndex(instruction.target, exprs.size(), "expression"));
  if (args.size() != 2 || instruction.scalars.count != 0)
    return corrupt("a copy has two operands and no scalars, but it gives {} and {}", args.size(),
                   instruction.scalars.count);
  const llmc_buffer_record &destination = buffers[args[0]], &source = buffers[args[1]];
  if (destination.kind == LLMC_BUFFER_KV || source.kind == LLMC_BUFFER_KV)
    return corrupt("a cache buffer cannot be copied as a whole");
  bool sameDevice = source.device == destination.device;
  if (destination.device != instruction.device || sameDevice != (instruction.op == LLMC_OP_COPY))
    return corrupt("it copies from device {} to device {}, but runs on device {} as a {}",
                   source.device, destination.device, instruction.device,
                   instruction.op == LLMC_OP_COPY ? "copy" : "transfer");
  if (rootOf(args[0]) == rootOf(args[1]))
    return corrupt("it copies buffer {} to itself", rootOf(args[0]));
  return Status::ok();
}

Status EntryChecker::checkUse(uint32_t index, uint32_t buffer, bool isRead, bool isWritten) {
  uint32_t root = rootOf(buffer);
  const llmc_buffer_record &memory = buffers[root];
  if (memory.kind == LLMC_BUFFER_ARENA && (index < memory.first || index > memory.last))
    return corrupt("it uses buffer {}, which lives from instruction {} to {}", root, memory.first,
                   memory.last);
  if (isRead && !written[root])
    return corrupt("it reads buffer {}, which nothing wrote before", root);
  if (isWritten && (memory.kind == LLMC_BUFFER_WEIGHT || memory.kind == LLMC_BUFFER_INPUT))
    return corrupt("it writes buffer {}, which is {}", root,
                   memory.kind == LLMC_BUFFER_WEIGHT ? "a weight" : "an input");
  if (isWritten)
    written[root] = true;
  return Status::ok();
}

} // namespace llmc
