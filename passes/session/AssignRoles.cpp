// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of exporters' input and output names, in one table.
#include "compiler/ir/llm/Symbols.h"
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
  /// For exports whose outputs have no telling names: a present is the concatenation of its past
  /// with something, and logits are what is left with a row for each token id.
  void assignByStructure(func::FuncOp function);
  void pair(func::FuncOp function, unsigned input, unsigned output, unsigned axis);
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
std::optional<unsigned> growingAxis(Type past, Type present, const llm::Symbols &symbols) {
  SmallVector<AffineExpr> before = llm::dimsOf(past), after = llm::dimsOf(present);
  std::optional<unsigned> axis;
  if (before.size() != after.size())
    return std::nullopt;
  for (unsigned i = 0; i < before.size(); ++i)
    if (symbols.checked(before[i]) != symbols.checked(after[i])) {
      if (axis)
        return std::nullopt;
      axis = i;
    }
  return axis;
}

/// Whether a role, which may be absent, is `name`.
bool is(Attribute role, StringRef name) {
  auto text = dyn_cast_or_null<StringAttr>(role);
  return text && text.getValue() == name;
}

void AssignRolesPass::pair(func::FuncOp function, unsigned input, unsigned output, unsigned axis) {
  OpBuilder b(&getContext());
  function.setArgAttr(input, "llm.role", b.getStringAttr("past"));
  function.setArgAttr(input, "llm.pair", b.getI64IntegerAttr(output));
  function.setArgAttr(input, "llm.cache_axis", b.getI64IntegerAttr(axis));
  function.setResultAttr(output, "llm.role", b.getStringAttr("present"));
  function.setResultAttr(output, "llm.pair", b.getI64IntegerAttr(input));
  function.setResultAttr(output, "llm.cache_axis", b.getI64IntegerAttr(axis));
}

void AssignRolesPass::assignByStructure(func::FuncOp function) {
  llm::Symbols symbols(getOperation());
  OpBuilder b(&getContext());
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  std::optional<SmallVector<AffineExpr>> ids;
  bool hasLogits = false;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (is(function.getArgAttr(i, "llm.role"), "ids"))
      ids = llm::dimsOf(function.getArgument(i).getType());
  for (auto [o, value] : llvm::enumerate(terminator.getOperands())) {
    hasLogits |= is(function.getResultAttr(o, "llm.role"), "logits");
    auto concat = value.getDefiningOp<llm::ConcatOp>();
    auto past = concat ? dyn_cast<BlockArgument>(concat.getInputs().front()) : BlockArgument();
    if (!past || function.getResultAttr(o, "llm.role") ||
        function.getArgAttr(past.getArgNumber(), "llm.role"))
      continue;
    if (std::optional<unsigned> axis = growingAxis(past.getType(), value.getType(), symbols))
      pair(function, past.getArgNumber(), o, *axis);
  }
  if (hasLogits || !ids || ids->size() != 2)
    return;
  std::optional<unsigned> candidate;
  for (unsigned o = 0; o < function.getNumResults(); ++o) {
    auto type = dyn_cast<RankedTensorType>(function.getResultTypes()[o]);
    if (!type || function.getResultAttr(o, "llm.role") || type.getRank() != 3 ||
        !isa<FloatType>(type.getElementType()))
      continue;
    SmallVector<AffineExpr> dims = llm::dimsOf(type);
    if (dims[0] != (*ids)[0] || dims[1] != (*ids)[1])
      continue;
    if (candidate)
      return; // two would fit: no guess
    candidate = o;
  }
  // A decoder's only such output; an encoder's hidden states have no cache beside them.
  bool hasCache = llvm::any_of(llvm::seq(0u, function.getNumArguments()), [&](unsigned i) {
    return is(function.getArgAttr(i, "llm.role"), "past");
  });
  if (candidate && hasCache)
    function.setResultAttr(*candidate, "llm.role", b.getStringAttr("logits"));
}

void AssignRolesPass::assign(func::FuncOp function) {
  llm::Symbols symbols(getOperation());
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
          growingAxis(function.getArgument(i).getType(), function.getResultTypes()[o], symbols);
      if (!axis)
        continue;
      pair(function, i, o, *axis);
      break;
    }
  }
  assignByStructure(function);
}

} // namespace
} // namespace llmc
