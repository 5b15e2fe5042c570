// SPDX-License-Identifier: Apache-2.0
//
// A small program that uses every kind of record, as plain tables that a test
// may damage before they are encoded. The encoder keeps no rule but the
// layout's, so that it can write wrong programs too.
#ifndef LLMC_TESTS_UNIT_BUNDLE_TESTPROGRAM_H
#define LLMC_TESTS_UNIT_BUNDLE_TESTPROGRAM_H

#include "runtime/abi/BundleFormat.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::test {

struct TestProgram {
  std::string strings;
  std::vector<uint32_t> pool;
  std::vector<llmc_device_record> devices;
  std::vector<llmc_symbol_record> symbols;
  std::vector<llmc_kernel_record> kernels;
  std::vector<llmc_entry_record> entries;
  std::vector<llmc_expr_record> exprs;
  std::vector<llmc_binding_record> bindings;
  std::vector<llmc_check_record> checks;
  std::vector<llmc_buffer_record> buffers;
  std::vector<llmc_io_record> ios;
  std::vector<llmc_instruction_record> instructions;

  llmc_str addString(std::string_view text);
  llmc_range addPool(const std::vector<uint32_t> &words);
  /// The file's bytes.
  std::string encode() const;
};

/// Entry 0 is `run` with a past and a present, entry 1 a session with a cache; two devices, so
/// that transfers and waits occur. Its weights need kTestWeightsSize bytes.
TestProgram makeTestProgram();
constexpr uint64_t kTestWeightsSize = 192;

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_BUNDLE_TESTPROGRAM_H
