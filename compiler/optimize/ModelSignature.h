// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roles of a model function's arguments and results (`lm.role`), read and written by the passes
// that change the signature.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace sluicec::optimize {

inline constexpr llvm::StringLiteral kRoleAttr = "lm.role";
/// On an argument whose activations became f32: the element type that the file gives it.
inline constexpr llvm::StringLiteral kElementAttr = "lm.element";

/// The role of argument `index`, or "".
llvm::StringRef argumentRole(mlir::func::FuncOp func, unsigned index);
/// The role of result `index`, or "".
llvm::StringRef resultRole(mlir::func::FuncOp func, unsigned index);

/// The only argument of that role; none where there is none.
std::optional<unsigned> findArgument(mlir::func::FuncOp func, llvm::StringRef role);
/// The only result of that role; none where there is none.
std::optional<unsigned> findResult(mlir::func::FuncOp func, llvm::StringRef role);

/// Inserts an argument with that role at `index`.
mlir::BlockArgument insertArgument(mlir::func::FuncOp func, unsigned index, mlir::Type type,
                                   llvm::StringRef role);

/// Gives the function the types that its entry block's arguments and its return's operands have.
void updateFunctionType(mlir::func::FuncOp func);

/// The return of a function of one block.
mlir::func::ReturnOp returnOf(mlir::func::FuncOp func);

/// True for the model: a function with a body and a token_ids argument. Passes leave others alone.
bool isModel(mlir::func::FuncOp func);

} // namespace sluicec::optimize
