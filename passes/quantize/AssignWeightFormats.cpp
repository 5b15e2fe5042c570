// SPDX-License-Identifier: Apache-2.0
//
// Only types change here. Values are rounded when the bundle is written, so a
// weight that no op reads in the end costs nothing.
#include "compiler/ir/WeightFormat.h"
#include "compiler/ir/llm/Dims.h"
#include "passes/Passes.h"
#include "passes/rules/NameRules.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace llmc {

#define GEN_PASS_DEF_ASSIGNWEIGHTFORMATS
#include "passes/Passes.h.inc"

using namespace mlir;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool isStoredFloat(RankedTensorType type) {
  Type element = type.getElementType();
  return type.getRank() == 2 && type.getNumElements() > 0 && !type.getEncoding() &&
         (element.isF32() || element.isF16() || element.isBF16());
}

/// The weight that `matmul` multiplies with, if it may be stored in another format.
llm::WeightOp weightOf(llm::MatmulOp matmul) {
  auto weight = matmul.getRhs().getDefiningOp<llm::WeightOp>();
  bool same = typeOf(matmul.getLhs()).getElementType() == typeOf(matmul).getElementType() &&
              typeOf(matmul.getRhs()).getElementType() == typeOf(matmul).getElementType();
  return weight && same && isStoredFloat(typeOf(weight)) ? weight : llm::WeightOp();
}

/// The table that `gather` takes rows of, likewise.
llm::WeightOp weightOf(llm::GatherOp gather) {
  auto weight = gather.getInput().getDefiningOp<llm::WeightOp>();
  return weight && gather.getAxis() == 0 && isStoredFloat(typeOf(weight)) ? weight
                                                                          : llm::WeightOp();
}

class FormatAssigner {
public:
  FormatAssigner(NameRules &rules, llvm::StringMap<WeightFormat> formats)
      : rules(rules), formats(std::move(formats)) {}

  void run(func::FuncOp function);
  ArrayRef<StringRef> names() const { return seen.getArrayRef(); }
  unsigned changed = 0;

private:
  /// The rule for a weight that `user` reads.
  const NameRules::Rule *ruleFor(llm::WeightOp weight, Operation *user);
  Value stored(llm::WeightOp weight, const WeightFormat &format);
  void assign(llm::MatmulOp matmul, llm::WeightOp weight, const WeightFormat &format);
  void assign(llm::GatherOp gather, llm::WeightOp weight, const WeightFormat &format);
  static Value cast(OpBuilder &builder, Location loc, Value value, Type element);

  NameRules &rules;
  llvm::StringMap<WeightFormat> formats; ///< by the text in a rule
  SetVector<StringRef> seen;
  DenseMap<std::pair<Operation *, Type>, Value> storedAs;
};

const NameRules::Rule *FormatAssigner::ruleFor(llm::WeightOp weight, Operation *user) {
  SmallVector<StringRef> names = nodesOf(user);
  names.push_back(weight.getKey());
  seen.insert_range(names);
  return rules.find(names);
}

Value FormatAssigner::stored(llm::WeightOp weight, const WeightFormat &format) {
  RankedTensorType type = withFormat(typeOf(weight), format);
  Value &value = storedAs[{weight, type}];
  if (!value) {
    OpBuilder builder(weight);
    value = llm::WeightOp::create(builder, weight.getLoc(), type, weight.getKeyAttr());
  }
  return value;
}

Value FormatAssigner::cast(OpBuilder &builder, Location loc, Value value, Type element) {
  RankedTensorType type = typeOf(value);
  if (type.getElementType() == element)
    return value;
  return llm::ElementwiseOp::create(builder, loc, llm::tensorOf(llm::dimsOf(type), element),
                                    llm::ElementKind::Cast, value);
}

void FormatAssigner::assign(llm::MatmulOp matmul, llm::WeightOp weight,
                            const WeightFormat &format) {
  OpBuilder builder(matmul);
  Type element = typeOf(matmul).getElementType(), f32 = builder.getF32Type();
  Location loc = matmul.getLoc();
  ++changed;
  if (element.isF32()) {
    matmul.getRhsMutable().assign(stored(weight, format));
    return;
  }
  // Quantized values mean f32, which is also what narrower products are summed in.
  Value lhs = cast(builder, loc, matmul.getLhs(), f32);
  auto product =
      llm::MatmulOp::create(builder, loc, llm::tensorOf(llm::dimsOf(typeOf(matmul)), f32), lhs,
                            stored(weight, format), matmul.getTransposeRhs(), IntegerAttr());
  matmul.replaceAllUsesWith(cast(builder, loc, product, element));
  matmul.erase();
}

void FormatAssigner::assign(llm::GatherOp gather, llm::WeightOp weight,
                            const WeightFormat &format) {
  OpBuilder builder(gather);
  RankedTensorType result = typeOf(gather);
  Value table = stored(weight, format);
  ++changed;
  auto rows = llm::GatherOp::create(
      builder, gather.getLoc(), llm::tensorOf(llm::dimsOf(result), typeOf(table).getElementType()),
      table, gather.getIndices(), gather.getAxis());
  gather.replaceAllUsesWith(cast(builder, gather.getLoc(), rows, result.getElementType()));
  gather.erase();
}

void FormatAssigner::run(func::FuncOp function) {
  // What is stored narrower already stays: `f32` means as the model has it, and f16 to bf16 would
  // lose bits for nothing.
  auto changes = [&](llm::WeightOp weight, const WeightFormat &format) {
    return format.isQuantized() ||
           (format.kind != WeightFormat::Kind::F32 && typeOf(weight).getElementType().isF32());
  };
  DenseMap<Operation *, WeightFormat> ofTables; // by products whose columns are rows of a table
  SmallVector<llm::WeightOp> weights(function.getOps<llm::WeightOp>());
  for (auto matmul : llvm::make_early_inc_range(function.getOps<llm::MatmulOp>())) {
    llm::WeightOp weight = weightOf(matmul);
    const NameRules::Rule *rule = weight ? ruleFor(weight, matmul) : nullptr;
    if (!rule)
      continue;
    const WeightFormat &format = formats[rule->value];
    if (matmul.getTransposeRhs())
      ofTables[weight] = format;
    if (changes(weight, format))
      assign(matmul, weight, format);
  }
  for (auto gather : llvm::make_early_inc_range(function.getOps<llm::GatherOp>())) {
    llm::WeightOp weight = weightOf(gather);
    const NameRules::Rule *rule = weight ? ruleFor(weight, gather) : nullptr;
    auto product = ofTables.find(weight);
    if (rule && rule->pattern) {
      if (changes(weight, formats[rule->value]))
        assign(gather, weight, formats[rule->value]);
    } else if (product != ofTables.end() && changes(weight, product->second)) {
      assign(gather, weight, product->second);
    }
  }
  for (llm::WeightOp weight : weights)
    if (weight.use_empty())
      weight.erase();
}

/// Up to three names that are nearest to what was written.
std::string nearNames(StringRef text, ArrayRef<StringRef> names) {
  StringRef pattern = text.rsplit('=').first.trim();
  std::string plain;
  for (char c : pattern)
    if (c != '*')
      plain += c;
  SmallVector<std::pair<unsigned, StringRef>> ranked;
  for (StringRef name : names)
    ranked.push_back({name.contains(plain) ? 0 : name.edit_distance(plain), name});
  llvm::sort(ranked);
  std::string list;
  for (auto &[distance, name] : ArrayRef(ranked).take_front(3))
    list += (list.empty() ? "'" : ", '") + name.str() + "'";
  return list;
}

struct AssignWeightFormatsPass : impl::AssignWeightFormatsBase<AssignWeightFormatsPass> {
  using AssignWeightFormatsBase::AssignWeightFormatsBase;

  void runOnOperation() override {
    llvm::Expected<NameRules> rules = NameRules::parse(
        this->rules, /*allowDefault=*/true, "FORMAT or PATTERN=FORMAT, e.g. *.down_proj=int8");
    llvm::StringMap<WeightFormat> formats;
    auto refuse = [&](llvm::Error error) {
      getOperation().emitError("[LLMC1520] weights: ") << llvm::toString(std::move(error));
      signalPassFailure();
    };
    if (!rules)
      return refuse(rules.takeError());
    for (const NameRules::Rule &rule : rules->all()) {
      llvm::Expected<WeightFormat> format = WeightFormat::parse(rule.value);
      if (!format)
        return refuse(format.takeError());
      formats[rule.value] = *format;
    }
    FormatAssigner assigner(*rules, std::move(formats));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        assigner.run(function);
    numChanged = assigner.changed;
    for (const NameRules::Rule &rule : rules->all())
      if (!rule.used && rule.value != "f32") {
        std::string near = nearNames(rule.text, assigner.names());
        getOperation().emitError("[LLMC1522] weights: the rule '")
            << rule.text << "' matches no weight of a product or table"
            << (near.empty() ? " (the model has none)" : "; near names are " + near);
        signalPassFailure();
      }
  }
};

} // namespace
} // namespace llmc
