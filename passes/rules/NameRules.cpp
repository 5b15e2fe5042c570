// SPDX-License-Identifier: Apache-2.0
//
// Parsing and matching of rules about names.
#include "passes/rules/NameRules.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"

namespace llmc {

/// One spelling of a path: '/' between parts, none in front.
static std::string pathOf(llvm::StringRef name) {
  std::string path = name.ltrim("/.").str();
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

llvm::Expected<NamePattern> NamePattern::parse(llvm::StringRef text) {
  NamePattern result;
  result.text = pathOf(text);
  llvm::StringRef range = text;
  if (!range.consume_front("layers["))
    return result;
  bool whole = range.consume_back("]");
  auto [first, last] = range.split('-');
  unsigned a = 0, b = 0;
  if (!whole || first.getAsInteger(10, a) ||
      (range.contains('-') ? last.getAsInteger(10, b) : (b = a, false)) || b < a)
    return llvm::createStringError("'" + text + "' should be layers[N] or layers[FIRST-LAST]");
  result.layers = {a, b};
  return result;
}

/// Whether `text` fits `pattern`, in which `*` stands for any characters.
static bool fits(llvm::StringRef pattern, llvm::StringRef text) {
  size_t star = pattern.find('*');
  if (star == llvm::StringRef::npos)
    return pattern == text;
  if (!text.consume_front(pattern.take_front(star)))
    return false;
  for (llvm::StringRef rest = pattern.drop_front(star + 1);; text = text.drop_front()) {
    if (fits(rest, text))
      return true;
    if (text.empty())
      return false;
  }
}

/// The number of the layer a name stands in: "/model/layers.3/mlp/MatMul", "h.3", "blocks_3".
static std::optional<unsigned> layerOf(llvm::StringRef name) {
  static constexpr llvm::StringLiteral kWords[] = {"layers", "layer", "blocks", "block", "h"};
  for (llvm::StringRef word : kWords)
    for (size_t at = name.find(word); at != llvm::StringRef::npos; at = name.find(word, at + 1)) {
      bool begins = at == 0 || !llvm::isAlnum(name[at - 1]);
      llvm::StringRef rest = name.drop_front(at + word.size());
      unsigned number = 0;
      if (begins && !rest.empty() && llvm::StringRef("._/").contains(rest.front()) &&
          !rest.drop_front().take_while(llvm::isDigit).getAsInteger(10, number))
        return number;
    }
  return std::nullopt;
}

bool NamePattern::matches(llvm::StringRef name) const {
  if (layers) {
    std::optional<unsigned> layer = layerOf(name);
    return layer && *layer >= layers->first && *layer <= layers->second;
  }
  std::string path = pathOf(name);
  for (size_t end = path.size(); end != std::string::npos;
       end = end ? path.rfind('/', end - 1) : std::string::npos)
    if (end && fits(text, llvm::StringRef(path).take_front(end)))
      return true;
  return false;
}

llvm::Expected<NameRules> NameRules::parse(llvm::StringRef text, bool allowDefault,
                                           llvm::StringRef example) {
  NameRules result;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ';');
  for (llvm::StringRef part : parts) {
    part = part.trim();
    if (part.empty())
      continue;
    if (allowDefault && !part.contains('=')) {
      result.rules.push_back({part.str(), std::nullopt, part.str()});
      continue;
    }
    auto [left, right] = part.rsplit('=');
    left = left.trim();
    right = right.trim();
    if (left.empty() || right.empty())
      return llvm::createStringError("the rule '" + part + "' is not of the form " + example);
    llvm::Expected<NamePattern> pattern = NamePattern::parse(left);
    if (!pattern)
      return pattern.takeError();
    result.rules.push_back({part.str(), std::move(*pattern), right.str()});
  }
  return result;
}

const NameRules::Rule *NameRules::find(llvm::ArrayRef<llvm::StringRef> names) {
  const Rule *found = nullptr;
  for (Rule &rule : rules)
    if (!rule.pattern ||
        llvm::any_of(names, [&](llvm::StringRef name) { return rule.pattern->matches(name); })) {
      rule.used = true;
      found = &rule;
    }
  return found;
}

llvm::SmallVector<llvm::StringRef> nodesOf(mlir::Operation *op) {
  llvm::SmallVector<llvm::StringRef> names;
  op->getLoc()->walk([&](mlir::Location inner) {
    if (auto named = dyn_cast<mlir::NameLoc>(inner))
      names.push_back(named.getName().getValue());
    return mlir::WalkResult::advance();
  });
  return names;
}

} // namespace llmc
