// SPDX-License-Identifier: Apache-2.0
//
// dim_params are opaque texts. Plain names come first, so that composite ones
// (`past_sequence_length + sequence_length`) can be read in terms of them. The
// dynamo exporter gives each cache tensor its own name for the length of the
// past; a family of caches is taken to have one.
#include "compiler/onnx/LegalizerInputs.h"

#include "compiler/ir/onnx/OnnxDialect.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;

namespace llmc::onnx {
namespace {

/// One argument's dims: an integer, or a text ("" when undeclared).
struct Declared {
  std::string name;
  RankedTensorType type;
  SmallVector<std::string, 4> texts;
};

bool isNameChar(char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }

bool isPlain(StringRef text) {
  return !text.empty() && (llvm::isAlpha(text[0]) || text[0] == '_') &&
         llvm::all_of(text, isNameChar);
}

/// What the names of all caches of a model have in common: no numbers, no key or value.
std::string familyOf(StringRef name) {
  std::string family;
  std::string word;
  auto flush = [&] {
    bool number = llvm::all_of(word, llvm::isDigit);
    bool half = word == "key" || word == "value" || word == "keys" || word == "values" ||
                word == "k" || word == "v";
    if (!number && !half)
      family += "." + word;
    word.clear();
  };
  for (char c : name) {
    if (llvm::isAlnum(c))
      word += llvm::toLower(c);
    else
      flush();
  }
  flush();
  return family;
}

/// Texts with the names of one family's sizes replaced by those of its first member.
void unifyCaches(MutableArrayRef<Declared> inputs) {
  std::map<std::string, SmallVector<Declared *>> families;
  for (Declared &input : inputs)
    if (input.type && input.type.getRank() >= 3 && isa<FloatType>(input.type.getElementType()))
      families[familyOf(input.name)].push_back(&input);
  llvm::StringMap<std::string> alias;
  for (auto &[family, members] : families)
    for (Declared *member : ArrayRef(members).drop_front()) {
      Declared &first = *members.front();
      if (member->texts.size() != first.texts.size())
        continue;
      for (auto [text, with] : llvm::zip_equal(member->texts, first.texts))
        if (text != with && isPlain(text) && isPlain(with))
          alias.try_emplace(text, with);
    }
  for (Declared &input : inputs)
    for (std::string &text : input.texts) {
      std::string renamed;
      for (size_t i = 0; i < text.size();) {
        size_t end = i;
        while (end < text.size() && isNameChar(text[end]))
          ++end;
        StringRef word = StringRef(text).slice(i, end);
        // Chains end, as every name points to an earlier input's.
        for (unsigned hops = 0; hops < alias.size(); ++hops) {
          auto found = alias.find(word);
          if (found == alias.end())
            break;
          word = found->second;
        }
        renamed += word;
        if (end < text.size())
          renamed += text[end++];
        i = end;
      }
      text = renamed;
    }
}

} // namespace

std::optional<SmallVector<Sizes>> inputDims(func::FuncOp function, llm::Symbols &symbols) {
  SmallVector<Declared> inputs;
  bool complete = true;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    Declared &input = inputs.emplace_back();
    if (auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr))
      input.name = name.getValue();
    Type type = function.getArgument(i).getType();
    input.type = dyn_cast<RankedTensorType>(type);
    if (isa<UnrankedTensorType>(type)) {
      emitError(function.getArgument(i).getLoc())
          << "[LLMC1210] input '" << input.name << "' has no declared shape";
      complete = false;
    }
    if (!input.type)
      continue;
    auto dims = function.getArgAttrOfType<ArrayAttr>(i, kDimsAttr);
    for (auto [d, size] : llvm::enumerate(input.type.getShape())) {
      std::string &text = input.texts.emplace_back();
      if (!ShapedType::isDynamic(size))
        text = std::to_string(size);
      else if (dims && d < dims.size())
        if (auto param = dyn_cast<StringAttr>(dims[d]))
          text = param.getValue().trim();
    }
  }
  if (!complete)
    return std::nullopt;
  unifyCaches(inputs);

  for (Declared &input : inputs)
    for (StringRef text : input.texts)
      if (isPlain(text))
        symbols.named(text);
  SmallVector<Sizes> all;
  for (Declared &input : inputs) {
    Sizes &dims = all.emplace_back();
    for (auto [d, text] : llvm::enumerate(input.texts))
      dims.push_back(text.empty() ? symbols.named(input.name + "[" + std::to_string(d) + "]")
                                  : symbols.parse(text, /*onlyKnown=*/true));
  }
  return all;
}

void renameAttributes(func::FuncOp function) {
  Builder builder(function.getContext());
  auto textsOf = [&](ArrayAttr dims) {
    SmallVector<StringRef> texts;
    SmallVector<std::string> owned(dims.size());
    for (auto [dim, number] : llvm::zip_equal(dims, owned))
      if (auto integer = dyn_cast<IntegerAttr>(dim)) {
        number = std::to_string(integer.getInt());
        texts.push_back(number);
      } else {
        auto text = dyn_cast<StringAttr>(dim);
        texts.push_back(text ? text.getValue() : StringRef());
      }
    return builder.getStrArrayAttr(texts);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (Attribute name = function.removeArgAttr(i, kNameAttr))
      function.setArgAttr(i, kLlmNameAttr, name);
    if (auto dims = dyn_cast_or_null<ArrayAttr>(function.removeArgAttr(i, kDimsAttr)))
      function.setArgAttr(i, kLlmDimNamesAttr, textsOf(dims));
    function.removeArgAttr(i, kTypeAttr);
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (Attribute name = function.removeResultAttr(i, builder.getStringAttr(kNameAttr)))
      function.setResultAttr(i, kLlmNameAttr, name);
    if (auto dims = dyn_cast_or_null<ArrayAttr>(
            function.removeResultAttr(i, builder.getStringAttr(kDimsAttr))))
      function.setResultAttr(i, kLlmDimNamesAttr, textsOf(dims));
    function.removeResultAttr(i, builder.getStringAttr(kTypeAttr));
  }
}

} // namespace llmc::onnx
