// SPDX-License-Identifier: Apache-2.0
//
// `bench`: how fast a bundle is on this machine. Every repetition opens the
// bundle anew, so that load and first token are measured as a user meets them.
#include "tools/cli/Commands.h"
#include "tools/cli/MachineSpeed.h"
#include "tools/cli/ModelOptionsFlags.h"
#include "tools/cli/ModelRun.h"
#include "tools/cli/RandomTensors.h"
#include "tools/cli/ResourceUsage.h"
#include "tools/cli/WriteFile.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

namespace llmc::cli {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr size_t kFirstPrompt = 16; // tokens of the prompt that the first token follows
constexpr size_t kWarmDecodes = 2;
constexpr int kWarmRuns = 3;
constexpr int kLeastRuns = 5;

struct BenchOptions {
  std::string bundle;
  ModelOptions model;
  size_t prompt = 128;
  size_t generate = 64;
  size_t repeat = 3;
  std::vector<std::string> shapes;
  bool profile = false;
  std::string trace; // file; empty: none
  bool json = false;
};

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Values of each measured quantity, in the order of the first repetition.
class Measurements {
public:
  void add(const std::string &key, double value) {
    auto found = std::ranges::find(rows, key, &Row::key);
    if (found == rows.end())
      found = rows.insert(rows.end(), {key, {}});
    found->values.push_back(value);
  }

  /// KEY is the median, KEY_min and KEY_max the extremes.
  Json json() const {
    Json object;
    for (const Row &row : rows) {
      object[row.key] = median(row.values);
      object[row.key + "_min"] = std::ranges::min(row.values);
      object[row.key + "_max"] = std::ranges::max(row.values);
    }
    return object;
  }

  void print() const {
    for (const Row &row : rows)
      std::printf("  %-24s %12.3f   (%.3f to %.3f)\n", row.key.c_str(), median(row.values),
                  std::ranges::min(row.values), std::ranges::max(row.values));
  }

private:
  struct Row {
    std::string key;
    std::vector<double> values;
  };
  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  }
  std::vector<Row> rows;
};

/// Token ids that any vocabulary has; which they are makes no difference to the time.
std::vector<int32_t> benchTokens(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i)
    ids[i] = int32_t((i * 37 + 11) % 97);
  return ids;
}

int32_t likeliest(std::span<const float> logits) {
  return int32_t(std::ranges::max_element(logits) - logits.begin());
}

/// From here on the weights are where they stay.
void awaitWeights(const Model &model) {
  if (HugePageMover *mover = model.executor()->hugePageMover())
    mover->wait();
}

Status decodeGreedy(Session &session, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    int32_t id = likeliest(session.logits());
    LLMC_TRY(session.append(std::span(&id, 1)));
  }
  return Status::ok();
}

/// Time by kernel, over calls of all instructions that use it.
Json profileJson(const std::vector<ProfileRow> &rows, const MachineSpeed &machine) {
  std::vector<ProfileRow> sums; // one per kernel
  double total = 0;
  for (const ProfileRow &row : rows) {
    auto found = std::ranges::find(sums, row.kernel, &ProfileRow::kernel);
    if (found == sums.end())
      found = sums.insert(sums.end(), {"", row.kernel, 0, 0, 0, 0});
    found->calls += row.calls;
    found->microseconds += row.microseconds;
    found->bytes += row.bytes;
    found->arithmetic += row.arithmetic;
    total += row.microseconds;
  }
  std::ranges::sort(sums, std::greater(), &ProfileRow::microseconds);
  Json list = Json::array();
  for (const ProfileRow &sum : sums) {
    double seconds = sum.microseconds / 1e6;
    auto share = [&](double amount, double peak) {
      return seconds > 0 && peak > 0 ? amount / seconds / peak : 0;
    };
    list.push_back({{"kernel", sum.kernel},
                    {"calls", sum.calls},
                    {"us", sum.microseconds},
                    {"us_per_call", sum.microseconds / double(sum.calls)},
                    {"share", total > 0 ? sum.microseconds / total : 0},
                    {"bytes_per_call", sum.bytes / double(sum.calls)},
                    {"flops_per_call", sum.arithmetic / double(sum.calls)},
                    {"of_bandwidth", share(sum.bytes, machine.bestReadBandwidth())},
                    {"of_peak", share(sum.arithmetic, machine.multiplyAdd)}});
  }
  return list;
}

/// Operands that lie in a cache are read faster than memory gives them.
std::string bandwidthText(double share) {
  return share > 1.05 ? "(cache)" : fmt::format("{:.1f}%", share * 100);
}

/// Integer kernels can pass the peak of f32.
std::string peakText(double share) { return share == 0 ? "" : fmt::format("{:.1f}%", share * 100); }

void printProfile(const std::string &title, const Json &list) {
  std::printf("\n%s\n  %-48s %8s %12s %10s %7s %12s %10s %12s %8s\n", title.c_str(), "kernel",
              "calls", "us", "us/call", "share", "bytes/call", "of memory", "flops/call",
              "of peak");
  for (const Json &row : list)
    std::printf("  %-48s %8llu %12.1f %10.2f %6.1f%% %12.0f %10s %12.0f %8s\n",
                row["kernel"].get<std::string>().c_str(),
                static_cast<unsigned long long>(row["calls"].get<uint64_t>()),
                row["us"].get<double>(), row["us_per_call"].get<double>(),
                row["share"].get<double>() * 100, row["bytes_per_call"].get<double>(),
                bandwidthText(row["of_bandwidth"].get<double>()).c_str(),
                row["flops_per_call"].get<double>(),
                peakText(row["of_peak"].get<double>()).c_str());
}

Json machineJson(const MachineSpeed &machine) {
  return {{"read_bandwidth_bytes_per_s", machine.readBandwidth},
          {"large_page_read_bandwidth_bytes_per_s", machine.largePageReadBandwidth},
          {"f32_flops_per_s", machine.multiplyAdd}};
}

/// In the Trace Event Format, which chrome://tracing and Perfetto read; one row per device.
Json traceJson(const ExecContext &context, const Model &model) {
  Json list = Json::array();
  const Program &program = model.program();
  for (size_t i = 0; i < program.devices().size(); ++i)
    list.push_back({{"ph", "M"},
                    {"name", "thread_name"},
                    {"pid", 1},
                    {"tid", i},
                    {"args", {{"name", program.string(program.devices()[i].name)}}}});
  using Microseconds = std::chrono::duration<double, std::micro>;
  const std::vector<TraceEvent> &events = context.trace();
  for (const TraceEvent &event : events)
    list.push_back({{"ph", "X"},
                    {"name", event.kernel},
                    {"pid", 1},
                    {"tid", event.device},
                    {"ts", Microseconds(event.begin - events.front().begin).count()},
                    {"dur", Microseconds(event.duration).count()},
                    {"args", {{"node", event.label}}}});
  return {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(list)}};
}

struct Report {
  Measurements measurements;
  Json profiles; // title -> list
  std::optional<MachineSpeed> machine;
  uint64_t peakMemory = 0;
  Json trace;

  /// `context` ran profiled calls since its profile was cleared.
  void addProfile(const char *title, ExecContext &context, const Model &model) {
    if (!machine) {
      peakMemory = peakMemoryBytes(); // before the probe takes its own
      machine = measureMachine(model.executor()->devices()[0]->workers());
    }
    profiles[title] = profileJson(context.profile(), *machine);
    context.clearProfile();
  }
};

Status benchDecoder(const BenchOptions &options, Report &report) {
  uint64_t context = std::max(options.prompt + options.generate, kFirstPrompt + kWarmDecodes) + 1;
  std::vector<int32_t> firstPrompt = benchTokens(kFirstPrompt);
  std::vector<int32_t> prompt = benchTokens(options.prompt);
  for (size_t round = 0; round < options.repeat; ++round) {
    auto start = Clock::now();
    LLMC_TRY_ASSIGN(std::shared_ptr<Model> model, openModel(options.bundle, options.model));
    LLMC_TRY_ASSIGN(std::unique_ptr<Session> session, model->createSession(context));
    report.measurements.add("load_ms", millisecondsSince(start));
    LLMC_TRY(session->append(firstPrompt));
    (void)likeliest(session->logits());
    report.measurements.add("first_token_ms", millisecondsSince(start));
    awaitWeights(*model);
    LLMC_TRY(decodeGreedy(*session, kWarmDecodes));
    LLMC_TRY(session->rewind(0));

    start = Clock::now();
    LLMC_TRY(session->append(prompt));
    report.measurements.add("prefill_tokens_per_s",
                            double(options.prompt) / millisecondsSince(start) * 1e3);
    start = Clock::now();
    LLMC_TRY(decodeGreedy(*session, options.generate));
    report.measurements.add("decode_ms_per_token",
                            millisecondsSince(start) / double(options.generate));

    if (options.profile && round + 1 == options.repeat) {
      LLMC_TRY(session->rewind(0));
      session->profile(true);
      if (!options.trace.empty())
        session->context().startTrace();
      LLMC_TRY(session->append(prompt));
      report.addProfile("prefill", session->context(), *model);
      LLMC_TRY(decodeGreedy(*session, options.generate));
      report.addProfile("decode", session->context(), *model);
      report.trace = traceJson(session->context(), *model);
    }
  }
  return Status::ok();
}

Status benchRun(const BenchOptions &options, Report &report) {
  ShapeMap shapes;
  for (const std::string &text : options.shapes)
    LLMC_TRY(parseShape(text, shapes));
  for (size_t round = 0; round < options.repeat; ++round) {
    auto start = Clock::now();
    LLMC_TRY_ASSIGN(std::shared_ptr<Model> model, openModel(options.bundle, options.model));
    double loadTime = millisecondsSince(start);
    LLMC_TRY_ASSIGN(ModelRun run, ModelRun::create(*model));
    LLMC_TRY_ASSIGN(std::vector<OwnedTensor> inputs,
                    randomInputs(model->program(), run.entry(), shapes, /*seed=*/1));
    start = Clock::now(); // making inputs up is not the model's time
    LLMC_TRY(run.bind(inputs));
    LLMC_TRY(run.run());
    report.measurements.add("load_ms", loadTime);
    report.measurements.add("first_token_ms", loadTime + millisecondsSince(start));
    awaitWeights(*model);
    for (int i = 0; i < kWarmRuns; ++i)
      LLMC_TRY(run.run());
    for (int i = 0; i < kLeastRuns; ++i) {
      start = Clock::now();
      LLMC_TRY(run.run());
      report.measurements.add("latency_ms", millisecondsSince(start));
    }
    if (options.profile && round + 1 == options.repeat) {
      if (!options.trace.empty())
        run.context().startTrace();
      for (int i = 0; i < kLeastRuns; ++i)
        LLMC_TRY(run.run(/*profile=*/true));
      report.addProfile("run", run.context(), *model);
      report.trace = traceJson(run.context(), *model);
    }
  }
  return Status::ok();
}

Status bench(const BenchOptions &options) {
  Report report;
  LLMC_TRY(options.shapes.empty() ? benchDecoder(options, report) : benchRun(options, report));
  if (!options.trace.empty())
    LLMC_TRY(writeFile(options.trace,
                       report.trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"));
  report.measurements.add("peak_rss_bytes",
                          double(report.peakMemory != 0 ? report.peakMemory : peakMemoryBytes()));
  if (options.json) {
    Json object = report.measurements.json();
    if (report.machine) {
      object["profile"] = report.profiles;
      object["machine"] = machineJson(*report.machine);
    }
    std::printf("%s\n", object.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return Status::ok();
  }
  std::printf("%s\n", options.bundle.c_str());
  report.measurements.print();
  for (const auto &[title, list] : report.profiles.items())
    printProfile(title, list);
  if (report.machine)
    std::printf(
        "\n  as many threads read %.1f GB/s (%.1f with 2 MiB pages) and compute %.1f Gflop/s "
        "in f32\n",
        report.machine->readBandwidth / 1e9, report.machine->largePageReadBandwidth / 1e9,
        report.machine->multiplyAdd / 1e9);
  return Status::ok();
}

} // namespace

void addBenchCommand(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App *command = app.add_subcommand("bench", "Measure speed and memory");
  addModelFlags(*command, options->bundle, options->model);
  command->add_option("--prompt", options->prompt, "Tokens of the prompt")
      ->check(CLI::Range(size_t(1), size_t(1) << 24))
      ->capture_default_str();
  command->add_option("--generate", options->generate, "Tokens to generate after it")
      ->check(CLI::Range(size_t(1), size_t(1) << 24))
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "Repetitions, each with the bundle opened anew")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--input-shape", options->shapes,
                   "Measure single runs instead, on random inputs of this shape, as "
                   "name=1x128 (repeat for more inputs)")
      ->allow_extra_args(false);
  command->add_flag("--profile", options->profile, "Measure each kernel too, in a run of its own");
  command->add_option("--trace", options->trace,
                      "Write the profiled run's timeline for chrome://tracing or Perfetto");
  command->add_flag("--json", options->json,
                    "Print one JSON object: medians, and with _min and _max the extremes");
  command->footer(examples(app, {
                                    "$0 bench gpt2.llmc --prompt 512 --generate 64 --threads 2",
                                    "$0 bench gpt2.llmc --prompt 512 --generate 64 --json",
                                    "$0 bench bert.llmc --input-shape input_ids=1x128 --profile",
                                    "$0 bench gpt2.llmc --trace gpt2-trace.json",
                                }));
  command->callback([options, &exitCode] {
    options->profile |= !options->trace.empty();
    Status status = bench(*options);
    exitCode = status.isOk() ? int(kOk) : reportFailure(status);
  });
}

} // namespace llmc::cli
