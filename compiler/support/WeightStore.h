// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bytes of a model's tensors by name: mapped from files, never copied into the IR. Filled by
// import, read by raise (tables, masks), reference (all) and package (recipes).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Types.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluicec::support {

/// One tensor: row-major elements, little endian, sub-byte types packed low bits first, bool one
/// byte each.
struct WeightTensor {
  mlir::Type elementType;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::ArrayRef<char> bytes; // alive as long as the store

  int64_t numElements() const;
};

/// Bytes that a tensor of `shape` takes; std::nullopt where the product overflows, a size is
/// negative or the type has no storage form.
std::optional<uint64_t> weightBytes(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);

/// Tensors by name. Look-ups may run in parallel with each other and with add; tensors are never
/// removed, so their bytes stay valid. One store belongs to one MLIRContext (its types are that
/// context's).
class WeightStore {
public:
  /// Adds a tensor whose bytes `owner` keeps alive. Error where the name is taken or the size is
  /// not that of type and shape.
  llvm::Error add(llvm::StringRef name, WeightTensor tensor, std::shared_ptr<const void> owner);
  /// Adds a tensor that a pass computed; the store takes the bytes. The name is made unique by a
  /// suffix and returned.
  std::string addComputed(llvm::StringRef name, mlir::Type elementType,
                          llvm::ArrayRef<int64_t> shape, std::vector<char> bytes);

  /// The tensor or null.
  const WeightTensor *find(llvm::StringRef name) const;
  bool contains(llvm::StringRef name) const { return find(name) != nullptr; }
  /// Its bytes; empty where the name is unknown.
  llvm::ArrayRef<char> bytes(llvm::StringRef name) const;
  size_t size() const;

  /// Elements of a float or integer tensor as numbers; std::nullopt where the name is unknown, the
  /// type is not a number, or the tensor has more than `maxElements` (these readers copy: they are
  /// for tables and scalars).
  std::optional<std::vector<float>> readAsF32(llvm::StringRef name,
                                              int64_t maxElements = kReadLimit) const;
  std::optional<std::vector<double>> readAsF64(llvm::StringRef name,
                                               int64_t maxElements = kReadLimit) const;
  /// Elements of an integer or bool tensor.
  std::optional<std::vector<int64_t>> readAsI64(llvm::StringRef name,
                                                int64_t maxElements = kReadLimit) const;
  static constexpr int64_t kReadLimit = int64_t(1) << 24;

  /// The store of a context: import attaches one; without (text given to sluice-opt) it is empty.
  static WeightStore &of(mlir::MLIRContext *context);
  /// Attaches an empty store if there is none. Must run before passes run in parallel; sluice-opt
  /// and import call it.
  static WeightStore &attach(mlir::MLIRContext *context);

private:
  mutable std::mutex mutex;
  llvm::StringMap<std::unique_ptr<WeightTensor>> tensors;
  std::vector<std::shared_ptr<const void>> owners;
};

/// Element `index` of packed bytes as a number, for any float or integer element type. Exact in f64
/// for all but 64-bit integers.
double decodeElement(mlir::Type elementType, llvm::ArrayRef<char> bytes, int64_t index);

} // namespace sluicec::support
