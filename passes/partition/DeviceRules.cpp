// SPDX-License-Identifier: Apache-2.0
//
// Parsing and matching of device rules.
#include "passes/partition/DeviceRules.h"

#include "llvm/ADT/StringExtras.h"

namespace llmc {

llvm::Expected<DeviceRules> DeviceRules::parse(llvm::StringRef text) {
  DeviceRules result;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ';');
  for (llvm::StringRef part : parts) {
    part = part.trim();
    if (part.empty())
      continue;
    auto [pattern, device] = part.rsplit('=');
    pattern = pattern.trim();
    device = device.trim();
    bool named =
        !device.empty() && llvm::isAlpha(device.front()) && llvm::all_of(device, llvm::isAlnum);
    if (pattern.empty() || !named)
      return llvm::createStringError("the rule '" + part +
                                     "' is not of the form PATTERN=DEVICE, e.g. layers[0-3]=cpu0");
    Rule rule{part.str(), pattern.str(), device.str(), std::nullopt};
    llvm::StringRef range = pattern;
    if (range.consume_front("layers[")) {
      auto [first, last] = range.split('-');
      unsigned a = 0, b = 0;
      bool whole = range.consume_back("]");
      std::tie(first, last) = range.split('-');
      if (!whole || first.getAsInteger(10, a) ||
          (range.contains('-') ? last.getAsInteger(10, b) : (b = a, false)) || b < a)
        return llvm::createStringError("'" + pattern +
                                       "' should be layers[N] or layers[FIRST-LAST]");
      rule.layers = {a, b};
    }
    result.rules.push_back(std::move(rule));
  }
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

/// The number of the layer a node stands in: "/model/layers.3/mlp/MatMul", "h.3", "blocks_3".
static std::optional<unsigned> layerOf(llvm::StringRef node) {
  static constexpr llvm::StringLiteral kWords[] = {"layers", "layer", "blocks", "block", "h"};
  for (llvm::StringRef word : kWords)
    for (size_t at = node.find(word); at != llvm::StringRef::npos; at = node.find(word, at + 1)) {
      bool begins = at == 0 || !llvm::isAlnum(node[at - 1]);
      llvm::StringRef rest = node.drop_front(at + word.size());
      unsigned number = 0;
      if (begins && !rest.empty() && llvm::StringRef("._/").contains(rest.front()) &&
          !rest.drop_front().take_while(llvm::isDigit).getAsInteger(10, number))
        return number;
    }
  return std::nullopt;
}

bool DeviceRules::Rule::matches(llvm::StringRef node) const {
  if (!layers)
    return fits(pattern, node);
  std::optional<unsigned> layer = layerOf(node);
  return layer && *layer >= layers->first && *layer <= layers->second;
}

std::optional<std::string> DeviceRules::deviceOf(llvm::StringRef node) {
  std::optional<std::string> device;
  for (Rule &rule : rules)
    if (rule.matches(node)) {
      rule.used = true;
      device = rule.device;
    }
  return device;
}

llvm::SmallVector<std::string> DeviceRules::unused() const {
  llvm::SmallVector<std::string> list;
  for (const Rule &rule : rules)
    if (!rule.used)
      list.push_back(rule.text);
  return list;
}

} // namespace llmc
