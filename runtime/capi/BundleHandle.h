// SPDX-License-Identifier: Apache-2.0
//
// What is behind an llmc_bundle: a Model, and the texts that its queries lend
// out in the form C wants.
#ifndef LLMC_RUNTIME_CAPI_BUNDLE_HANDLE_H
#define LLMC_RUNTIME_CAPI_BUNDLE_HANDLE_H

#include "llmc/llmc.h"
#include "runtime/llm/Model.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace llmc::capi {

/// An input's or output's description; never moved once made, as its pointers are lent out.
struct IoText {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<std::string> dimNames;
  std::vector<const char *> dimPointers;
  Dtype dtype;
  const char *role;

  IoText(const Program &program, const llmc_entry_record &entry, const llmc_io_record &io);
  IoText(const IoText &) = delete;
};

} // namespace llmc::capi

struct llmc_bundle {
  explicit llmc_bundle(std::shared_ptr<llmc::Model> model);

  std::atomic<uint64_t> references{1};
  std::shared_ptr<llmc::Model> model;
  std::vector<std::unique_ptr<llmc::capi::IoText>> inputs;
  std::vector<std::unique_ptr<llmc::capi::IoText>> outputs;
  bool canGenerate;
  uint64_t vocabulary;
  std::string device;
};

#endif // LLMC_RUNTIME_CAPI_BUNDLE_HANDLE_H
