// SPDX-License-Identifier: Apache-2.0
//
// Relies on Program::load for every index; adds only what follows from the
// devices that were opened.
#include "runtime/exec/EntryPlan.h"

#include <string>

namespace llmc {

Result<std::unique_ptr<EntryPlan>>
EntryPlan::build(const Program &program, const llmc_entry_record &entry,
                 std::span<const std::shared_ptr<Device>> devices,
                 std::span<const llmc_handle> codes) {
  auto plan = std::make_unique<EntryPlan>();
  plan->program = &program;
  plan->entry = &entry;
  plan->inputs = program.inputs(entry);
  plan->outputs = program.outputs(entry);
  plan->exprs = program.exprs(entry);
  plan->bindings = program.bindings(entry);
  plan->checks = program.checks(entry);
  plan->buffers = program.buffers(entry);
  plan->instructions = program.instructions(entry);
  plan->findMemory(devices);
  LLMC_TRY(plan->cutSegments(devices, codes));

  for (const llmc_binding_record &binding : plan->bindings) {
    bool past = binding.kind == LLMC_BIND_SESSION_PAST;
    if (binding.kind == LLMC_BIND_INPUT_DIM) {
      const llmc_io_record &input = plan->inputs[binding.input];
      past = input.role == LLMC_ROLE_PAST && input.cache_axis == binding.dim;
    }
    plan->grows.push_back(past);
  }
  return plan;
}

void EntryPlan::findMemory(std::span<const std::shared_ptr<Device>> devices) {
  auto end = static_cast<uint32_t>(instructions.size());
  slotOf.assign(buffers.size(), LLMC_NONE);
  kvIndex.assign(buffers.size(), LLMC_NONE);
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    const llmc_buffer_record &buffer = buffers[i];
    roots.push_back(buffer.kind == LLMC_BUFFER_ALIAS ? buffer.source : i);
    bool isIo = buffer.kind == LLMC_BUFFER_INPUT || buffer.kind == LLMC_BUFFER_OUTPUT;
    if (buffer.kind == LLMC_BUFFER_KV) {
      kvIndex[i] = static_cast<uint32_t>(kvBuffers.size());
      kvBuffers.push_back({buffer.device, buffer.size});
    } else if (buffer.kind == LLMC_BUFFER_ARENA) {
      slotOf[i] = static_cast<uint32_t>(slots.size());
      slots.push_back({i, buffer.device, buffer.first, buffer.last, LLMC_NONE, false, {}});
    } else if (isIo && !devices[buffer.device]->usesHostMemory()) {
      slotOf[i] = static_cast<uint32_t>(slots.size());
      slots.push_back(
          {i, buffer.device, 0, end, buffer.source, buffer.kind == LLMC_BUFFER_OUTPUT, {}});
    }
  }
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    slotOf[i] = slotOf[roots[i]];
    if (slotOf[i] != LLMC_NONE)
      slots[slotOf[i]].members.push_back(i);
  }
}

Status EntryPlan::cutSegments(std::span<const std::shared_ptr<Device>> devices,
                              std::span<const llmc_handle> codes) {
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    const llmc_instruction_record &instruction = instructions[i];
    Segment::Kind kind = Segment::Kind::Program;
    if (instruction.op == LLMC_OP_TRANSFER)
      kind = Segment::Kind::Transfer;
    else if (instruction.op == LLMC_OP_WAIT)
      kind = Segment::Kind::Wait;
    if (kind == Segment::Kind::Program && !segments.empty() && segments.back().kind == kind &&
        segments.back().device == instruction.device) {
      ++segments.back().count;
      continue;
    }
    Segment segment;
    segment.kind = kind;
    segment.device = instruction.device;
    segment.first = i;
    segment.count = 1;
    segments.push_back(std::move(segment));
  }
  for (Segment &segment : segments)
    if (segment.kind == Segment::Kind::Program)
      LLMC_TRY(makeProgram(segment, *devices[segment.device], codes[segment.device]));
  return Status::ok();
}

Status EntryPlan::makeProgram(Segment &segment, Device &device, llmc_handle code) {
  segment.operandBegin = static_cast<uint32_t>(operands.size());
  segment.scalarBegin = static_cast<uint32_t>(scalars.size());
  std::vector<llmc_step> steps;
  std::vector<std::string> names(segment.count); // kernels' names with a terminator
  for (uint32_t i = 0; i < segment.count; ++i) {
    const llmc_instruction_record &instruction = instructions[segment.first + i];
    for (uint32_t buffer : program->pool(instruction.args))
      operands.push_back(roots[buffer]);
    if (instruction.op == LLMC_OP_COPY) {
      scalars.push_back(instruction.target);
      steps.push_back({LLMC_STEP_COPY, 2, 1, 0, 0, nullptr});
      continue;
    }
    for (uint32_t expr : program->pool(instruction.scalars))
      scalars.push_back(expr);
    const llmc_kernel_record &kernel = program->kernels()[instruction.target];
    names[i] = program->string(kernel.name);
    steps.push_back({LLMC_STEP_DISPATCH, kernel.operand_count, kernel.scalar_count, 0,
                     kernel.scratch_bytes, names[i].c_str()});
  }
  segment.operandCount = static_cast<uint32_t>(operands.size()) - segment.operandBegin;
  segment.scalarCount = static_cast<uint32_t>(scalars.size()) - segment.scalarBegin;
  LLMC_TRY_ASSIGN(segment.program, device.createProgram(code, steps));
  return Status::ok();
}

} // namespace llmc
