// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds kernel.program and the kernel.funcs it launches: buffers before the first launch, weights
// with their recipes, kernels shared between equal launches. Used by lower-to-kernel.
#pragma once

#include "dialects/kernel/KernelDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

#include <optional>

namespace sluicec::lower {

/// a * b of sizes, or nothing where it is negative or does not fit.
std::optional<int64_t> checkedProduct(std::optional<int64_t> a, std::optional<int64_t> b);

class ProgramBuilder {
public:
  /// Appends `kernel.program @step` to the module.
  explicit ProgramBuilder(mlir::ModuleOp module);

  kernel::ProgramOp program() const { return programOp; }
  mlir::MLIRContext *context() const { return programOp->getContext(); }
  mlir::Type f32() const { return mlir::Float32Type::get(context()); }
  mlir::Type i32() const { return mlir::IntegerType::get(context(), 32); }

  /// count(unit) * perUnit + fixed elements.
  kernel::BufferType bufferType(kernel::Unit unit, int64_t perUnit, int64_t fixed,
                                mlir::Type element) const;

  /// The step's input of that kind; `group` tells whose block table it is. One per (kind, group).
  mlir::Value input(kernel::InputKind kind, int64_t group = 0);
  mlir::Value output(mlir::Location loc, llvm::StringRef name, kernel::BufferType type);
  mlir::Value cache(mlir::Location loc, int64_t group, lm::CacheType layout, int64_t blockTokens,
                    int64_t blockElements);
  mlir::Value workspace(mlir::Location loc, kernel::BufferType type);

  /// The weight that `recipe` (a value of recipe operations anywhere in the module) gives, in that
  /// layout; `elements` is the buffer's size. The recipe is copied into the program once.
  mlir::Value weight(mlir::Value recipe, kernel::LayoutAttr layout, int64_t elements);
  /// The same row-major; floats are converted to f32 unless `keepType`.
  mlir::Value plainWeight(mlir::Value recipe, bool keepType = false);
  /// A matrix [.., N, K] in panels of kPanelWidth, gated ones interleaved; fails on the recipe's
  /// location where the size overflows.
  mlir::FailureOr<mlir::Value> panelWeight(mlir::Value recipe, kernel::LayoutAttr layout);
  /// A weight with these values, whoever its recipe's copy serves.
  mlir::Value constantWeight(mlir::Location loc, mlir::DenseElementsAttr values);

  kernel::LayoutAttr panelLayout(bool gated) const;

  /// Launches on `buffers` the kernel whose body `emit` writes on block arguments of the same
  /// types. Equal kernels (grid, body, types) become one function named after `name`.
  void launch(mlir::Location loc, llvm::StringRef name, llvm::ArrayRef<kernel::GridDimAttr> grid,
              mlir::ValueRange buffers,
              llvm::function_ref<void(mlir::OpBuilder &, mlir::ValueRange)> emit);
  void probe(mlir::Location loc, mlir::Value buffer, llvm::StringRef name, int64_t layer);

  /// ceil((count(unit) * perUnit + fixed) / tile) cells.
  kernel::GridDimAttr gridDim(kernel::Unit unit, int64_t perUnit, int64_t fixed,
                              int64_t tile) const;
  /// One cell per row of `buffer`.
  kernel::GridDimAttr rowGrid(mlir::Value buffer) const;

private:
  mlir::ModuleOp module;
  kernel::ProgramOp programOp;
  mlir::Operation *firstLaunch = nullptr; // declarations go before it
  mlir::IRMapping recipes;                // recipe values of the function -> of the program
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> weights;
  llvm::DenseMap<mlir::Value, mlir::Value> convertedRecipes; // to f32
  llvm::DenseMap<std::pair<int, int64_t>, mlir::Value> inputs;
  llvm::StringMap<std::string> kernels; // printed grid and body -> symbol
  llvm::StringMap<unsigned> namesTaken;

  mlir::OpBuilder declarations();
  mlir::OpBuilder launches();
  mlir::Value moveRecipe(mlir::Value recipe);
  mlir::Value declareWeight(mlir::Value movedRecipe, kernel::LayoutAttr layout, int64_t elements);
};

} // namespace sluicec::lower
