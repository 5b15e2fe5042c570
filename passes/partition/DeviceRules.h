// SPDX-License-Identifier: Apache-2.0
//
// The rules of `--device-map`: "layers[0-1]=cpu0; *=cpu1". A rule's left side
// is a pattern of ONNX node names; the last rule that matches a name decides.
#ifndef LLMC_PASSES_PARTITION_DEVICE_RULES_H
#define LLMC_PASSES_PARTITION_DEVICE_RULES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace llmc {

class DeviceRules {
public:
  /// Patterns are texts with `*` for any characters, or `layers[A-B]` and `layers[N]` for the
  /// nodes of these layers, whatever the exporter calls layers. Fails with what is wrong.
  static llvm::Expected<DeviceRules> parse(llvm::StringRef text);

  /// The device of a node, or nothing when no rule matches it.
  std::optional<std::string> deviceOf(llvm::StringRef node);
  /// Text of the rules that have matched nothing so far.
  llvm::SmallVector<std::string> unused() const;
  bool empty() const { return rules.empty(); }

private:
  struct Rule {
    std::string text, pattern, device;
    std::optional<std::pair<unsigned, unsigned>> layers;
    bool used = false;
    bool matches(llvm::StringRef node) const;
  };
  llvm::SmallVector<Rule> rules;
};

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_DEVICE_RULES_H
