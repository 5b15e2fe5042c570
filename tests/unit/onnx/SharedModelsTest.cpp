// SPDX-License-Identifier: Apache-2.0
//
// Every model below ../shared (or $LLMC_SHARED), where that folder exists: real exports and small
// cases. Cases that are to be refused at import come from scripts and are
// written anew in HostileTest.
#include "tests/unit/onnx/ImportFixture.h"

#include <cstdlib>

using namespace mlir;
namespace fs = std::filesystem;

namespace llmc::test {
namespace {

class SharedModelsTest : public ImportTest {
protected:
  void importAll(const char *name, size_t atLeast) {
    const char *shared = std::getenv("LLMC_SHARED");
    fs::path root =
        (shared ? fs::path(shared) : fs::path(LLMC_SOURCE_DIR) / ".." / "shared") / name;
    if (!fs::exists(root))
      GTEST_SKIP() << root << " is not there";
    size_t count = 0;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".onnx")
        continue;
      EXPECT_TRUE(importFile(entry.path().string())) << entry.path() << ": " << errors[0];
      EXPECT_TRUE(warnings.empty()) << entry.path() << ": " << warnings[0];
      ++count;
    }
    EXPECT_GE(count, atLeast);
  }
};

TEST_F(SharedModelsTest, ExportedModels) { importAll("models", 24); }
TEST_F(SharedModelsTest, Cases) { importAll("cases", 60); }

} // namespace
} // namespace llmc::test
