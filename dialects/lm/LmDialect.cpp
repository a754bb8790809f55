// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers the lm dialect's types, attributes and operations.
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include <limits>

using namespace mlir;

#include "dialects/lm/LmDialect.cpp.inc"
#include "dialects/lm/LmEnums.cpp.inc"
#include "dialects/lm/LmInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/lm/LmTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/lm/LmOps.cpp.inc"

namespace sluicec::lm {

void LmDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/lm/LmTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/lm/LmAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/lm/LmOps.cpp.inc"
      >();
}

GatedActivationAttr swigluAttr(MLIRContext *context) {
  Builder b(context);
  return GatedActivationAttr::get(context, ActivationKind::Silu, b.getF64FloatAttr(1.0),
                                  b.getF64FloatAttr(0.0),
                                  b.getF64FloatAttr(std::numeric_limits<double>::infinity()));
}

int64_t featuresOf(Value value) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  assert(!shape.empty() && !ShapedType::isDynamic(shape.back()) && "features are static");
  return shape.back();
}

} // namespace sluicec::lm
