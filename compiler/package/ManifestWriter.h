// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest of a package from its program: buffers, launch list, functions, cache groups, model
// facts. Numbers are checked here once; the runtime checks them again.
#pragma once

#include "compiler/package/PackageWriter.h"
#include "compiler/package/PackagedWeights.h"
#include "runtime/package/package_generated.h"

namespace sluicec::package {

/// The manifest's name of an element type; an error where it has none.
llvm::Expected<sluice::manifest::ElementType> elementTypeOf(mlir::Type type);

/// A section as it lies in the file.
struct PlacedSection {
  sluice::manifest::SectionKind kind;
  std::string name;
  uint64_t offset = 0, bytes = 0;
  uint64_t hash = 0;
  std::vector<uint64_t> chunkHashes; // of weights
};

/// The finished FlatBuffer. `sections` holds one code section per variant, in their order, first.
llvm::Expected<std::vector<char>> writeManifest(const PackageInputs &inputs, const WeightPlan &plan,
                                                llvm::ArrayRef<PlacedSection> sections);

} // namespace sluicec::package
