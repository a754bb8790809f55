// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The onnx dialect: the first IR level, an ONNX graph as the file states it. Written by import,
// consumed by raise.
#pragma once

#include "dialects/onnx/OnnxDialect.h.inc"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_TYPEDEF_CLASSES
#include "dialects/onnx/OnnxTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/onnx/OnnxAttrs.h.inc"

#define GET_OP_CLASSES
#include "dialects/onnx/OnnxOps.h.inc"

namespace sluicec::onnx {

/// What a FileLineColLoc's line counts: `FileLineColLoc(file, index, kind)`.
enum class LocationKind : unsigned {
  Node = 0,
  Tensor = 1,
  GraphInput = 2,
  GraphOutput = 3,
  File = 4
};

/// NameLoc(name, FileLineColLoc(file, index, kind)); a nameless thing is called "<unnamed>".
mlir::Location makeLocation(mlir::MLIRContext *context, llvm::StringRef file, llvm::StringRef name,
                            unsigned index, LocationKind kind);

/// Attribute names on functions, their arguments and the module.
constexpr llvm::StringLiteral kNameAttr = "onnx.name"; // argument or result: StrAttr
constexpr llvm::StringLiteral kOpsetAttr =
    "onnx.opset"; // module: {"ai.onnx" = 20, "com.microsoft" = 1}
constexpr llvm::StringLiteral kIrVersionAttr = "onnx.ir_version"; // module: i64
constexpr llvm::StringLiteral kProducerAttr = "onnx.producer";    // module: StrAttr, "name version"
constexpr llvm::StringLiteral kFileAttr =
    "onnx.file"; // module: StrAttr, the file's name without folder

/// The values of a constant, null where `value` is anything else (also a weight: its bytes are in
/// the WeightStore).
mlir::ElementsAttr constantValue(mlir::Value value);

/// The WeightStore key of a weight, or of a constant that came from the file; "" otherwise.
llvm::StringRef weightName(mlir::Value value);

/// True for an absent optional operand (also for a null value).
bool isNone(mlir::Value value);

} // namespace sluicec::onnx
