// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which weights a package holds: equal recipes in equal layouts once, each with its place in the
// weights section, its part in the model and its share of the parameter counts.
#pragma once

#include "dialects/kernel/KernelDialect.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluicec::package {

struct PackagedWeight {
  mlir::Value recipe; // in the program
  kernel::LayoutAttr layout;
  std::string name;      ///< sources of the recipe, for people
  std::string role;      ///< linear, embedding, experts, router, norm, vector
  uint64_t elements = 0; ///< in the package, padding columns included
  uint64_t bytes = 0;
  uint64_t offset = 0; ///< in the weights section, page-aligned
  unsigned elementBytes = 0;

  mlir::RankedTensorType type() const {
    return mlir::cast<mlir::RankedTensorType>(recipe.getType());
  }
};

struct WeightPlan {
  std::vector<PackagedWeight> weights;           ///< by offset
  llvm::DenseMap<mlir::Value, uint32_t> indexOf; ///< result of kernel.weight -> weight
  uint64_t sectionBytes = 0;
  uint64_t parameters = 0;       ///< elements of all different recipes
  uint64_t activeParameters = 0; ///< the same, of experts only the chosen share
};

/// Plans all kernel.weight operations of the program. Error where sizes do not fit 63 bits or an
/// element type has no place in a package.
llvm::Expected<WeightPlan> planWeights(kernel::ProgramOp program);

} // namespace sluicec::package
