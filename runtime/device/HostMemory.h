// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Large zeroed memory of the host: workspace, cache pools, input and output buffers lie in it.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Move-only anonymous mapping, zeroed, aligned to at least 4096 bytes (2 MiB from 2 MiB on, where
/// the system may use huge pages). Pages take memory when they are first written.
class HostMemory {
public:
  HostMemory() = default;
  HostMemory(HostMemory &&other) noexcept;
  HostMemory &operator=(HostMemory &&other) noexcept;
  ~HostMemory();

  /// OutOfMemory: the system gives no address space; says how much was asked for. 0 bytes: empty.
  static Result<HostMemory> allocate(uint64_t bytes);

  std::byte *data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

private:
  std::byte *mapping_ = nullptr;
  uint64_t mappingBytes_ = 0;
  std::byte *data_ = nullptr; // within the mapping
  uint64_t bytes_ = 0;
};

} // namespace sluice
