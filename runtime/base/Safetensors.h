// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes .safetensors files (8-byte header length, JSON header, raw little-endian data):
// the arrays that evaluations exchange. Format: huggingface.co/docs/safetensors, "Format".
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// One array of a file: row-major, little endian.
struct TensorView {
  std::string dtype; ///< as the file names it: F32, I64, I32, ...
  std::vector<int64_t> shape;
  std::span<const char> bytes;
  int64_t numElements() const;
};

class SafetensorsFile {
public:
  /// Reads the whole file; every offset and size is checked against it.
  static Result<SafetensorsFile> read(const std::string &path);
  const TensorView *find(const std::string &name) const;
  const std::map<std::string, TensorView> &tensors() const { return tensors_; }

  /// An array of rank `rank` as floats or integers; the error names the array, what it is and what
  /// was expected.
  Result<std::vector<float>> floats(const std::string &name, size_t rank) const;
  Result<std::vector<int64_t>> integers(const std::string &name, size_t rank) const;

private:
  std::string path_;
  std::vector<char> data_;
  std::map<std::string, TensorView> tensors_;
};

/// Writes one f32 array.
Status writeSafetensors(const std::string &path, const std::string &name,
                        const std::vector<int64_t> &shape, std::span<const float> values);

} // namespace sluice
