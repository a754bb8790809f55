// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One run of the interpreter: values by SSA name, and the families of operations that compute them.
// Internal.
#pragma once

#include "compiler/reference/Interpreter.h"

#include <optional>

namespace sluicec::reference {

/// The values of one run.
template <typename Real> struct Frame {
  llvm::DenseMap<mlir::Value, RuntimeValue<Real>> values;
  Work &work;
  const typename Interpreter<Real>::ProbeSink &onProbe;

  const Tensor<Real> &tensor(mlir::Value v) const {
    return *std::get<std::shared_ptr<const Tensor<Real>>>(values.find(v)->second);
  }
  const Batch &batch(mlir::Value v) const {
    return *std::get<std::shared_ptr<const Batch>>(values.find(v)->second);
  }
  CacheValue cache(mlir::Value v) const { return std::get<CacheValue>(values.find(v)->second); }
  void set(mlir::Value v, Tensor<Real> t) { values[v] = asValue(std::move(t)); }
  void setCache(mlir::Value v, CacheValue c) { values[v] = std::move(c); }
};

/// One number: of a float type in `real`, of an integer or index type in `integer`.
template <typename Real> struct Scalar {
  Real real = 0;
  int64_t integer = 0;
};

/// Each family computes the results of an operation that belongs to it: nothing for one that does
/// not, else whether it could (after a diagnostic).
using Evaluated = std::optional<mlir::LogicalResult>;
template <typename Real> Evaluated evaluateTokenWise(mlir::Operation *op, Frame<Real> &frame);
template <typename Real> Evaluated evaluateExperts(mlir::Operation *op, Frame<Real> &frame);
template <typename Real> Evaluated evaluateAttention(mlir::Operation *op, Frame<Real> &frame);
template <typename Real> Evaluated evaluateUpstream(mlir::Operation *op, Frame<Real> &frame);

/// An arith or math operation on scalars; nothing where it is unknown.
template <typename Real>
std::optional<Scalar<Real>> evaluateScalar(mlir::Operation *op,
                                           llvm::ArrayRef<Scalar<Real>> operands);

/// kind(clamp(gate)) * (clamp(up) + beta), see #lm.gated.
template <typename Real>
Real gatedActivation(lm::GatedActivationAttr activation, Real gate, Real up);

/// acc + a * b: one rounding in f32 as the kernels do.
template <typename Real> Real multiplyAdd(Real a, Real b, Real acc);

} // namespace sluicec::reference
