// SPDX-License-Identifier: Apache-2.0
//
// Maps the files in which a model keeps tensors. A model comes from a stranger,
// so a location is refused unless, with all links resolved, it lies in the
// model's folder or in the folder that the model file itself resolves to.
#ifndef LLMC_COMPILER_ONNX_EXTERNALFILES_H
#define LLMC_COMPILER_ONNX_EXTERNALFILES_H

#include "compiler/ir/MappedFile.h"

#include "llvm/ADT/StringMap.h"

namespace llmc {

class ExternalFiles {
public:
  /// Without a folder every location is refused.
  ExternalFiles(const std::string &modelPath, bool hasFolder);

  /// The file at `location`, mapped once however often it is asked for.
  llvm::Expected<std::shared_ptr<const MappedFile>> open(llvm::StringRef location);

private:
  llvm::Expected<std::string> resolve(llvm::StringRef location) const;

  bool hasFolder;
  std::string folder;               // as given, where locations are looked up first
  std::vector<std::string> allowed; // real paths
  llvm::StringMap<std::shared_ptr<const MappedFile>> byLocation, byRealPath;
  llvm::StringMap<std::string> failures; // by location, so that none is tried twice
};

} // namespace llmc

#endif // LLMC_COMPILER_ONNX_EXTERNALFILES_H
