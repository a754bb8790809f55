// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roles of a model function's arguments and results.
#include "compiler/optimize/ModelSignature.h"

using namespace mlir;

namespace sluicec::optimize {

static StringRef roleIn(DictionaryAttr attrs) {
  auto role = attrs ? attrs.getAs<StringAttr>(kRoleAttr) : StringAttr();
  return role ? role.getValue() : StringRef();
}

StringRef argumentRole(func::FuncOp func, unsigned index) {
  return roleIn(func.getArgAttrDict(index));
}

StringRef resultRole(func::FuncOp func, unsigned index) {
  return roleIn(func.getResultAttrDict(index));
}

std::optional<unsigned> findArgument(func::FuncOp func, StringRef role) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    if (argumentRole(func, i) == role) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<unsigned> findResult(func::FuncOp func, StringRef role) {
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    if (resultRole(func, i) == role) {
      return i;
    }
  }
  return std::nullopt;
}

BlockArgument insertArgument(func::FuncOp func, unsigned index, Type type, StringRef role) {
  Builder b(func.getContext());
  auto attrs = b.getDictionaryAttr(b.getNamedAttr(kRoleAttr, b.getStringAttr(role)));
  LogicalResult inserted = func.insertArgument(index, type, attrs, func.getLoc());
  assert(succeeded(inserted) && "a func.func takes any argument");
  (void)inserted;
  return func.getArgument(index);
}

void updateFunctionType(func::FuncOp func) {
  func.setType(FunctionType::get(func.getContext(), func.getBody().front().getArgumentTypes(),
                                 returnOf(func).getOperandTypes()));
}

func::ReturnOp returnOf(func::FuncOp func) {
  return cast<func::ReturnOp>(func.getBody().front().getTerminator());
}

bool isModel(func::FuncOp func) {
  return !func.isExternal() && func.getBody().hasOneBlock() &&
         findArgument(func, "token_ids").has_value();
}

} // namespace sluicec::optimize
