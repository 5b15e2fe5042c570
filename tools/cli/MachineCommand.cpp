// SPDX-License-Identifier: Apache-2.0
//
// `machine`: which code this CPU will run and what it gives at best. The
// figures that speed is held against, and what a report of slowness needs.
#include "runtime/drivers/cpu/CpuFeatures.h"
#include "runtime/drivers/cpu/CpuTopology.h"
#include "tools/cli/Commands.h"
#include "tools/cli/MachineSpeed.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace llmc::cli {

namespace {

struct MachineOptions {
  unsigned threads = 0;
  bool json = false;
};

void showMachine(const MachineOptions &options) {
  CpuCount count = countCpus();
  unsigned threads = options.threads ? options.threads : count.cores;
  MachineSpeed speed = measureMachine(threads);
  std::string level(bestIsaLevel());
  if (options.json) {
    nlohmann::ordered_json object = {
        {"cpu", cpuModelName()},
        {"arch", hostArch()},
        {"isa", level},
        {"cores", count.cores},
        {"hardware_threads", count.threads},
        {"threads", threads},
        {"read_bandwidth_bytes_per_s", speed.readBandwidth},
        {"large_page_read_bandwidth_bytes_per_s", speed.largePageReadBandwidth},
        {"f32_flops_per_s", speed.multiplyAdd}};
    std::printf("%s\n",
                object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  std::printf("%s, %u cores (%u hardware threads)\n", cpuModelName().c_str(), count.cores,
              count.threads);
  std::printf("  code             %s-%s\n", std::string(hostArch()).c_str(),
              level.empty() ? "(none that bundles have)" : level.c_str());
  std::printf("  reads            %.1f GB/s, %.1f GB/s with 2 MiB pages\n",
              speed.readBandwidth / 1e9, speed.largePageReadBandwidth / 1e9);
  std::printf("  multiplies, adds %.1f Gflop/s in f32\n", speed.multiplyAdd / 1e9);
  std::printf("  measured with    %u threads\n", threads);
}

} // namespace

void addMachineCommand(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<MachineOptions>();
  CLI::App *command =
      app.add_subcommand("machine", "Show which code this machine runs and what it gives at best");
  command->add_option("--threads", options->threads, "Measuring threads (default: one per core)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(examples(app, {"$0 machine", "$0 machine --threads 1 --json"}));
  command->callback([options, &exitCode] {
    showMachine(*options);
    exitCode = kOk;
  });
}

} // namespace llmc::cli
