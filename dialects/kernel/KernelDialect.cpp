// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers the kernel dialect and verifies programs, launches and kernels.
#include "dialects/kernel/KernelDialect.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;

#include "dialects/kernel/KernelDialect.cpp.inc"
#include "dialects/kernel/KernelEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/kernel/KernelTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/kernel/KernelAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/kernel/KernelOps.cpp.inc"

namespace sluicec::kernel {

void KernelDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/kernel/KernelTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/kernel/KernelAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/kernel/KernelOps.cpp.inc"
      >();
}

LogicalResult WeightOp::verify() {
  auto recipe = cast<RankedTensorType>(getRecipe().getType());
  BufferType buffer = getResult().getType();
  int64_t width = getLayout().getWidth();
  if (buffer.getUnit() != Unit::Fixed || buffer.getElement() != recipe.getElementType()) {
    return emitOpError() << "gives " << buffer << " for a recipe of " << recipe;
  }
  if (getLayout().getKind() == LayoutKind::Plain) {
    return buffer.getFixed() == recipe.getNumElements()
               ? success()
               : emitOpError() << "plain layout of " << recipe << " has " << recipe.getNumElements()
                               << " elements, the buffer " << buffer.getFixed();
  }
  if (recipe.getRank() < 2 || width < 1) {
    return emitOpError("panels need a matrix and a positive width");
  }
  int64_t n = recipe.getDimSize(recipe.getRank() - 2), k = recipe.getDimSize(recipe.getRank() - 1);
  int64_t outer = n * k == 0 ? 0 : recipe.getNumElements() / (n * k);
  int64_t expected = outer * ((n + width - 1) / width) * width * k;
  if (getLayout().getKind() == LayoutKind::GatedPanel) {
    int64_t half = width / 2;
    expected = outer * ((n / 2 + half - 1) / half) * width * k;
  }
  return buffer.getFixed() == expected ? success()
                                       : emitOpError() << "expected " << expected
                                                       << " elements in panels, the buffer has "
                                                       << buffer.getFixed();
}

LogicalResult FuncOp::verify() {
  for (Type t : getBody().getArgumentTypes()) {
    if (!isa<BufferType>(t)) {
      return emitOpError() << "takes " << t << ", expected buffers";
    }
  }
  if (getBody().front().empty()) {
    return emitOpError("has no template operation");
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &table) {
  for (FlatSymbolRefAttr name : {getCalleeAttr(), getFewAttr()}) {
    if (!name) {
      continue;
    }
    // The program is itself no symbol table: kernels stand beside it in the module.
    auto func = table.lookupNearestSymbolFrom<FuncOp>((*this)->getParentOp(), name);
    if (!func) {
      return emitOpError() << name << " is no kernel of this module";
    }
    if (func.getBody().getArgumentTypes() != getBuffers().getTypes()) {
      return emitOpError() << "buffers do not have the types that " << name << " takes";
    }
  }
  return success();
}

} // namespace sluicec::kernel
