// SPDX-License-Identifier: Apache-2.0
//
// `inspect`: what a bundle holds, as tables for people or as JSON. Nothing of it
// is run and no device is opened, so bundles for other machines can be looked at.
#include "tools/cli/Commands.h"

#include "runtime/bundle/BundleReader.h"
#include "runtime/bundle/ProgramPrinter.h"
#include "runtime/core/Dtype.h"
#include "runtime/llm/IoRole.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

namespace llmc::cli {

namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string bundle;
  bool json = false;
  bool program = false;
  bool kernels = false;
  bool symbols = false;
  bool weights = false;
  bool verify = false;
};

/// Rows of text in columns as wide as they need to be.
class Table {
public:
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  void print() const {
    std::vector<size_t> widths;
    for (const auto &row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto &row : rows) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i)
        line += fmt::format(" {:<{}}", row[i], i + 1 < row.size() ? widths[i] + 1 : 0);
      std::printf("%s\n", line.c_str());
    }
  }

private:
  std::vector<std::vector<std::string>> rows;
};

std::string bytesText(uint64_t bytes) {
  if (bytes < 10000)
    return fmt::format("{} B", bytes);
  if (bytes < 10000000)
    return fmt::format("{:.1f} KB", double(bytes) / 1e3);
  if (bytes < 10000000000)
    return fmt::format("{:.1f} MB", double(bytes) / 1e6);
  return fmt::format("{:.1f} GB", double(bytes) / 1e9);
}

class Inspector {
public:
  Inspector(const BundleReader &bundle, const InspectOptions &options)
      : bundle(bundle), program(bundle.program()), options(options) {}

  void printText() const {
    const Manifest &manifest = bundle.manifest();
    std::printf("%s\n", bundle.path().c_str());
    Table facts;
    facts.add({"format", fmt::format("{}.{}", LLMC_FORMAT_MAJOR, LLMC_FORMAT_MINOR)});
    facts.add({"generator", manifest.generator});
    for (const auto &[key, value] : manifest.model)
      facts.add({key, value});
    for (const auto &[file, digest] : manifest.inputs)
      facts.add({"from " + file, digest.substr(0, 16) + "…"});
    facts.print();

    std::printf("\nfiles\n");
    Table files;
    for (const Archive::Entry &entry : bundle.entries())
      files.add({std::string(entry.name), bytesText(entry.bytes.size())});
    files.print();

    std::printf("\ncode\n");
    Table targets;
    for (const Manifest::Target &target : manifest.targets)
      targets.add({target.driver, target.arch, target.level, target.code});
    targets.print();

    printWeights();
    for (const llmc_entry_record &entry : program.entries())
      printEntry(entry);
    if (options.symbols)
      std::printf("\n%s", printSymbols(program).c_str());
    if (options.kernels)
      std::printf("\n%s", printKernels(program).c_str());
    if (options.program)
      std::printf("\n%s", printProgram(program).c_str());
  }

  void printJson() const {
    Json root;
    root["path"] = bundle.path();
    root["manifest"] = Json::parse(bundle.manifestText());
    for (const Archive::Entry &entry : bundle.entries())
      root["files"].push_back({{"name", entry.name}, {"bytes", entry.bytes.size()}});
    for (const llmc_device_record &device : program.devices())
      root["devices"].push_back(
          {{"name", program.string(device.name)}, {"driver", program.string(device.driver)}});
    for (const llmc_entry_record &entry : program.entries())
      root["entries"].push_back({{"name", program.string(entry.name)},
                                 {"kind", entry.kind == LLMC_ENTRY_SESSION ? "session" : "run"},
                                 {"inputs", ioJson(entry, program.inputs(entry))},
                                 {"outputs", ioJson(entry, program.outputs(entry))},
                                 {"instructions", entry.instructions.count}});
    if (options.symbols)
      for (const llmc_symbol_record &symbol : program.symbols())
        root["symbols"].push_back(program.string(symbol.name));
    if (options.kernels)
      for (const llmc_kernel_record &kernel : program.kernels())
        root["kernels"].push_back({{"name", program.string(kernel.name)},
                                   {"label", program.string(kernel.label)},
                                   {"operands", kernel.operand_count},
                                   {"scalars", kernel.scalar_count},
                                   {"scratch_bytes", kernel.scratch_bytes}});
    if (options.program)
      root["program"] = printProgram(program);
    std::printf("%s\n", root.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  }

private:
  /// How weights are stored: a line for each format, or for each weight.
  void printWeights() const {
    Json manifest = Json::parse(bundle.manifestText());
    struct Sum {
      size_t count = 0;
      uint64_t bytes = 0;
    };
    std::map<std::string, Sum> sums;
    Table table;
    table.add({"weight", "shape", "format", "bytes", "rms error", "node"});
    for (const Json &weight : manifest.value("weights", Json::array())) {
      if (!weight.is_object())
        continue;
      std::string shape;
      for (const Json &dim : weight.value("shape", Json::array()))
        shape += (shape.empty() ? "" : " x ") + dim.dump();
      std::string format = textOf(weight, "format");
      auto size = weight.find("bytes"), error = weight.find("relative_error");
      uint64_t bytes =
          size != weight.end() && size->is_number_unsigned() ? size->get<uint64_t>() : 0;
      sums[format].count += 1;
      sums[format].bytes += bytes;
      table.add({textOf(weight, "name"), shape, format, std::to_string(bytes),
                 error != weight.end() && error->is_number()
                     ? fmt::format("{:.2f} %", error->get<double>() * 100)
                     : "",
                 textOf(weight, "node")});
    }
    if (sums.empty())
      return;
    std::printf("\nweights\n");
    Table formats;
    for (const auto &[format, sum] : sums)
      formats.add({format, fmt::format("{} tensors", sum.count), bytesText(sum.bytes)});
    formats.print();
    if (options.weights) {
      std::printf("\n");
      table.print();
    }
  }

  static std::string textOf(const Json &object, const char *key) {
    auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  }

  /// "batch_size", "768", or "past + sequence".
  std::string dimText(const llmc_entry_record &entry, const llmc_io_record &io,
                      uint32_t axis) const {
    std::string_view name = program.dimName(io, axis);
    return name.empty() ? printExpr(program, entry, program.pool(io.dims)[axis])
                        : std::string(name);
  }

  std::string dimsText(const llmc_entry_record &entry, const llmc_io_record &io) const {
    std::string text;
    for (uint32_t axis = 0; axis < io.dims.count; ++axis)
      text += (axis ? ", " : "") + dimText(entry, io, axis);
    return "(" + text + ")";
  }

  void printEntry(const llmc_entry_record &entry) const {
    std::printf("\nentry %s (%s, %u instructions)\n",
                std::string(program.string(entry.name)).c_str(),
                entry.kind == LLMC_ENTRY_SESSION ? "session" : "run", entry.instructions.count);
    Table table;
    auto addAll = [&](const char *side, std::span<const llmc_io_record> ios) {
      for (const llmc_io_record &io : ios)
        table.add({side, std::string(program.string(io.name)),
                   std::string(dtypeName(Dtype(io.dtype))), dimsText(entry, io),
                   io.role == LLMC_ROLE_OTHER ? "" : roleName(io.role)});
    };
    addAll("in", program.inputs(entry));
    addAll("out", program.outputs(entry));
    table.print();
  }

  Json ioJson(const llmc_entry_record &entry, std::span<const llmc_io_record> ios) const {
    Json list = Json::array();
    for (const llmc_io_record &io : ios) {
      Json dims = Json::array();
      for (uint32_t axis = 0; axis < io.dims.count; ++axis) {
        const llmc_expr_record &expr = program.exprs(entry)[program.pool(io.dims)[axis]];
        if (expr.op == LLMC_EXPR_CONST)
          dims.push_back(expr.value);
        else
          dims.push_back(dimText(entry, io, axis));
      }
      list.push_back({{"name", program.string(io.name)},
                      {"dtype", dtypeName(Dtype(io.dtype))},
                      {"dims", std::move(dims)},
                      {"role", roleName(io.role)}});
    }
    return list;
  }

  const BundleReader &bundle;
  const Program &program;
  const InspectOptions &options;
};

Status inspect(const InspectOptions &options) {
  auto bundle = BundleReader::open(options.bundle);
  if (!bundle.isOk()) {
    bool named = bundle.status().message().find(options.bundle) != std::string::npos;
    return named ? bundle.status() : bundle.status().inContext(options.bundle);
  }
  if (options.verify)
    LLMC_TRY((*bundle)->verify());
  Inspector inspector(**bundle, options);
  if (options.json)
    inspector.printJson();
  else
    inspector.printText();
  return Status::ok();
}

} // namespace

void addInspectCommand(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App *command = app.add_subcommand("inspect", "Show what a bundle holds");
  command->add_option("bundle", options->bundle, "The compiled model")->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--program", options->program, "Print the instructions too");
  command->add_flag("--kernels", options->kernels, "Print the kernels too");
  command->add_flag("--weights", options->weights,
                    "Print how each weight is stored, and the error of quantized ones");
  command->add_flag("--symbols", options->symbols, "Print the dynamic sizes too");
  command->add_flag("--verify", options->verify, "Check the weights' SHA-256 too");
  command->footer(examples(app, {
                                    "$0 inspect gpt2.llmc",
                                    "$0 inspect gpt2.llmc --json",
                                    "$0 inspect gpt2.llmc --kernels --program",
                                    "$0 inspect gpt2.llmc --weights",
                                }));
  command->callback([options, &exitCode] {
    Status status = inspect(*options);
    exitCode = status.isOk() ? int(kOk) : reportFailure(status);
  });
}

} // namespace llmc::cli
