// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of exporters' input and output names, in one table.
#include "compiler/ir/llm/Dims.h"
#include "passes/Passes.h"

#include "llvm/ADT/StringExtras.h"

namespace llmc {

#define GEN_PASS_DEF_ASSIGNROLES
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

struct NamedRole {
  llvm::StringLiteral name;
  llvm::StringLiteral role;
};
constexpr NamedRole kInputRoles[] = {
    {"attention_mask", "mask"},    {"cache_position", "cache_position"},
    {"input_ids", "ids"},          {"inputs_embeds", "embeddings"},
    {"position_ids", "positions"}, {"use_cache_branch", "use_cache"},
};

/// A cache tensor's name without what tells past from present: its kind and numbers remain.
/// "past_key_values.3.key" and "present.3.key" both give "3.key"; empty when it is no cache name.
std::string cacheKey(StringRef name, bool input) {
  name.consume_front("input.");
  name.consume_front("output.");
  static constexpr llvm::StringLiteral kInputPrefixes[] = {"past_key_values", "past_key_self",
                                                           "past_value_self", "past"};
  static constexpr llvm::StringLiteral kOutputPrefixes[] = {
      "present_key_values", "present_key_self", "present_value_self", "present", "past_key_values"};
  for (StringRef prefix : input ? ArrayRef(kInputPrefixes) : ArrayRef(kOutputPrefixes)) {
    StringRef rest = name;
    if (!rest.consume_front(prefix) || !rest.consume_front_insensitive("."))
      if (rest = name, !(rest.consume_front(prefix) && rest.consume_front("_")))
        continue;
    // The self-attention tensors of a whisper-like file differ by the prefix alone.
    return (prefix.contains("value_self") ? "value:" : "") + rest.lower();
  }
  return {};
}

struct AssignRolesPass : impl::AssignRolesBase<AssignRolesPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        assign(function);
  }

private:
  void assign(func::FuncOp function);
};

StringRef nameOfInput(func::FuncOp function, unsigned i) {
  auto name = function.getArgAttrOfType<StringAttr>(i, "llm.name");
  return name ? name.getValue() : StringRef();
}
StringRef nameOfOutput(func::FuncOp function, unsigned i) {
  auto name = dyn_cast_or_null<StringAttr>(function.getResultAttr(i, "llm.name"));
  return name ? name.getValue() : StringRef();
}

/// The dimension in which a present is longer than its past, if exactly one differs.
std::optional<unsigned> growingAxis(Type past, Type present) {
  SmallVector<AffineExpr> before = llm::dimsOf(past), after = llm::dimsOf(present);
  std::optional<unsigned> axis;
  if (before.size() != after.size())
    return std::nullopt;
  for (unsigned i = 0; i < before.size(); ++i)
    if (before[i] != after[i]) {
      if (axis)
        return std::nullopt;
      axis = i;
    }
  return axis;
}

void AssignRolesPass::assign(func::FuncOp function) {
  OpBuilder b(&getContext());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    for (const NamedRole &known : kInputRoles)
      if (nameOfInput(function, i) == known.name)
        function.setArgAttr(i, "llm.role", b.getStringAttr(known.role));
  for (unsigned o = 0; o < function.getNumResults(); ++o) {
    StringRef name = nameOfOutput(function, o);
    if (name == "logits")
      function.setResultAttr(o, "llm.role", b.getStringAttr("logits"));
    std::string key = cacheKey(name, /*input=*/false);
    if (key.empty())
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (cacheKey(nameOfInput(function, i), /*input=*/true) != key)
        continue;
      std::optional<unsigned> axis =
          growingAxis(function.getArgument(i).getType(), function.getResultTypes()[o]);
      if (!axis)
        continue;
      function.setArgAttr(i, "llm.role", b.getStringAttr("past"));
      function.setArgAttr(i, "llm.pair", b.getI64IntegerAttr(o));
      function.setArgAttr(i, "llm.cache_axis", b.getI64IntegerAttr(*axis));
      function.setResultAttr(o, "llm.role", b.getStringAttr("present"));
      function.setResultAttr(o, "llm.pair", b.getI64IntegerAttr(i));
      function.setResultAttr(o, "llm.cache_axis", b.getI64IntegerAttr(*axis));
      break;
    }
  }
}

} // namespace
} // namespace llmc
