// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lm dialect: types, attributes, interfaces and operations of language models (see LmBase.td
// for its two forms).
#pragma once

#include "dialects/lm/LmDialect.h.inc"
#include "dialects/lm/LmEnums.h.inc"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#define GET_TYPEDEF_CLASSES
#include "dialects/lm/LmTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttrs.h.inc"
#include "dialects/lm/LmInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/lm/LmOps.h.inc"

namespace sluicec::lm {

/// SwiGLU: silu(gate) * up.
GatedActivationAttr swigluAttr(mlir::MLIRContext *context);

/// Features (last dimension) of an activation or weight; asserts that it is static.
int64_t featuresOf(mlir::Value value);

} // namespace sluicec::lm
