// SPDX-License-Identifier: Apache-2.0
//
// Registration and verifiers of the `onnx` dialect. The verifiers check only
// that an op's parts fit together, never what a node means.
#include "compiler/ir/onnx/OnnxDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace llmc::onnx;

#include "compiler/ir/onnx/OnnxDialectDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/ir/onnx/OnnxDialectTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/onnx/OnnxDialectAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/ir/onnx/OnnxDialect.cpp.inc"

void OnnxDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/ir/onnx/OnnxDialectTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/ir/onnx/OnnxDialectAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/ir/onnx/OnnxDialect.cpp.inc"
      >();
}

LogicalResult NodeOp::verify() {
  if (getOutputNames().size() != getOutputs().size())
    return emitOpError("has ") << getOutputs().size() << " results but " << getOutputNames().size()
                               << " output names";
  if (getRegionNames().size() != getBodies().size())
    return emitOpError("has ") << getBodies().size() << " regions but " << getRegionNames().size()
                               << " region names";
  for (Region &body : getBodies())
    if (body.front().empty() || !isa<YieldOp>(body.front().back()))
      return emitOpError("has a region that does not end with onnx.yield");
  return success();
}

LogicalResult WeightOp::verify() {
  ElementsAttr value = getValueAttr();
  if (value && value.getType() != getType())
    return emitOpError("has a value of type ")
           << value.getType() << " but a result of type " << getType();
  if (!value && getKey().empty())
    return emitOpError("needs a key or a value");
  if (!getType().hasStaticShape())
    return emitOpError("needs a static shape, not ") << getType();
  return success();
}
