// SPDX-License-Identifier: Apache-2.0
//
// Buffers are written with a letter for their kind and their index, e.g. w12.
// Text from a model is shortened and its control characters are escaped, and
// expressions are cut at a number of terms, so that a hostile program can
// neither drive a terminal nor blow up what is printed.
#include "runtime/bundle/ProgramPrinter.h"

#include "runtime/core/Dtype.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

namespace llmc {
namespace {

constexpr size_t kMaxText = 200;
constexpr int kMaxTerms = 48;
constexpr int kMaxDepth = 16;

std::string readable(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (result.size() >= kMaxText) {
      // Not within a character: its continuation bytes go too.
      while (!result.empty() && (static_cast<unsigned char>(result.back()) & 0xC0) == 0x80)
        result.pop_back();
      if (!result.empty() && static_cast<unsigned char>(result.back()) >= 0xC0)
        result.pop_back();
      return result + "…";
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result;
}

constexpr const char *kRoleNames[] = {
    "",     "ids",     "embeddings", "positions",      "mask",
    "past", "present", "logits",     "cache-position", "use-cache"};

/// The operator of a binary expression; one without precedence is written as a call.
struct Operator {
  const char *text;
  int precedence;
};
constexpr Operator operatorOf(uint32_t op) {
  switch (op) {
  case LLMC_EXPR_ADD:
    return {"+", 1};
  case LLMC_EXPR_MUL:
    return {"*", 2};
  case LLMC_EXPR_FLOORDIV:
    return {"floordiv", 0};
  case LLMC_EXPR_CEILDIV:
    return {"ceildiv", 0};
  case LLMC_EXPR_MOD:
    return {"mod", 0};
  case LLMC_EXPR_MIN:
    return {"min", 0};
  case LLMC_EXPR_MAX:
    return {"max", 0};
  default:
    return {"broadcast", 0};
  }
}

constexpr char kindLetter(uint32_t kind) {
  switch (kind) {
  case LLMC_BUFFER_INPUT:
    return 'i';
  case LLMC_BUFFER_OUTPUT:
    return 'o';
  case LLMC_BUFFER_WEIGHT:
    return 'w';
  case LLMC_BUFFER_ALIAS:
    return 'a';
  case LLMC_BUFFER_KV:
    return 'k';
  default:
    return 'b';
  }
}

class Printer {
public:
  Printer(const Program &program, const llmc_entry_record &entry)
      : program(program), entry(entry), exprs(program.exprs(entry)),
        buffers(program.buffers(entry)) {}

  std::string expr(uint32_t index) const {
    int terms = kMaxTerms;
    return expr(index, terms, kMaxDepth, /*outer=*/0);
  }

  std::string buffer(uint32_t index) const {
    return fmt::format("{}{}", kindLetter(buffers[index].kind), index);
  }

  std::string list(std::span<const uint32_t> indices) const {
    std::string text;
    for (uint32_t index : indices)
      text += (text.empty() ? "" : ", ") + buffer(index);
    return "[" + text + "]";
  }

  std::string device(uint32_t index) const {
    return readable(program.string(program.devices()[index].name));
  }

  void printIos(std::string &out, const char *title, std::span<const llmc_io_record> ios) const;
  void printChecks(std::string &out) const;
  void printBuffers(std::string &out) const;
  void printInstructions(std::string &out) const;

private:
  std::string expr(uint32_t index, int &terms, int depth, int outer) const {
    const llmc_expr_record &record = exprs[index];
    if (record.op == LLMC_EXPR_CONST)
      return fmt::format("{}", record.value);
    if (record.op == LLMC_EXPR_SYMBOL)
      return readable(program.string(program.symbols()[static_cast<size_t>(record.value)].name));
    if (depth == 0 || --terms < 0)
      return fmt::format("e{}", index);
    Operator op = operatorOf(record.op);
    std::string a = expr(record.a, terms, depth - 1, op.precedence);
    std::string b = expr(record.b, terms, depth - 1, op.precedence);
    if (op.precedence == 0)
      return fmt::format("{}({}, {})", op.text, a, b);
    std::string text = fmt::format("{} {} {}", a, op.text, b);
    return op.precedence < outer ? "(" + text + ")" : text;
  }

  const Program &program;
  const llmc_entry_record &entry;
  std::span<const llmc_expr_record> exprs;
  std::span<const llmc_buffer_record> buffers;
};

void Printer::printIos(std::string &out, const char *title,
                       std::span<const llmc_io_record> ios) const {
  fmt::format_to(std::back_inserter(out), "  {}\n", title);
  for (size_t i = 0; i < ios.size(); ++i) {
    const llmc_io_record &io = ios[i];
    std::span<const uint32_t> dims = program.pool(io.dims);
    std::string shape;
    for (uint32_t dim = 0; dim < dims.size(); ++dim) {
      std::string size = expr(dims[dim]), name = readable(program.dimName(io, dim));
      shape += dim ? ", " : "";
      shape += name.empty() || name == size ? size : name + " = " + size;
    }
    fmt::format_to(std::back_inserter(out), "  {:>4}  {} : {} [{}]", i,
                   readable(program.string(io.name)), dtypeName(static_cast<Dtype>(io.dtype)),
                   shape);
    if (io.role != LLMC_ROLE_OTHER)
      fmt::format_to(std::back_inserter(out), " {}", kRoleNames[io.role]);
    if (io.pair != LLMC_NONE)
      fmt::format_to(std::back_inserter(out), " {} {}",
                     io.role == LLMC_ROLE_PAST ? "from output" : "to input", io.pair);
    if (io.cache_axis != LLMC_NONE)
      fmt::format_to(std::back_inserter(out), " along axis {}", io.cache_axis);
    out += io.buffer == LLMC_NONE ? " (unused)\n" : " " + buffer(io.buffer) + "\n";
  }
}

void Printer::printChecks(std::string &out) const {
  std::span<const llmc_check_record> checks = program.checks(entry);
  if (checks.empty())
    return;
  out += "  checks\n";
  for (const llmc_check_record &check : checks)
    fmt::format_to(std::back_inserter(out), "        {} {} {}, else: {}\n", expr(check.a),
                   check.kind == LLMC_CHECK_EQ ? "==" : "<=", expr(check.b),
                   readable(program.string(check.message)));
}

void Printer::printBuffers(std::string &out) const {
  out += "  buffers\n";
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    const llmc_buffer_record &record = buffers[i];
    std::string what;
    switch (record.kind) {
    case LLMC_BUFFER_ARENA:
      what = fmt::format("{} bytes, instructions {} to {}", expr(record.size_expr), record.first,
                         record.last);
      break;
    case LLMC_BUFFER_INPUT:
      what = fmt::format("{} bytes, input {}", expr(record.size_expr), record.source);
      break;
    case LLMC_BUFFER_OUTPUT:
      what = fmt::format("{} bytes, output {}", expr(record.size_expr), record.source);
      break;
    case LLMC_BUFFER_WEIGHT:
      what = fmt::format("{} bytes, weights at {}", record.size, record.offset);
      break;
    case LLMC_BUFFER_ALIAS:
      what = fmt::format("{} bytes, memory of {}", expr(record.size_expr), buffer(record.source));
      break;
    default:
      what = fmt::format("cache of {} {} x {}, blocks of {} bytes", record.kv_heads,
                         dtypeName(static_cast<Dtype>(record.kv_dtype)), record.kv_head_size,
                         record.size);
      break;
    }
    fmt::format_to(std::back_inserter(out), "  {:>6}  {}: {}\n", buffer(i), device(record.device),
                   what);
  }
}

void Printer::printInstructions(std::string &out) const {
  out += "  instructions\n";
  std::span<const llmc_instruction_record> instructions = program.instructions(entry);
  for (size_t i = 0; i < instructions.size(); ++i) {
    const llmc_instruction_record &instruction = instructions[i];
    std::span<const uint32_t> args = program.pool(instruction.args);
    fmt::format_to(std::back_inserter(out), "  {:>6}  ", i);
    switch (instruction.op) {
    case LLMC_OP_DISPATCH: {
      const llmc_kernel_record &kernel = program.kernels()[instruction.target];
      size_t outputs = kernel.output_count;
      fmt::format_to(std::back_inserter(out), "dispatch {} {} {} -> {}", device(instruction.device),
                     readable(program.string(kernel.name)), list(args.first(args.size() - outputs)),
                     list(args.last(outputs)));
      std::string scalars;
      for (uint32_t scalar : program.pool(instruction.scalars))
        scalars += (scalars.empty() ? "" : ", ") + expr(scalar);
      if (!scalars.empty())
        fmt::format_to(std::back_inserter(out), " ({})", scalars);
      break;
    }
    case LLMC_OP_COPY:
    case LLMC_OP_TRANSFER:
      fmt::format_to(std::back_inserter(out), "{} {} {} bytes {} -> {}",
                     instruction.op == LLMC_OP_COPY ? "copy" : "transfer",
                     device(instruction.device), expr(instruction.target), buffer(args[1]),
                     buffer(args[0]));
      break;
    default:
      fmt::format_to(std::back_inserter(out), "wait {}", device(instruction.device));
      break;
    }
    std::string label = readable(program.label(instruction));
    out += label.empty() ? "\n" : " @ " + label + "\n";
  }
}

std::string entryTitle(const Program &program, const llmc_entry_record &entry) {
  return fmt::format("entry {} ({})\n", readable(program.string(entry.name)),
                     entry.kind == LLMC_ENTRY_SESSION ? "session" : "run");
}

} // namespace

std::string printProgram(const Program &program) {
  std::string out;
  for (size_t i = 0; i < program.devices().size(); ++i) {
    const llmc_device_record &device = program.devices()[i];
    fmt::format_to(std::back_inserter(out), "device {} {} (driver {})\n", i,
                   readable(program.string(device.name)), readable(program.string(device.driver)));
  }
  for (const llmc_entry_record &entry : program.entries()) {
    Printer printer(program, entry);
    out += "\n" + entryTitle(program, entry);
    printer.printIos(out, "inputs", program.inputs(entry));
    printer.printIos(out, "outputs", program.outputs(entry));
    printer.printChecks(out);
    printer.printBuffers(out);
    printer.printInstructions(out);
  }
  return out;
}

std::string printSymbols(const Program &program) {
  std::string out;
  for (const llmc_entry_record &entry : program.entries()) {
    out += entryTitle(program, entry);
    for (const llmc_binding_record &binding : program.bindings(entry)) {
      std::string from = "tokens of the chunk";
      if (binding.kind == LLMC_BIND_SESSION_PAST)
        from = "tokens in the cache";
      if (binding.kind == LLMC_BIND_INPUT_DIM)
        from = fmt::format("dim {} of input {}", binding.dim,
                           readable(program.string(program.inputs(entry)[binding.input].name)));
      fmt::format_to(std::back_inserter(out), "  {} = {}\n",
                     readable(program.string(program.symbols()[binding.symbol].name)), from);
    }
  }
  return out;
}

std::string printKernels(const Program &program) {
  std::vector<size_t> uses(program.kernels().size());
  for (const llmc_entry_record &entry : program.entries())
    for (const llmc_instruction_record &instruction : program.instructions(entry))
      if (instruction.op == LLMC_OP_DISPATCH)
        ++uses[instruction.target];
  std::string out;
  for (size_t kernel = 0; kernel < program.kernels().size(); ++kernel) {
    const llmc_kernel_record &record = program.kernels()[kernel];
    fmt::format_to(
        std::back_inserter(out), "{}: {} -> {}, {} scalars, {} bytes of scratch, {} dispatches",
        readable(program.string(record.name)), record.operand_count - record.output_count,
        record.output_count, record.scalar_count, record.scratch_bytes, uses[kernel]);
    std::string label = readable(program.string(record.label));
    out += label.empty() ? "\n" : " @ " + label + "\n";
  }
  return out;
}

std::string printExpr(const Program &program, const llmc_entry_record &entry, uint32_t index) {
  return Printer(program, entry).expr(index);
}

} // namespace llmc
