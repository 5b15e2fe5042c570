// SPDX-License-Identifier: Apache-2.0
//
// Registration of the `rt` dialect.
#include "compiler/ir/rt/RtDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace llmc::rt;

#include "compiler/ir/rt/RtOpsDialect.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/ir/rt/RtOps.cpp.inc"

void RtDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/ir/rt/RtOps.cpp.inc"
      >();
}
