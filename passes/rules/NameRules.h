// SPDX-License-Identifier: Apache-2.0
//
// Ordered rules about named things, as `--device-map` and `--weights` have them:
// "layers[0-1]=cpu0; *=cpu1". The last rule that matches decides.
#ifndef LLMC_PASSES_RULES_NAMERULES_H
#define LLMC_PASSES_RULES_NAMERULES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace llmc {

/// The left side of a rule. A text, in which `*` stands for any characters, matches names of nodes
/// and weights, and those of the modules around them: `*.mlp` matches
/// "/model/layers.0/mlp/up_proj/MatMul". `/` and `.` mean the same. `layers[A-B]` and `layers[N]`
/// match what stands in these layers, whatever the exporter calls layers.
class NamePattern {
public:
  /// Fails with what is wrong.
  static llvm::Expected<NamePattern> parse(llvm::StringRef text);
  bool matches(llvm::StringRef name) const;

private:
  std::string text;
  std::optional<std::pair<unsigned, unsigned>> layers;
};

class NameRules {
public:
  struct Rule {
    std::string text;                   ///< the whole rule
    std::optional<NamePattern> pattern; ///< none: a value alone, for everything
    std::string value;
    bool used = false; ///< whether `find` has seen it match
  };

  /// Rules PATTERN=VALUE, separated by `;`; with `allowDefault` also a VALUE alone. `example` is
  /// shown for a rule that has another form.
  static llvm::Expected<NameRules> parse(llvm::StringRef text, bool allowDefault,
                                         llvm::StringRef example);

  /// The last rule that matches one of `names`, or null. Marks every rule that matches.
  const Rule *find(llvm::ArrayRef<llvm::StringRef> names);
  llvm::ArrayRef<Rule> all() const { return rules; }

private:
  llvm::SmallVector<Rule> rules;
};

/// The ONNX nodes that an op came from.
llvm::SmallVector<llvm::StringRef> nodesOf(mlir::Operation *op);

} // namespace llmc

#endif // LLMC_PASSES_RULES_NAMERULES_H
