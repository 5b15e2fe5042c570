// SPDX-License-Identifier: Apache-2.0
//
// The tensor dialect in which every model is optimised: one op per idea,
// whatever the exporter called it.
#ifndef LLMC_COMPILER_IR_LLM_DIALECT_TD
#define LLMC_COMPILER_IR_LLM_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Llm_Dialect : Dialect {
  let name = "llm";
  let cppNamespace = "::llmc::llm";
  let summary = "Tensor operations of large models";
  let description = [{
    Values are ranked tensors. A dynamic dimension always says which run-time
    size it is: the tensor's encoding `#llm.dims<[s0, s0 + s1, 64]>` gives one
    expression per dimension over the module's symbols (`llm.symbols`), so that
    equal types mean equal shapes. Fully static tensors have no encoding.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

class Llm_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Llm_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Llm_DimsAttr : Llm_Attr<"Dims", "dims"> {
  let summary = "A list of size expressions";
  let description = [{
    Each element is a polynomial in the module's symbols with integer
    coefficients: `#llm.dims<[s0, s1 + s2, 64]>`. Division, remainder, minimum,
    maximum and broadcasting are symbols of their own (`#llm.symbol`), which
    keeps equality of expressions a comparison of pointers.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::AffineExpr">:$exprs);
  let hasCustomAssemblyFormat = 1;
}

def Llm_SymbolKind : I32EnumAttr<"SymbolKind", "how a symbol gets its value", [
    I32EnumAttrCase<"Input", 0, "input">,
    I32EnumAttrCase<"FloorDiv", 1, "floordiv">,
    I32EnumAttrCase<"Mod", 2, "mod">,
    I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"Max", 4, "max">,
    I32EnumAttrCase<"Broadcast", 5, "broadcast">,
    I32EnumAttrCase<"SessionSeq", 6, "session_seq">,
    I32EnumAttrCase<"SessionPast", 7, "session_past">]> {
  let cppNamespace = "::llmc::llm";
}

def Llm_SymbolAttr : Llm_Attr<"Symbol", "symbol"> {
  let summary = "A run-time size";
  let description = [{
    `#llm.symbol<"batch_size", input>` is the size of some input's dimension;
    `#llm.symbol<"d4", min, [s0, 512]>` is computed from other symbols. All
    sizes are at least 0.
  }];
  let parameters = (ins StringRefParameter<"name">:$name, "::llmc::llm::SymbolKind":$kind,
                        OptionalParameter<"::llmc::llm::DimsAttr">:$operands);
  let assemblyFormat = "`<` $name `,` $kind (`,` custom<SymbolOperands>($operands)^)? `>`";
}

def Llm_CheckKind : I32EnumAttr<"CheckKind", "a condition on sizes", [
    I32EnumAttrCase<"Eq", 0, "eq">, I32EnumAttrCase<"Le", 1, "le">]> {
  let cppNamespace = "::llmc::llm";
}

def Llm_CheckAttr : Llm_Attr<"Check", "check"> {
  let summary = "A condition that every call must meet";
  let description = [{
    `#llm.check<le, [s0, 1024], "…">`: the first size is at most the second.
    The runtime refuses the call with the message otherwise.
  }];
  let parameters = (ins "::llmc::llm::CheckKind":$kind, "::llmc::llm::DimsAttr":$sides,
                        StringRefParameter<"message">:$message);
  let assemblyFormat = "`<` $kind `,` custom<SymbolOperands>($sides) `,` $message `>`";
}

def Llm_KvType : TypeDef<Llm_Dialect, "Kv"> {
  let mnemonic = "kv";
  let summary = "One layer's keys or values of one sequence, kept between calls";
  let description = [{
    `!llm.kv<4 x 64 x f32>`: heads, head size, element type. The runtime keeps
    it in blocks of 64 tokens, each `(heads, tokens, size)`, or, with `columns = true`,
    `(heads, size, tokens)`.
  }];
  let parameters = (ins "int64_t":$heads, "int64_t":$headSize, "::mlir::Type":$elementType,
                        DefaultValuedParameter<"bool", "false">:$columns);
  let assemblyFormat = "`<` $heads `x` $headSize `x` $elementType (`,` `columns` `=` $columns^)? `>`";
  let builders = [TypeBuilder<(ins "int64_t":$heads, "int64_t":$headSize, "::mlir::Type":$elementType), [{
    return $_get($_ctxt, heads, headSize, elementType, false);
  }]>];
}

#endif // LLMC_COMPILER_IR_LLM_DIALECT_TD
