// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CPU as a device: host memory, shared objects, and a pool of threads over grid cells.
#pragma once

#include "runtime/device/CodeModule.h"
#include "runtime/device/Device.h"
#include "runtime/device/HostMemory.h"
#include "runtime/device/ThreadPool.h"

#include <optional>
#include <unordered_map>

namespace sluice {

/// launch() returns when all cells have run. One thread at a time uses the device.
class CpuDevice final : public Device {
public:
  /// `threads`: as ThreadPool.
  explicit CpuDevice(uint32_t threads) : pool_(threads) {}

  uint32_t numThreads() const { return pool_.numThreads(); }

  Result<DeviceMemory> allocate(uint64_t bytes) override;
  Result<DeviceMemory> place(std::span<const std::byte> bytes) override;
  Status loadCode(std::span<const std::byte> object,
                  const std::vector<FunctionSpec> &functions) override;
  Status launch(const Launch &launch) override;
  Status copyToDevice(void *device, const void *host, uint64_t bytes) override;
  Status copyToHost(void *host, const void *device, uint64_t bytes) override;
  const void *hostAddress(const void *device) const override { return device; }
  Status finish() override { return Status::ok(); }

protected:
  void release(void *data, uint64_t bytes) override;

private:
  ThreadPool pool_;
  std::optional<CodeModule> code_;
  std::vector<sluice_kernel> functions_;
  HostMemory scratch_;         // [numThreads, scratchStride_] bytes
  uint64_t scratchStride_ = 0; // of one worker
  std::unordered_map<void *, HostMemory> allocations_;
};

} // namespace sluice
