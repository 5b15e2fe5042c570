// SPDX-License-Identifier: Apache-2.0
//
// `run`: one call of the model on tensors from files or a seed, and a
// comparison with expected outputs.
#include "tools/cli/Commands.h"
#include "tools/cli/ModelOptionsFlags.h"
#include "tools/cli/ModelRun.h"
#include "tools/cli/RandomTensors.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace llmc::cli {

namespace {

struct RunOptions {
  std::string bundle;
  ModelOptions model;
  std::string inputs;
  uint64_t seed = 0;
  bool isRandom = false;
  std::vector<std::string> shapes;
  std::string expected;
  std::string outputs;
  Tolerance tolerance;
};

/// One line per output: enough to see at a glance that it is not nonsense.
void printSummary(const OwnedTensor &tensor) {
  double low = HUGE_VAL, high = -HUGE_VAL, sum = 0;
  uint64_t count = tensor.elements(), odd = 0;
  for (uint64_t i = 0; i < count; ++i) {
    double value = elementAsDouble(tensor.dtype, tensor.data.data(), i);
    if (!std::isfinite(value)) {
      ++odd;
      continue;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  std::string text =
      fmt::format("{}: {} {}", tensor.name, dtypeName(tensor.dtype), shapeText(tensor.dims));
  if (count > odd)
    text +=
        fmt::format(", min {:.6g}, max {:.6g}, mean {:.6g}", low, high, sum / double(count - odd));
  if (odd > 0)
    text += fmt::format(", {} not finite", odd);
  std::printf("%s\n", text.c_str());
}

/// Prints one line per expected output; the exit code says whether all are equal.
Result<ExitCode> compareAll(const ModelRun &run, const RunOptions &options) {
  LLMC_TRY_ASSIGN(TensorSet expected,
                  readTensorSet(options.expected, run.outputs(), Side::Outputs));
  if (expected.tensors.empty() && !run.outputs().empty())
    return Status::error(Code::InvalidArgument, "'{}' holds none of the model's outputs",
                         options.expected);
  ExitCode code = kOk;
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    const OwnedTensor &want = expected.tensors[i];
    auto got = std::ranges::find(run.results(), want.name, &OwnedTensor::name);
    Comparison result = compareTensors(
        *got, want, expected.masks[i] ? &*expected.masks[i] : nullptr, options.tolerance);
    if (result.equal) {
      std::printf("%s: equal (max abs error %.3g, max rel error %.3g)\n", want.name.c_str(),
                  result.maxAbsError, result.maxRelError);
    } else {
      std::printf("%s: DIFFERENT: %s\n", want.name.c_str(), result.text.c_str());
      code = kDifferent;
    }
  }
  return code;
}

Result<ExitCode> runModel(const RunOptions &options) {
  LLMC_TRY_ASSIGN(std::shared_ptr<Model> model, openModel(options.bundle, options.model));
  LLMC_TRY_ASSIGN(ModelRun run, ModelRun::create(*model));
  std::vector<OwnedTensor> inputs;
  if (options.isRandom) {
    ShapeMap shapes;
    for (const std::string &text : options.shapes)
      LLMC_TRY(parseShape(text, shapes));
    LLMC_TRY_ASSIGN(inputs, randomInputs(model->program(), run.entry(), shapes, options.seed));
    for (const OwnedTensor &tensor : inputs)
      std::fprintf(stderr, "input %s: %s %s\n", tensor.name.c_str(),
                   std::string(dtypeName(tensor.dtype)).c_str(), shapeText(tensor.dims).c_str());
  } else if (!options.inputs.empty()) {
    LLMC_TRY_ASSIGN(TensorSet set, readTensorSet(options.inputs, run.inputs(), Side::Inputs));
    inputs = std::move(set.tensors);
  }
  LLMC_TRY(run.bind(inputs));
  LLMC_TRY(run.run());
  if (!options.outputs.empty())
    LLMC_TRY(writeTensorSet(options.outputs, run.results()));
  if (!options.expected.empty())
    return compareAll(run, options);
  for (const OwnedTensor &tensor : run.results())
    printSummary(tensor);
  return kOk;
}

} // namespace

void addRunCommand(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *command = app.add_subcommand("run", "Run a model once on given or random inputs");
  addModelFlags(*command, options->bundle, options->model);
  CLI::Option *inputs =
      command->add_option("--inputs", options->inputs,
                          "Where the inputs are: a folder of NAME.npy, input_J.npy or input_J.pb "
                          "files, or an .npz with keys NAME or in:NAME");
  CLI::Option *random =
      command->add_option("--random", options->seed, "Make inputs up from this seed");
  random->excludes(inputs);
  command
      ->add_option("--shape", options->shapes,
                   "With --random: the shape of an input, as name=2x7 (repeat for more)")
      ->allow_extra_args(false)
      ->needs(random);
  CLI::Option *expected =
      command->add_option("--expect", options->expected,
                          "Compare with these outputs: a folder of NAME.npy, output_J.npy or "
                          "output_J.pb files, or an .npz with keys NAME or out:NAME; mask:NAME "
                          "(bool) says which elements count");
  command
      ->add_option("--rtol", options->tolerance.rtol,
                   "An element is equal when |got - want| <= atol + rtol * |want|")
      ->capture_default_str()
      ->needs(expected);
  command
      ->add_option("--atol", options->tolerance.atol,
                   "See --rtol; integers are compared exactly unless this is 1 or more")
      ->capture_default_str()
      ->needs(expected);
  command->add_option("--outputs", options->outputs,
                      "Write the outputs to this .npz, or as .npy files into this folder (bf16 as "
                      "uint16 bits)");
  command->footer(
      examples(app,
               {
                   "$0 run gpt2.llmc --inputs case.npz --outputs out.npz",
                   "$0 run gpt2.llmc --inputs case.npz --expect case.npz --rtol 1e-3 --atol 1e-4",
                   "$0 run add.llmc --inputs test_data_set_0 --expect test_data_set_0",
                   "$0 run bert.llmc --random 1 --shape input_ids=2x128",
               }) +
      "\n\nExit codes: 0 equal or done, 1 can't be run, 2 wrong usage, 3 missing file or other\n"
      "trouble of the machine, 4 outputs differ.");
  command->callback([options, random, &exitCode] {
    options->isRandom = random->count() > 0;
    auto code = runModel(*options);
    exitCode = code.isOk() ? *code : reportFailure(code.status());
  });
}

} // namespace llmc::cli
