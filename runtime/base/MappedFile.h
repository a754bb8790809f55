// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A whole file mapped read-only. Used by PackageReader, so that weights are read where they lie.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// Move-only; the bytes keep their address when it is moved. MAP_PRIVATE, PROT_READ: pages are
/// shared with other processes and given back under memory pressure. Cutting the file while it is
/// mapped kills the process (SIGBUS): replace a package by renaming a new one over it.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// NotFound: no such file; InvalidArgument: not a regular file, or not readable; OutOfMemory: no
  /// address space. The message opens with the path. An empty file gives empty bytes.
  static Result<MappedFile> open(const std::string &path);

  /// Page-aligned.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Tells the system that [offset, offset + length) is wanted soon; reading goes on in the
  /// background.
  void willNeed(uint64_t offset, uint64_t length) const;
  /// Reads [offset, offset + length) in, so that later reads do not wait for the disk.
  void prefault(uint64_t offset, uint64_t length) const;

private:
  const std::byte *data_ = nullptr;
  uint64_t size_ = 0;
};

} // namespace sluice
