// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small kernel module with weights in a store, for tests of the package writer.
#pragma once

#include "compiler/package/PackageWriter.h"
#include "dialects/kernel/KernelDialect.h"
#include "runtime/package/PackageReader.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sluicec::package {

/// Test with a context, a weight store and a folder of its own.
class PackageFixture : public ::testing::Test {
protected:
  PackageFixture();
  ~PackageFixture() override;

  /// A tensor of pseudo-random bytes in the store (no reader looks at the values).
  void addWeight(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, llvm::StringRef element);
  /// Parses kernel IR; fails the test where it is no valid text.
  void parse(llvm::StringRef text);
  /// An embedding, a router, experts and a head, two cache groups, a probe.
  void parseSmallModel();
  /// Everything of the small model: two code variants, texts, facts.
  PackageInputs smallInputs();

  /// Bytes of element `index` of a stored tensor.
  llvm::StringRef element(llvm::StringRef name, int64_t index) const;
  std::string pathOf(llvm::StringRef file) const { return folder + "/" + file.str(); }
  std::string contentsOf(llvm::StringRef path) const;
  /// Names in the test's folder.
  std::vector<std::string> filesInFolder() const;

  mlir::MLIRContext context;
  support::WeightStore store;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string folder;
  std::vector<CodeVariant> code;
};

} // namespace sluicec::package
