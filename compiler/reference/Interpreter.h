// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs lm IR in its padded, paged and packed form with plain loops in f64 or f32: the oracle of
// every pass.
#pragma once

#include "compiler/reference/Values.h"
#include "compiler/support/WeightRecipe.h"

#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace sluicec::reference {

/// What was done, for tests that count work instead of measuring time.
struct Work {
  int64_t multiplyAdds = 0;     // of linears, experts' linears included
  int64_t attentionEntries = 0; // cache entries read, summed over rows and layers
  int64_t logitRows = 0;        // rows that lm.logit_rows let through
};

/// Interprets one function of a single block. Operations: all of lm, arith and math on scalars and
/// tensors, linalg.generic, and the tensor operations that raise and the passes emit. Floats are
/// Real whatever their IR type says, except that truncation to f16 or bf16, and storing in a cache
/// of that type, rounds. Weights are evaluated once and kept.
template <typename Real> class Interpreter {
public:
  using Value = RuntimeValue<Real>;
  using ProbeSink = std::function<void(llvm::StringRef name, int64_t layer, const Tensor<Real> &)>;

  Interpreter(mlir::func::FuncOp func, support::WeightResolver resolver);

  /// Called at each lm.probe.
  ProbeSink onProbe;

  /// Runs the function; cache arguments are changed in place, and returned as new versions. Fails,
  /// with a diagnostic on the operation, for an operation that it does not know, sizes that do not
  /// agree while running, a use of a used-up cache value, or an attention that reads a dropped or
  /// unwritten cache entry.
  mlir::FailureOr<std::vector<Value>> run(llvm::ArrayRef<Value> arguments);

  /// Work of all runs so far.
  const Work &work() const { return done; }

private:
  mlir::func::FuncOp func;
  support::WeightResolver resolver;
  llvm::DenseMap<mlir::Value, Value> weights;
  Work done;
};

extern template class Interpreter<double>;
extern template class Interpreter<float>;

} // namespace sluicec::reference
