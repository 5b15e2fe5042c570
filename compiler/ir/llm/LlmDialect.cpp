// SPDX-License-Identifier: Apache-2.0
//
// Registration of the `llm` dialect, and the text form of its size
// expressions: sums of products of the symbols s0, s1, ….
#include "compiler/ir/llm/LlmDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc::llm;

#include "compiler/ir/llm/LlmOpsDialect.cpp.inc"
#include "compiler/ir/llm/LlmOpsEnums.cpp.inc"

/// More symbols than any model needs; a bound keeps hostile text from costing memory.
static constexpr unsigned kMaxSymbols = 4096;

static ParseResult parseExpr(AsmParser &parser, AffineExpr &expr);

/// A term: integer or symbol, or a product of such.
static ParseResult parseFactor(AsmParser &parser, AffineExpr &expr) {
  MLIRContext *context = parser.getContext();
  int64_t value = 0;
  OptionalParseResult integer = parser.parseOptionalInteger(value);
  if (integer.has_value()) {
    expr = getAffineConstantExpr(value, context);
    return *integer;
  }
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  unsigned position = 0;
  if (!keyword.consume_front("s") || keyword.getAsInteger(10, position) || position >= kMaxSymbols)
    return parser.emitError(loc, "expected a size symbol s0, s1, …");
  expr = getAffineSymbolExpr(position, context);
  return success();
}

static ParseResult parseTerm(AsmParser &parser, AffineExpr &expr) {
  if (parseFactor(parser, expr))
    return failure();
  while (succeeded(parser.parseOptionalStar())) {
    AffineExpr factor;
    if (parseFactor(parser, factor))
      return failure();
    expr = expr * factor;
  }
  return success();
}

static ParseResult parseExpr(AsmParser &parser, AffineExpr &expr) {
  if (parseTerm(parser, expr))
    return failure();
  while (succeeded(parser.parseOptionalPlus())) {
    AffineExpr term;
    if (parseTerm(parser, term))
      return failure();
    expr = expr + term;
  }
  return success();
}

static ParseResult parseExprList(AsmParser &parser, SmallVectorImpl<AffineExpr> &exprs) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&]() { return parseExpr(parser, exprs.emplace_back()); });
}

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<AffineExpr> exprs;
  if (parser.parseLess() || parseExprList(parser, exprs) || parser.parseGreater())
    return {};
  return DimsAttr::get(parser.getContext(), exprs);
}

static void printFactors(AffineExpr expr, raw_ostream &os) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    os << constant.getValue();
    return;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    os << 's' << symbol.getPosition();
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  printFactors(binary.getLHS(), os);
  os << (binary.getKind() == AffineExprKind::Mul ? " * " : " + ");
  printFactors(binary.getRHS(), os);
}

static void printExprList(AsmPrinter &printer, ArrayRef<AffineExpr> exprs) {
  printer << '[';
  llvm::interleaveComma(exprs, printer,
                        [&](AffineExpr expr) { printFactors(expr, printer.getStream()); });
  printer << ']';
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printExprList(printer, getExprs());
  printer << '>';
}

static ParseResult parseSymbolOperands(AsmParser &parser, DimsAttr &operands) {
  SmallVector<AffineExpr> exprs;
  if (parseExprList(parser, exprs))
    return failure();
  operands = DimsAttr::get(parser.getContext(), exprs);
  return success();
}

static void printSymbolOperands(AsmPrinter &printer, DimsAttr operands) {
  printExprList(printer, operands.getExprs());
}

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/llm/LlmOpsAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/ir/llm/LlmOpsTypes.cpp.inc"

void LlmDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/ir/llm/LlmOpsAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/ir/llm/LlmOpsTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/ir/llm/LlmOps.cpp.inc"
      >();
}
