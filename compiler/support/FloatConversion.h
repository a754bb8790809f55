// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion of float elements, rounded to nearest even: weight recipes, the interpreter's caches.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/Types.h"

#include <cstdint>

namespace sluicec::support {

/// The nearest number of a 16-bit format, ties to even; beyond its range infinity; NaN stays NaN.
uint16_t toHalf(double value);     // IEEE binary16: 5 exponent, 10 fraction bits
uint16_t toBfloat16(double value); // 8 exponent, 7 fraction bits
float fromHalf(uint16_t bits);
float fromBfloat16(uint16_t bits);

/// `value` as an element of `type` (f64, f32, f16 or bf16) keeps it.
double roundToElement(double value, mlir::Type type);

/// Decodes elements [0, out.size()) of packed bytes of any float or integer type.
void decodeElements(mlir::Type type, llvm::ArrayRef<char> bytes, llvm::MutableArrayRef<double> out);
void decodeElements(mlir::Type type, llvm::ArrayRef<char> bytes, llvm::MutableArrayRef<float> out);

/// Converts `count` elements of any float or integer type to f64, f32, f16 or bf16. Returns the
/// first finite value that `to` cannot hold (it became infinity) in `overflowed`, and false then;
/// all elements are written either way.
bool convertElements(mlir::Type from, llvm::ArrayRef<char> bytes, mlir::Type to,
                     llvm::MutableArrayRef<char> out, double &overflowed);

} // namespace sluicec::support
