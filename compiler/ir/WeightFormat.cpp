// SPDX-License-Identifier: Apache-2.0
//
// One table of names serves parsing, printing and the list in an error.
#include "compiler/ir/WeightFormat.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace llvm;

namespace llmc {
namespace {

using Kind = WeightFormat::Kind;

struct Row {
  StringLiteral name;
  WeightFormat format;
};

/// The first row of a format is how it is printed.
constexpr Row kFormats[] = {
    {"f32", {Kind::F32, 0, false}},
    {"f16", {Kind::F16, 0, false}},
    {"bf16", {Kind::Bf16, 0, false}},
    {"int8", {Kind::Int8, 0, false}},
    {"int4:g32", {Kind::Int4, 32, false}},
    {"int4:g64", {Kind::Int4, 64, false}},
    {"int4:g128", {Kind::Int4, 128, false}},
    {"int4:g32:asym", {Kind::Int4, 32, true}},
    {"int4:g64:asym", {Kind::Int4, 64, true}},
    {"int4:g128:asym", {Kind::Int4, 128, true}},
    {"int4x2:g32", {Kind::Int4x2, 32, false}},
    // Groups of 64 are as fast as 32 for one token, a fifth faster for many, and smaller.
    {"int4", {Kind::Int4, 64, false}},
    {"int4:asym", {Kind::Int4, 64, true}},
    {"int4x2", {Kind::Int4x2, 32, false}},
};

const Row *find(StringRef name) {
  const Row *row = llvm::find_if(kFormats, [&](const Row &row) { return row.name == name; });
  return row == std::end(kFormats) ? nullptr : row;
}

} // namespace

Expected<WeightFormat> WeightFormat::parse(StringRef text) {
  if (const Row *row = find(text.trim()))
    return row->format;
  return createStringError("there is no weight format '" + text.trim() +
                           "'; there are f32, f16, bf16, int8, int4:g32, int4:g64 (also: int4), "
                           "int4:g128, each of int4 also with :asym, and int4x2:g32");
}

std::string WeightFormat::str() const {
  const Row *row = llvm::find_if(kFormats, [&](const Row &row) { return row.format == *this; });
  assert(row != std::end(kFormats) && "formats come from the table");
  return row->name.str();
}

ElementType WeightFormat::elementType() const {
  switch (kind) {
  case Kind::F16:
    return ElementType::F16;
  case Kind::Bf16:
    return ElementType::BF16;
  default:
    return ElementType::F32;
  }
}

std::optional<WeightFormat> formatOf(mlir::Type type) {
  auto tensor = dyn_cast<mlir::RankedTensorType>(type);
  auto name =
      tensor ? dyn_cast_or_null<mlir::StringAttr>(tensor.getEncoding()) : mlir::StringAttr();
  const Row *row = name ? find(name.getValue()) : nullptr;
  return row && row->format.isQuantized() ? std::optional(row->format) : std::nullopt;
}

mlir::RankedTensorType withFormat(mlir::RankedTensorType type, const WeightFormat &format) {
  mlir::MLIRContext *context = type.getContext();
  mlir::Attribute encoding;
  if (format.isQuantized())
    encoding = mlir::StringAttr::get(context, format.str());
  return mlir::RankedTensorType::get(type.getShape(), toMlirType(format.elementType(), context),
                                     encoding);
}

} // namespace llmc
