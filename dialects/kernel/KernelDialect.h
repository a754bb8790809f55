// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel dialect: programs (buffers and launches) and kernel templates (see KernelBase.td).
#pragma once

#include "dialects/kernel/KernelDialect.h.inc"
#include "dialects/kernel/KernelEnums.h.inc"
#include "dialects/lm/LmDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#define GET_TYPEDEF_CLASSES
#include "dialects/kernel/KernelTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/kernel/KernelAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/kernel/KernelOps.h.inc"
