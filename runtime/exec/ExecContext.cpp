// SPDX-License-Identifier: Apache-2.0
//
// What happens per call: symbols, checks, packing, tables, submits. Nothing is
// allocated in a call like one before it.
#include "runtime/exec/ArenaPlan.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/Expressions.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace llmc {

namespace {

/// Packings kept per entry: a prompt's, a token's, and a few more.
constexpr size_t kPackingsKept = 4;
/// A packing serves all pasts up to the next multiple.
constexpr int64_t kPastStep = 256;

/// Where empty tensors are.
alignas(LLMC_MEMORY_ALIGN) constexpr std::byte kNothing[LLMC_MEMORY_ALIGN] = {};

Place hostPlace(const void *data) {
  auto *view = const_cast<std::byte *>(static_cast<const std::byte *>(data ? data : kNothing));
  return {reinterpret_cast<uintptr_t>(view), view};
}

bool overlap(const void *a, uint64_t aSize, const void *b, uint64_t bSize) {
  auto aBegin = reinterpret_cast<uintptr_t>(a);
  auto bBegin = reinterpret_cast<uintptr_t>(b);
  return aBegin < bBegin + bSize && bBegin < aBegin + aSize;
}

} // namespace

/// Where an entry's slots lie, for one tuple of symbol values.
struct ExecContext::Packing {
  std::vector<int64_t> key;
  std::vector<uint64_t> sizes;       // per slot, as planned
  std::vector<uint64_t> offsets;     // per slot
  std::vector<uint64_t> deviceBytes; // per device
  uint64_t lastUse = 0;
};

struct ExecContext::EntryState {
  explicit EntryState(const EntryPlan &plan)
      : plan(plan), symbols(plan.program->symbols().size()), sizes(plan.buffers.size()),
        places(plan.buffers.size()), operands(plan.operands.size()), scalars(plan.scalars.size()) {}

  const EntryPlan &plan;
  std::vector<int64_t> symbols; // per symbol of the program
  std::vector<int64_t> values;  // per expression
  std::vector<uint64_t> inputBytes;
  std::vector<uint64_t> outputBytes;
  std::vector<uint64_t> sizes; // per buffer, as the expressions say
  std::vector<Place> places;   // per buffer; only roots' are filled
  std::vector<llmc_address> operands;
  std::vector<int64_t> scalars;
  std::vector<std::unique_ptr<Packing>> packings;
  uint64_t calls = 0;
  // For packing, so that a call like an earlier one allocates nothing.
  std::vector<int64_t> key;
  std::vector<int64_t> roundedSymbols;
  std::vector<int64_t> roundedValues;
  struct Pending {
    uint32_t device;
    uint32_t segment;
    uint64_t ticket;
    std::chrono::steady_clock::time_point begin;
  };
  std::vector<Pending> pending;
  // Profile, per instruction; empty until a call asks for it.
  std::vector<uint64_t> stepNs;
  std::vector<uint64_t> profileNs;
  std::vector<uint64_t> profileCalls;
  std::vector<double> profileBytes;
  std::vector<double> profileArithmetic;
  int64_t kvTokens = 0; // held at the end of the running call

  void count(size_t instruction, uint64_t nanoseconds);
};

/// Adds one execution of an instruction to the profile.
void ExecContext::EntryState::count(size_t instruction, uint64_t nanoseconds) {
  profileNs[instruction] += nanoseconds;
  ++profileCalls[instruction];
  if (uint32_t counted = plan.instructions[instruction].arithmetic; counted != LLMC_NONE)
    profileArithmetic[instruction] += static_cast<double>(values[counted]);
  std::span<const uint32_t> args = plan.program->pool(plan.instructions[instruction].args);
  for (size_t i = 0; i < args.size(); ++i) {
    if (std::find(args.begin(), args.begin() + i, args[i]) != args.begin() + i)
      continue; // written in place
    const llmc_buffer_record &buffer = plan.buffers[args[i]];
    if (buffer.kind == LLMC_BUFFER_WEIGHT)
      profileBytes[instruction] += static_cast<double>(buffer.size);
    else if (buffer.kind == LLMC_BUFFER_KV)
      profileBytes[instruction] +=
          static_cast<double>(buffer.size) * static_cast<double>(kvTokens) / LLMC_KV_BLOCK_TOKENS;
    else if (buffer.size_expr != LLMC_NONE)
      profileBytes[instruction] += static_cast<double>(values[buffer.size_expr]);
  }
}

/// What an instruction runs: its kernel's label, "copy" or "transfer".
static std::string_view kernelLabel(const EntryPlan &plan, size_t index) {
  const llmc_instruction_record &instruction = plan.instructions[index];
  if (instruction.op == LLMC_OP_DISPATCH)
    return plan.program->string(plan.program->kernels()[instruction.target].label);
  return instruction.op == LLMC_OP_COPY ? "copy" : "transfer";
}

ExecContext::ExecContext(std::shared_ptr<Executor> owner) : executor(std::move(owner)) {
  states.resize(executor->plans.size());
  arenas.resize(executor->deviceList.size());
  for (const std::shared_ptr<Device> &device : executor->deviceList)
    copiers.emplace_back(device);
}

ExecContext::~ExecContext() = default;

Status ExecContext::bindSymbols(EntryState &state, std::span<const ConstTensor> inputs,
                                const CallOptions &options) {
  const EntryPlan &plan = state.plan;
  const Program &program = *plan.program;
  std::string_view entry = program.string(plan.entry->name);
  if (inputs.size() != plan.inputs.size())
    return Status::error(Code::InvalidArgument, "entry '{}' takes {} inputs, {} were given", entry,
                         plan.inputs.size(), inputs.size());
  state.inputBytes.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const llmc_io_record &io = plan.inputs[i];
    std::string_view name = program.string(io.name);
    if (inputs[i].dtype != static_cast<Dtype>(io.dtype))
      return Status::error(Code::InvalidArgument, "input '{}' is {}, but the model takes {}", name,
                           dtypeName(inputs[i].dtype), dtypeName(static_cast<Dtype>(io.dtype)));
    if (inputs[i].shape.size() != io.dims.count)
      return Status::error(Code::InvalidArgument,
                           "input '{}' has shape {}, but the model takes {} dims", name,
                           shapeText(inputs[i].shape), io.dims.count);
    Result<uint64_t> bytes = tensorBytes(inputs[i].dtype, inputs[i].shape);
    if (!bytes.isOk())
      return bytes.status().inContext(fmt::format("input '{}'", name));
    state.inputBytes.push_back(*bytes);
  }

  bool isSession = plan.entry->kind == LLMC_ENTRY_SESSION;
  if (isSession != (options.kv != nullptr))
    return Status::error(Code::InvalidArgument, "entry '{}' {} a session's cache", entry,
                         isSession ? "needs" : "doesn't take");
  if (isSession) {
    if (options.sequence < 1)
      return Status::error(Code::InvalidArgument, "entry '{}' was given {} tokens", entry,
                           options.sequence);
    if (options.kv->pool().buffers() != executor->kvSpecs ||
        !std::equal(executor->deviceList.begin(), executor->deviceList.end(),
                    options.kv->pool().devices().begin(), options.kv->pool().devices().end()))
      return Status::error(Code::InvalidArgument, "the cache is of another program or device");
    if (options.sequence > options.kv->capacity() - options.kv->length())
      return Status::error(Code::ResourceExhausted,
                           "the context is full: it holds {} of {} tokens, {} more were given",
                           options.kv->length(), options.kv->capacity(), options.sequence);
  }
  for (const llmc_binding_record &binding : plan.bindings) {
    int64_t &value = state.symbols[binding.symbol];
    switch (binding.kind) {
    case LLMC_BIND_INPUT_DIM:
      value = inputs[binding.input].shape[binding.dim];
      break;
    case LLMC_BIND_SESSION_SEQ:
      value = options.sequence;
      break;
    default:
      value = options.kv->length();
      break;
    }
  }
  return Status::ok();
}

Status ExecContext::checkInputDims(EntryState &state, std::span<const ConstTensor> inputs) const {
  const EntryPlan &plan = state.plan;
  const Program &program = *plan.program;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const llmc_io_record &io = plan.inputs[i];
    std::span<const uint32_t> dims = program.pool(io.dims);
    for (uint32_t dim = 0; dim < dims.size(); ++dim) {
      if (dims[dim] >= state.values.size())
        continue; // its expression failed, or one before it did
      int64_t expected = state.values[dims[dim]];
      if (inputs[i].shape[dim] == expected)
        continue;
      std::string_view name = program.string(io.name);
      if (plan.exprs[dims[dim]].op == LLMC_EXPR_CONST)
        return Status::error(Code::InvalidArgument,
                             "input '{}' dim {} is {}, but the model takes {}", name, dim,
                             inputs[i].shape[dim], expected);
      std::string_view given = program.dimName(io, dim);
      return Status::error(
          Code::InvalidArgument, "input '{}' dim {} is {}, but '{}' is {}", name, dim,
          inputs[i].shape[dim],
          given.empty() ? exprText(program, plan.exprs, dims[dim]) : std::string(given), expected);
    }
  }
  return Status::ok();
}

Status ExecContext::evaluate(EntryState &state, std::span<const ConstTensor> inputs,
                             const CallOptions &options) {
  const EntryPlan &plan = state.plan;
  const Program &program = *plan.program;
  LLMC_TRY(bindSymbols(state, inputs, options));
  Status evaluated = evaluateExprs(program, plan.exprs, state.symbols, state.values);
  // A wrong input is the better explanation of an expression that fails.
  LLMC_TRY(checkInputDims(state, inputs));
  LLMC_TRY(evaluated);
  for (const llmc_check_record &check : plan.checks) {
    int64_t a = state.values[check.a];
    int64_t b = state.values[check.b];
    if (check.kind == LLMC_CHECK_EQ ? a != b : a > b)
      return Status::error(Code::InvalidArgument, "cannot run: {} (found {} and {})",
                           program.string(check.message), a, b);
  }
  state.outputBytes.clear();
  for (const llmc_io_record &io : plan.outputs) {
    auto bytes = static_cast<int64_t>(dtypeSize(static_cast<Dtype>(io.dtype)));
    for (uint32_t dim : program.pool(io.dims))
      if (state.values[dim] < 0 || __builtin_mul_overflow(bytes, state.values[dim], &bytes))
        return Status::error(
            Code::InvalidArgument, "cannot run: output '{}' would have the impossible dim {} = {}",
            program.string(io.name), exprText(program, plan.exprs, dim), state.values[dim]);
    state.outputBytes.push_back(static_cast<uint64_t>(bytes));
  }
  return Status::ok();
}

Result<std::vector<Shape>> ExecContext::outputShapes(size_t entry,
                                                     std::span<const ConstTensor> inputs,
                                                     const CallOptions &options) {
  LLMC_TRY_ASSIGN(EntryState * state, stateOf(entry));
  LLMC_TRY(evaluate(*state, inputs, options));
  std::vector<Shape> shapes;
  for (const llmc_io_record &io : state->plan.outputs) {
    Shape &shape = shapes.emplace_back();
    for (uint32_t dim : state->plan.program->pool(io.dims))
      shape.push_back(state->values[dim]);
  }
  return shapes;
}

Result<ExecContext::EntryState *> ExecContext::stateOf(size_t entry) {
  if (entry >= states.size())
    return Status::error(Code::InvalidArgument, "entry {} was asked for, but there are {}", entry,
                         states.size());
  if (!states[entry])
    states[entry] = std::make_unique<EntryState>(*executor->plans[entry]);
  return states[entry].get();
}

Status ExecContext::checkOutputs(const EntryState &state, std::span<const Tensor> outputs) const {
  const EntryPlan &plan = state.plan;
  const Program &program = *plan.program;
  if (outputs.size() != plan.outputs.size())
    return Status::error(Code::InvalidArgument, "entry '{}' gives {} outputs, {} were expected",
                         program.string(plan.entry->name), plan.outputs.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const llmc_io_record &io = plan.outputs[i];
    std::string_view name = program.string(io.name);
    if (outputs[i].dtype != static_cast<Dtype>(io.dtype))
      return Status::error(Code::InvalidArgument, "output '{}' is {}, but {} memory was given",
                           name, dtypeName(static_cast<Dtype>(io.dtype)),
                           dtypeName(outputs[i].dtype));
    std::span<const uint32_t> dims = program.pool(io.dims);
    bool fits =
        std::equal(dims.begin(), dims.end(), outputs[i].shape.begin(), outputs[i].shape.end(),
                   [&](uint32_t dim, int64_t given) { return state.values[dim] == given; });
    if (!fits) {
      Shape shape;
      for (uint32_t dim : dims)
        shape.push_back(state.values[dim]);
      return Status::error(Code::InvalidArgument,
                           "output '{}' has shape {}, but memory of shape {} was given", name,
                           shapeText(shape), shapeText(outputs[i].shape));
    }
    if (!outputs[i].data && state.outputBytes[i] != 0)
      return Status::error(Code::InvalidArgument, "output '{}' has no memory", name);
    if (reinterpret_cast<uintptr_t>(outputs[i].data) % dtypeSize(outputs[i].dtype) != 0)
      return Status::error(Code::InvalidArgument, "the memory of output '{}' is not aligned to {}",
                           name, dtypeSize(outputs[i].dtype));
  }
  return Status::ok();
}

/// Sizes from expressions must fit the memory they name: what the bundle says about a buffer is
/// checked against what the call gives it.
Status ExecContext::checkSizes(EntryState &state) const {
  const EntryPlan &plan = state.plan;
  auto corrupt = [&](size_t buffer, int64_t size, uint64_t memory) {
    return Status::error(Code::Corrupt,
                         "entry '{}': buffer {} would have {} bytes in memory of {} bytes",
                         plan.program->string(plan.entry->name), buffer, size, memory);
  };
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const llmc_buffer_record &buffer = plan.buffers[i];
    int64_t size = buffer.kind == LLMC_BUFFER_WEIGHT || buffer.kind == LLMC_BUFFER_KV
                       ? static_cast<int64_t>(buffer.size)
                       : state.values[buffer.size_expr];
    if (size < 0)
      return corrupt(i, size, 0);
    state.sizes[i] = static_cast<uint64_t>(size);
  }
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const llmc_buffer_record &root = plan.buffers[plan.roots[i]];
    uint64_t memory = UINT64_MAX; // arena: a slot is as large as its largest member
    if (root.kind == LLMC_BUFFER_INPUT)
      memory = state.inputBytes[root.source];
    else if (root.kind == LLMC_BUFFER_OUTPUT)
      memory = state.outputBytes[root.source];
    else if (root.kind == LLMC_BUFFER_WEIGHT)
      memory = root.size;
    if (state.sizes[i] > memory)
      return corrupt(i, static_cast<int64_t>(state.sizes[i]), memory);
  }
  for (const llmc_instruction_record &instruction : plan.instructions) {
    if (instruction.op != LLMC_OP_COPY && instruction.op != LLMC_OP_TRANSFER)
      continue;
    std::span<const uint32_t> args = plan.program->pool(instruction.args);
    int64_t bytes = state.values[instruction.target];
    for (uint32_t buffer : args)
      if (bytes < 0 || static_cast<uint64_t>(bytes) > state.sizes[buffer])
        return corrupt(buffer, bytes, state.sizes[buffer]);
  }
  return Status::ok();
}

uint64_t ExecContext::slotSize(const EntryPlan &plan, const ArenaSlot &slot,
                               std::span<const int64_t> values) {
  int64_t size = 0;
  for (uint32_t member : slot.members)
    size = std::max(size, values[plan.buffers[member].size_expr]);
  return static_cast<uint64_t>(size);
}

Result<const ExecContext::Packing *> ExecContext::pack(EntryState &state) {
  const EntryPlan &plan = state.plan;
  // First with the past rounded up, so that the packing lasts for many tokens.
  state.key.clear();
  state.roundedSymbols = state.symbols;
  for (size_t i = 0; i < plan.bindings.size(); ++i) {
    int64_t &value = state.roundedSymbols[plan.bindings[i].symbol];
    if (plan.grows[i] && value <= INT64_MAX - kPastStep)
      value = (value + kPastStep - 1) / kPastStep * kPastStep;
    state.key.push_back(value);
  }
  LLMC_TRY_ASSIGN(const Packing *rounded, findPacking(state, /*rounded=*/true));
  if (rounded)
    return rounded;
  // The expressions don't grow with the past, or can't be evaluated for the larger one.
  state.key.clear();
  for (const llmc_binding_record &binding : plan.bindings)
    state.key.push_back(state.symbols[binding.symbol]);
  state.key.push_back(-1); // no rounded key is as long
  return findPacking(state, /*rounded=*/false);
}

Result<const ExecContext::Packing *> ExecContext::findPacking(EntryState &state, bool rounded) {
  const EntryPlan &plan = state.plan;
  auto serves = [&](const Packing &packing) {
    for (size_t i = 0; i < plan.slots.size(); ++i)
      if (slotSize(plan, plan.slots[i], state.values) > packing.sizes[i])
        return false;
    return true;
  };
  for (const std::unique_ptr<Packing> &packing : state.packings)
    if (packing->key == state.key) {
      packing->lastUse = ++state.calls;
      return serves(*packing) ? packing.get() : nullptr;
    }

  auto packing = std::make_unique<Packing>();
  packing->key = state.key;
  packing->lastUse = ++state.calls;
  if (rounded &&
      !evaluateExprs(*plan.program, plan.exprs, state.roundedSymbols, state.roundedValues).isOk())
    return nullptr;
  const std::vector<int64_t> &values = rounded ? state.roundedValues : state.values;
  for (const ArenaSlot &slot : plan.slots)
    packing->sizes.push_back(slotSize(plan, slot, values));
  packing->offsets.resize(plan.slots.size());
  for (uint32_t device = 0; device < executor->deviceList.size(); ++device) {
    std::vector<ArenaBuffer> buffers;
    std::vector<size_t> indices;
    for (size_t i = 0; i < plan.slots.size(); ++i)
      if (plan.slots[i].device == device) {
        buffers.push_back({packing->sizes[i], plan.slots[i].first, plan.slots[i].last});
        indices.push_back(i);
      }
    LLMC_TRY_ASSIGN(ArenaPlan arena, packArena(buffers));
    for (size_t i = 0; i < indices.size(); ++i)
      packing->offsets[indices[i]] = arena.offsets[i];
    packing->deviceBytes.push_back(arena.size);
  }
  ++packings;
  if (!serves(*packing))
    return nullptr;
  if (state.packings.size() >= kPackingsKept)
    state.packings.erase(
        std::min_element(state.packings.begin(), state.packings.end(),
                         [](const auto &a, const auto &b) { return a->lastUse < b->lastUse; }));
  state.packings.push_back(std::move(packing));
  return state.packings.back().get();
}

Status ExecContext::growArenas(const Packing &packing) {
  bool enough = true;
  uint64_t total = 0;
  for (size_t i = 0; i < arenas.size(); ++i) {
    enough &= packing.deviceBytes[i] <= arenas[i].size && arenas[i].size != 0;
    if (__builtin_add_overflow(total, std::max(packing.deviceBytes[i], arenas[i].size), &total))
      total = UINT64_MAX;
  }
  if (enough)
    return Status::ok();
  if (total > executor->settings.arenaLimit)
    return Status::error(Code::Unavailable,
                         "this call needs {} bytes for intermediate results, but the limit is {}",
                         total, executor->settings.arenaLimit);
  for (size_t i = 0; i < arenas.size(); ++i) {
    if (packing.deviceBytes[i] <= arenas[i].size && arenas[i].size != 0)
      continue;
    arenas[i] = DeviceMemory(); // first, so that the two are never held together
    Result<DeviceMemory> memory =
        executor->deviceList[i]->alloc(packing.deviceBytes[i], MemoryKind::Device);
    if (!memory.isOk())
      return memory.status().inContext("intermediate results");
    arenas[i] = std::move(*memory);
  }
  return Status::ok();
}

/// Inputs that kernels can't read in place are copied first: those that share memory with an
/// output, and those whose elements are not aligned.
Status ExecContext::stageInputs(const EntryState &state, std::span<const ConstTensor> inputs,
                                std::span<const Tensor> outputs) {
  inputData.resize(inputs.size());
  stagedInputs.resize(std::max(stagedInputs.size(), inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    uint64_t bytes = state.inputBytes[i];
    inputData[i] = inputs[i].data;
    if (bytes == 0)
      continue;
    if (!inputs[i].data)
      return Status::error(Code::InvalidArgument, "input '{}' has no memory",
                           state.plan.program->string(state.plan.inputs[i].name));
    bool stage = reinterpret_cast<uintptr_t>(inputs[i].data) % dtypeSize(inputs[i].dtype) != 0;
    for (size_t j = 0; j < outputs.size(); ++j)
      stage |= overlap(inputs[i].data, bytes, outputs[j].data, state.outputBytes[j]);
    if (!stage)
      continue;
    if (stagedInputs[i].size() < bytes)
      stagedInputs[i].resize(bytes);
    std::memcpy(stagedInputs[i].data(), inputs[i].data, bytes);
    inputData[i] = stagedInputs[i].data();
  }
  return Status::ok();
}

void ExecContext::bindPlaces(EntryState &state, const Packing &packing,
                             std::span<const Tensor> outputs, const CallOptions &options) {
  const EntryPlan &plan = state.plan;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const llmc_buffer_record &buffer = plan.buffers[i];
    if (plan.roots[i] != i)
      continue;
    if (uint32_t slot = plan.slotOf[i]; slot != LLMC_NONE) {
      const DeviceMemory &arena = arenas[buffer.device];
      auto *view = static_cast<std::byte *>(arena.view);
      uint64_t offset = packing.offsets[slot];
      state.places[i] = {arena.address + offset, view ? view + offset : nullptr};
      continue;
    }
    switch (buffer.kind) {
    case LLMC_BUFFER_INPUT:
      state.places[i] = hostPlace(inputData[buffer.source]);
      break;
    case LLMC_BUFFER_OUTPUT:
      state.places[i] = hostPlace(outputs[buffer.source].data);
      break;
    case LLMC_BUFFER_WEIGHT:
      state.places[i] = executor->weights[buffer.device].at(buffer.offset);
      break;
    default:
      state.places[i] = {options.kv->table(plan.kvIndex[i]), nullptr};
      break;
    }
  }
  for (size_t i = 0; i < plan.operands.size(); ++i)
    state.operands[i] = state.places[plan.operands[i]].address;
  for (size_t i = 0; i < plan.scalars.size(); ++i)
    state.scalars[i] = state.values[plan.scalars[i]];
}

Status ExecContext::run(size_t entry, std::span<const ConstTensor> inputs,
                        std::span<const Tensor> outputs, const CallOptions &options) {
  LLMC_TRY_ASSIGN(EntryState * state, stateOf(entry));
  const EntryPlan &plan = state->plan;
  LLMC_TRY(evaluate(*state, inputs, options));
  LLMC_TRY(checkOutputs(*state, outputs));
  LLMC_TRY(checkSizes(*state));
  if (options.kv)
    LLMC_TRY(options.kv->reserve(options.kv->length() + options.sequence));
  LLMC_TRY_ASSIGN(const Packing *packing, pack(*state));
  if (!packing)
    return Status::error(Code::Internal, "entry '{}' cannot be packed",
                         plan.program->string(plan.entry->name));
  LLMC_TRY(growArenas(*packing));
  LLMC_TRY(stageInputs(*state, inputs, outputs));
  bindPlaces(*state, *packing, outputs, options);

  for (const ArenaSlot &slot : plan.slots)
    if (slot.io != LLMC_NONE && !slot.isOutput)
      LLMC_TRY(copiers[slot.device].upload(state->places[slot.buffer], inputData[slot.io],
                                           state->inputBytes[slot.io]));
  Status status = execute(*state, options);
  // Whatever happened, nothing of this call may still be running when it returns.
  Status drained = drainAll(*state, options.profile);
  LLMC_TRY(status);
  LLMC_TRY(drained);
  for (const ArenaSlot &slot : plan.slots)
    if (slot.io != LLMC_NONE && slot.isOutput)
      LLMC_TRY(copiers[slot.device].download(outputs[slot.io].data, state->places[slot.buffer],
                                             state->outputBytes[slot.io]));
  if (options.kv)
    options.kv->setLength(options.kv->length() + options.sequence);
  // Now that the first result is there, the copying may take its share of the machine.
  if (executor->mover)
    executor->mover->start();
  return Status::ok();
}

Status ExecContext::execute(EntryState &state, const CallOptions &options) {
  const EntryPlan &plan = state.plan;
  if (options.profile && state.stepNs.empty()) {
    state.stepNs.resize(plan.instructions.size());
    state.profileNs.resize(plan.instructions.size());
    state.profileCalls.resize(plan.instructions.size());
    state.profileBytes.resize(plan.instructions.size());
    state.profileArithmetic.resize(plan.instructions.size());
  }
  state.kvTokens = options.kv ? options.kv->length() + options.sequence : 0;
  for (uint32_t i = 0; i < plan.segments.size(); ++i) {
    const Segment &segment = plan.segments[i];
    if (options.cancel && options.cancel->isSet())
      return Status::error(Code::Cancelled, "the call was cancelled");
    switch (segment.kind) {
    case Segment::Kind::Program:
      LLMC_TRY(submit(state, i, options));
      break;
    case Segment::Kind::Wait:
      LLMC_TRY(drain(state, segment.device, options.profile));
      break;
    case Segment::Kind::Transfer: {
      const llmc_instruction_record &instruction = plan.instructions[segment.first];
      std::span<const uint32_t> args = plan.program->pool(instruction.args);
      uint32_t to = plan.roots[args[0]];
      uint32_t from = plan.roots[args[1]];
      uint32_t fromDevice = plan.buffers[from].device;
      LLMC_TRY(drain(state, segment.device, options.profile));
      LLMC_TRY(drain(state, fromDevice, options.profile));
      auto begin = std::chrono::steady_clock::now();
      LLMC_TRY(transfer(copiers[segment.device], state.places[to], copiers[fromDevice],
                        state.places[from],
                        static_cast<uint64_t>(state.values[instruction.target])));
      if (options.profile)
        count(state, segment.first, segment.device, begin,
              std::chrono::steady_clock::now() - begin);
      break;
    }
    }
  }
  return Status::ok();
}

Status ExecContext::submit(EntryState &state, uint32_t index, const CallOptions &options) {
  const Segment &segment = state.plan.segments[index];
  llmc_submit_info info{};
  info.struct_size = sizeof(info);
  info.operands = state.operands.data() + segment.operandBegin;
  info.operand_count = segment.operandCount;
  info.scalars = state.scalars.data() + segment.scalarBegin;
  info.scalar_count = segment.scalarCount;
  info.step_ns = options.profile ? state.stepNs.data() + segment.first : nullptr;
  info.stop = options.cancel ? options.cancel->address() : nullptr;
  auto begin =
      options.profile ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  LLMC_TRY_ASSIGN(uint64_t ticket,
                  executor->deviceList[segment.device]->submit(segment.program.handle(), info));
  state.pending.push_back({segment.device, index, ticket, begin});
  return Status::ok();
}

Status ExecContext::drain(EntryState &state, uint32_t device, bool profile) {
  const EntryPlan &plan = state.plan;
  Status first = Status::ok();
  for (const EntryState::Pending &pending : state.pending) {
    if (pending.device != device)
      continue;
    const Segment &segment = plan.segments[pending.segment];
    StepFailure failure;
    Status status = executor->deviceList[device]->wait(pending.ticket, &failure);
    if (profile) {
      // Steps of a segment follow each other without a pause.
      auto begin = pending.begin;
      for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
        std::chrono::nanoseconds duration(state.stepNs[i]);
        count(state, i, device, begin, duration);
        begin += duration;
      }
    }
    if (status.isOk() || !first.isOk())
      continue;
    if (status.code() == Code::Cancelled)
      first = Status::error(Code::Cancelled, "the call was cancelled");
    else if (failure.step < segment.count)
      first = status.inContext(fmt::format(
          "node '{}'", plan.program->label(plan.instructions[segment.first + failure.step])));
    else
      first = status;
  }
  std::erase_if(state.pending, [&](const auto &pending) { return pending.device == device; });
  return first;
}

void ExecContext::count(EntryState &state, size_t instruction, uint32_t device,
                        std::chrono::steady_clock::time_point begin,
                        std::chrono::nanoseconds duration) {
  state.count(instruction, static_cast<uint64_t>(duration.count()));
  if (tracing && events.size() < kMaxTraceEvents)
    events.push_back({state.plan.program->label(state.plan.instructions[instruction]),
                      kernelLabel(state.plan, instruction), device, begin, duration});
}

Status ExecContext::drainAll(EntryState &state, bool profile) {
  Status first = Status::ok();
  for (uint32_t device = 0; device < executor->deviceList.size(); ++device)
    if (Status status = drain(state, device, profile); first.isOk())
      first = status;
  return first;
}

uint64_t ExecContext::arenaBytes() const {
  uint64_t bytes = 0;
  for (const DeviceMemory &arena : arenas)
    bytes += arena.size;
  return bytes;
}

std::vector<ProfileRow> ExecContext::profile() const {
  std::vector<ProfileRow> rows;
  for (const std::unique_ptr<EntryState> &state : states) {
    if (!state)
      continue;
    const EntryPlan &plan = state->plan;
    for (size_t i = 0; i < state->profileCalls.size(); ++i) {
      if (state->profileCalls[i] == 0)
        continue;
      rows.push_back({std::string(plan.program->label(plan.instructions[i])),
                      std::string(kernelLabel(plan, i)), state->profileCalls[i],
                      static_cast<double>(state->profileNs[i]) / 1000.0, state->profileBytes[i],
                      state->profileArithmetic[i]});
    }
  }
  return rows;
}

void ExecContext::clearProfile() {
  for (const std::unique_ptr<EntryState> &state : states)
    if (state) {
      std::fill(state->profileNs.begin(), state->profileNs.end(), 0);
      std::fill(state->profileCalls.begin(), state->profileCalls.end(), 0);
      std::fill(state->profileBytes.begin(), state->profileBytes.end(), 0);
      std::fill(state->profileArithmetic.begin(), state->profileArithmetic.end(), 0);
    }
}

} // namespace llmc
