// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transcendental functions as polynomials, since a kernel calls nothing. Used by all CPU templates.
//
// The coefficients are minimax fits (Lawson's weighted least squares) of the named functions;
// errors were measured against f64 in test/compiler/codegen/cpu/VectorMathTest.cpp.
#pragma once

#include "compiler/codegen/cpu/KernelBuilder.h"

namespace sluicec::cpu {

/// e^x of f32 scalars or vectors: within 1 ulp or so; 1 at 0, 0 below -104, inf above 88.8, NaN for
/// NaN.
Value emitExp(KernelBuilder &b, Value x);
/// tanh, within 2 ulp.
Value emitTanh(KernelBuilder &b, Value x);
/// The error function, within 2 ulp.
Value emitErf(KernelBuilder &b, Value x);
/// 1 / (1 + e^-x).
Value emitSigmoid(KernelBuilder &b, Value x);
/// kind(g) * (u + beta) with both clamped; see #lm.gated.
Value emitGated(KernelBuilder &b, lm::GatedActivationAttr activation, Value gate, Value up);
/// cos and sin of f32 angles below 2^24, to 1e-7 absolutely. Reduced and evaluated in f64.
std::pair<Value, Value> emitCosSin(KernelBuilder &b, Value angle);

} // namespace sluicec::cpu
