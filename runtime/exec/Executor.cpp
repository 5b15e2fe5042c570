// SPDX-License-Identifier: Apache-2.0
//
// What happens once per opened bundle.
#include "runtime/exec/Executor.h"

#include <algorithm>

namespace llmc {

/// Weights of fewer bytes stay in the file's pages.
static constexpr size_t kMoveFrom = size_t(16) << 20;

ExecutorSource ExecutorSource::fromBundle(std::shared_ptr<const BundleReader> bundle) {
  ExecutorSource source;
  source.program = std::shared_ptr<const Program>(bundle, &bundle->program());
  source.weights = bundle->weights();
  source.weightsAreMapped = !bundle->path().empty();
  constexpr std::string_view kFolder = "code/";
  for (const Manifest::Target &target : bundle->manifest().targets) {
    std::string_view name = target.code;
    if (name.starts_with(kFolder))
      name.remove_prefix(kFolder.size());
    source.images.push_back({std::string(name), bundle->code(target)});
  }
  source.owner = std::move(bundle);
  return source;
}

Result<std::vector<std::shared_ptr<Device>>> openDevices(const DriverRegistry &registry,
                                                         const Program &program,
                                                         std::span<const DriverSetting> settings) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const llmc_device_record &record : program.devices()) {
    std::string_view driver = program.string(record.driver);
    std::vector<DeviceOption> options;
    for (const DriverSetting &setting : settings)
      if (setting.driver == driver)
        options.push_back(setting.option);
    LLMC_TRY_ASSIGN(
        std::shared_ptr<Device> device,
        Device::open(registry, driver, std::string(program.string(record.name)), options));
    devices.push_back(std::move(device));
  }
  return devices;
}

Executor::~Executor() = default;

Result<std::shared_ptr<Executor>> Executor::create(ExecutorSource source,
                                                   std::vector<std::shared_ptr<Device>> devices,
                                                   const ExecutorOptions &options) {
  std::shared_ptr<Executor> executor(new Executor());
  executor->source = std::move(source);
  executor->settings = options;
  executor->deviceList = std::move(devices);
  const Program &program = executor->program();
  if (executor->deviceList.size() != program.devices().size())
    return Status::error(Code::InvalidArgument, "the program is for {} devices, {} were given",
                         program.devices().size(), executor->deviceList.size());
  for (uint32_t i = 0; i < executor->deviceList.size(); ++i) {
    LLMC_TRY(executor->loadCode(i));
    LLMC_TRY_ASSIGN(
        WeightPlacement placement,
        WeightPlacement::create(program, i, executor->deviceList[i], executor->source.weights));
    executor->weights.push_back(std::move(placement));
  }
  LLMC_TRY(executor->planEntries());
  const ExecutorSource &from = executor->source;
  bool readInPlace = std::any_of(executor->deviceList.begin(), executor->deviceList.end(),
                                 [](const auto &device) { return device->usesHostMemory(); });
  // What fits the caches gains nothing.
  if (options.hugePages && from.weightsAreMapped && readInPlace && from.weights.size() >= kMoveFrom)
    executor->mover = std::make_unique<HugePageMover>(from.weights);
  return executor;
}

Status Executor::loadCode(uint32_t device) {
  codes.emplace_back();
  chosenImages.emplace_back();
  bool dispatches = false;
  for (const llmc_entry_record &entry : program().entries())
    for (const llmc_instruction_record &instruction : program().instructions(entry))
      dispatches |= instruction.op == LLMC_OP_DISPATCH && instruction.device == device;
  if (!dispatches)
    return Status::ok();
  std::vector<llmc_image> images;
  for (const ExecutorSource::Image &image : source.images)
    images.push_back({image.name.c_str(), image.bytes.data(), image.bytes.size()});
  LLMC_TRY_ASSIGN(codes[device], deviceList[device]->loadCode(images));
  chosenImages[device] = source.images[codes[device].chosen].name;
  return Status::ok();
}

Status Executor::planEntries() {
  std::vector<llmc_handle> handles;
  for (const DeviceCode &code : codes)
    handles.push_back(code.object.handle());
  const EntryPlan *session = nullptr;
  for (const llmc_entry_record &entry : program().entries()) {
    std::string_view name = program().string(entry.name);
    Result<std::unique_ptr<EntryPlan>> plan =
        EntryPlan::build(program(), entry, deviceList, handles);
    if (!plan.isOk())
      return plan.status().inContext(fmt::format("entry '{}'", name));
    plans.push_back(std::move(*plan));
    if (entry.kind != LLMC_ENTRY_SESSION)
      continue;
    // One cache serves them all.
    if (session && plans.back()->kvBuffers != kvSpecs)
      return Status::error(Code::Corrupt, "entries '{}' and '{}' have different KV buffers",
                           program().string(session->entry->name), name);
    session = plans.back().get();
    kvSpecs = session->kvBuffers;
  }
  return Status::ok();
}

std::unique_ptr<ExecContext> Executor::createContext() {
  return std::unique_ptr<ExecContext>(new ExecContext(shared_from_this()));
}

} // namespace llmc
