// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Anonymous mappings with huge pages where they pay.
#include "runtime/device/HostMemory.h"

#include "runtime/base/CheckedMath.h"

#include <string>
#include <sys/mman.h>
#include <utility>

namespace sluice {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kPage = 4096;

} // namespace

HostMemory::HostMemory(HostMemory &&other) noexcept { *this = std::move(other); }

HostMemory &HostMemory::operator=(HostMemory &&other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mappingBytes_, other.mappingBytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HostMemory::~HostMemory() {
  if (mapping_ != nullptr) {
    ::munmap(mapping_, mappingBytes_);
  }
}

Result<HostMemory> HostMemory::allocate(uint64_t bytes) {
  HostMemory memory;
  if (bytes == 0) {
    return memory;
  }
  const uint64_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const auto padded = checkedAdd(bytes, alignment + kPage); // room to align the beginning
  void *mapping = MAP_FAILED;
  if (padded && *padded <= PTRDIFF_MAX) {
    // NORESERVE: a pool may be larger than what is used of it in the end
    mapping = ::mmap(nullptr, *padded, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (mapping == MAP_FAILED) {
    return outOfMemory("can't allocate " + std::to_string(bytes) +
                       " bytes; use a smaller context, fewer sequences or less cache memory");
  }
  memory.mapping_ = static_cast<std::byte *>(mapping);
  memory.mappingBytes_ = *padded;
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  memory.data_ = memory.mapping_ + ((address + alignment - 1) / alignment * alignment - address);
  memory.bytes_ = bytes;
  if (alignment == kHugePage) {
    ::madvise(memory.data_, bytes, MADV_HUGEPAGE); // advice only
  }
  return memory;
}

} // namespace sluice
