// SPDX-License-Identifier: Apache-2.0
//
// A finished program, its images, weights and tokenizer as one bundle file.
#ifndef LLMC_COMPILER_BUNDLE_BUNDLE_WRITER_H
#define LLMC_COMPILER_BUNDLE_BUNDLE_WRITER_H

#include "compiler/ir/WeightStore.h"
#include "compiler/target/Target.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace llmc {

struct BundleContents {
  mlir::ModuleOp program; ///< `rt` ops only
  WeightStore *weights = nullptr;
  const Target *target = nullptr; ///< packs weights
  std::vector<CodeImage> images;
  std::map<std::string, std::string> extraEntries; ///< name in the bundle -> bytes
  std::map<std::string, std::string> inputHashes;  ///< file name -> sha256 of what was compiled
  std::string modelName;
  int64_t maxContext = 0; ///< 0: the model says nothing
};

struct BundleSummary {
  uint64_t fileSize = 0;
  uint64_t weightBytes = 0;
  unsigned weights = 0;
};

/// Writes the bundle beside `path` and renames it when complete. `progress` gets bytes of weights
/// done and in all. Errors name the path and the reason.
llvm::Expected<BundleSummary> writeBundle(const std::string &path, BundleContents &contents,
                                          std::function<void(uint64_t, uint64_t)> progress);

} // namespace llmc

#endif // LLMC_COMPILER_BUNDLE_BUNDLE_WRITER_H
