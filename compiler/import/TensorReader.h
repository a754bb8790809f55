// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TensorProto → bytes: finds the data of a tensor (external file, model file, typed fields), checks
// sizes, puts it into the WeightStore and makes the op that stands for it.
#pragma once

#include "compiler/import/ContainedFile.h"
#include "compiler/support/WeightStore.h"
#include "dialects/onnx/OnnxDialect.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace onnx {
class TensorProto;
}

namespace sluicec {

/// A tensor with more elements is a weight, one with fewer a constant whose values the IR holds.
constexpr int64_t kMaxInlineIntegers = 4096;
constexpr int64_t kMaxInlineFloats = 256;
/// More dimensions are taken for a damaged file.
constexpr size_t kMaxRank = 16;

class TensorReader {
public:
  /// `model` is the mapped model file, in `folder`; `externalDataRoot` as in ImportOptions.
  TensorReader(support::WeightStore &store, std::shared_ptr<const MappedFile> model,
               std::string folder, std::string externalDataRoot);

  /// Adds the tensor to the store under `key` (made unique if `isScoped`) and creates an
  /// onnx.constant or onnx.weight. Errors at `location`: type, rank, sizes, missing or escaping
  /// data, a name that is taken.
  mlir::FailureOr<mlir::Value> create(mlir::OpBuilder &builder, const ::onnx::TensorProto &tensor,
                                      llvm::StringRef key, mlir::Location location,
                                      bool isScoped = false);
  /// The tensor as an attribute; an error where it is too large for one.
  mlir::FailureOr<mlir::DenseElementsAttr> readAttribute(const ::onnx::TensorProto &tensor,
                                                         mlir::Location location);

private:
  struct Data {
    support::WeightTensor tensor;
    std::shared_ptr<const void> owner;
  };

  support::WeightStore &store;
  std::shared_ptr<const MappedFile> model;
  std::string folder, externalDataRoot;
  std::optional<ContainedFolder> contained; // opened at the first external tensor
  llvm::StringMap<std::shared_ptr<const MappedFile>> externals; // by location

  mlir::FailureOr<Data> read(const ::onnx::TensorProto &tensor, mlir::Location location);
  mlir::LogicalResult readExternal(const ::onnx::TensorProto &tensor, uint64_t size,
                                   mlir::Location location, Data &data);
  mlir::FailureOr<std::shared_ptr<const MappedFile>> externalFile(llvm::StringRef path,
                                                                  mlir::Location location);
};

} // namespace sluicec
