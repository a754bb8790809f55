// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes the large raw tensor data out of a serialised ModelProto, so that protobuf parses only the
// small rest and the data stay where they are, in the mapped file (protobuf would copy them to the
// heap and refuses files above 2 GiB).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace onnx {
class TensorProto;
}

namespace sluicec {

/// raw_data of this many bytes and more stay in the file.
constexpr uint64_t kMinMappedRawBytes = 256;

/// A range of bytes of the model file.
struct MappedRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// The model with every large raw_data replaced by a reference. Error with the byte offset where
/// the file is cut or no protobuf.
llvm::Expected<std::string> splitModel(llvm::ArrayRef<char> model);

/// Where the raw data of `tensor` are in the model file, if splitModel took them out. The caller
/// checks the range.
std::optional<MappedRange> mappedRawData(const ::onnx::TensorProto &tensor);

} // namespace sluicec
