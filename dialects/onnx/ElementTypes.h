// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX element types (TensorProto.DataType) as MLIR types: the one table of their numbers, names
// and widths.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "mlir/IR/Types.h"

#include <cstdint>

namespace sluicec::onnx {

/// The MLIR element type of TensorProto.DataType `number`: FLOAT f32, INT64 i64 (signless), UINT8
/// ui8, BOOL i1, STRING !onnx.string, INT4 i4, …; null for an unknown or unsupported number
/// (UNDEFINED, FLOAT6*).
mlir::Type elementTypeFromNumber(mlir::MLIRContext *context, int64_t number);
/// The reverse; 0 for a type that ONNX does not have.
int64_t numberFromElementType(mlir::Type type);
/// "FLOAT", "INT4", "" for an unknown number: as ONNX writes it.
llvm::StringRef elementTypeName(int64_t number);
/// How diagnostics write the type: "f32", "i64", "string".
std::string elementTypeText(mlir::Type type);
/// Bits of one element as ONNX stores raw data (bool 8, int4 4); 0 for strings.
unsigned storageBits(mlir::Type type);

} // namespace sluicec::onnx
