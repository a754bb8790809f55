// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runtime/program needs of a machine: memory, code, launches, copies. CpuDevice is one; a GPU
// is another. Nothing here knows of models.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/KernelAbi.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

class Device;

/// Memory of a device, freed with the object; move-only. `data` is an address on the device. The
/// device must outlive it.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(Device *owner, void *data, uint64_t bytes)
      : owner_(owner), data_(data), bytes_(bytes) {}
  DeviceMemory(DeviceMemory &&other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  inline ~DeviceMemory();

  std::byte *data() const { return static_cast<std::byte *>(data_); }
  uint64_t bytes() const { return bytes_; }

private:
  Device *owner_ = nullptr; // null: borrowed, nothing to free
  void *data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// Index of a function within the DeviceCode that loaded it.
using FunctionIndex = uint32_t;

struct FunctionSpec {
  std::string symbol;
  uint64_t scratchBytes = 0; ///< per worker
};

/// One launch of the list: all cells of one function's grid.
struct Launch {
  FunctionIndex function = 0;
  const sluice_step_counts *counts = nullptr; ///< on the host; the same address in every step
  void *const *buffers = nullptr;             ///< addresses on the device; the same in every step
  int64_t cells = 0;                          ///< 0 = nothing to do
};

class Device {
public:
  virtual ~Device() = default;

  /// Zeroed, aligned to at least 4096 bytes. OutOfMemory says how much was asked for.
  virtual Result<DeviceMemory> allocate(uint64_t bytes) = 0;
  /// Makes bytes of the host (mapped weights) readable for kernels: in place on a CPU. `bytes` must
  /// outlive the result.
  virtual Result<DeviceMemory> place(std::span<const std::byte> bytes) = 0;
  /// Loads verified code; once per device. Corrupt: a symbol is missing.
  virtual Status loadCode(std::span<const std::byte> object,
                          const std::vector<FunctionSpec> &functions) = 0;

  /// Launches run in the order of the calls. Allocates nothing.
  virtual Status launch(const Launch &launch) = 0;
  /// Both wait until the launches before have ended.
  virtual Status copyToDevice(void *device, const void *host, uint64_t bytes) = 0;
  virtual Status copyToHost(void *host, const void *device, uint64_t bytes) = 0;
  /// The address at which the host reads this memory without a copy, or null.
  virtual const void *hostAddress(const void *device) const = 0;
  /// Waits until all launches have ended.
  virtual Status finish() = 0;

protected:
  friend class DeviceMemory;
  virtual void release(void *data, uint64_t bytes) = 0;
};

DeviceMemory::~DeviceMemory() {
  if (owner_ != nullptr) {
    owner_->release(data_, bytes_);
  }
}

} // namespace sluice
