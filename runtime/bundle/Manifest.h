// SPDX-License-Identifier: Apache-2.0
//
// The typed content of `manifest.json` (schema: docs/bundle-format.md). The
// parser bounds size and depth and rejects duplicate keys, so what it returns
// has one meaning.
#ifndef LLMC_RUNTIME_BUNDLE_MANIFEST_H
#define LLMC_RUNTIME_BUNDLE_MANIFEST_H

#include "runtime/bundle/Sha256.h"
#include "runtime/core/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

struct Manifest {
  struct Entry {
    Sha256Digest sha256;
    uint64_t size;
  };
  /// Code for one level of one architecture, e.g. {"cpu", "x86_64", "avx2", "code/x86_64-avx2.so"}.
  struct Target {
    std::string driver;
    std::string arch;
    std::string level;
    std::string code; ///< archive entry
  };

  std::string generator;
  std::map<std::string, Entry, std::less<>> entries; ///< every archive entry but the manifest
  std::vector<Target> targets;
  std::map<std::string, std::string, std::less<>> inputs; ///< compiled file -> SHA-256 in hex
  /// The `model` object: strings as they are, other values as JSON text.
  std::map<std::string, std::string, std::less<>> model;

  static Result<Manifest> parse(std::string_view text);
};

} // namespace llmc

#endif // LLMC_RUNTIME_BUNDLE_MANIFEST_H
