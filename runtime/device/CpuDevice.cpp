// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory, code and launches on the host's CPU.
#include "runtime/device/CpuDevice.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

constexpr uint64_t kPage = 4096;

// A launch as the pool's tasks see it.
struct LaunchContext {
  sluice_kernel kernel;
  const sluice_step_counts *counts;
  void *const *buffers;
  std::byte *scratch;
  uint64_t scratchStride;
};

} // namespace

Result<DeviceMemory> CpuDevice::allocate(uint64_t bytes) {
  auto memory = HostMemory::allocate(bytes);
  if (!memory) {
    return memory.error();
  }
  void *data = memory->data();
  if (data == nullptr) {
    return DeviceMemory();
  }
  allocations_.emplace(data, std::move(*memory));
  return DeviceMemory(this, data, bytes);
}

void CpuDevice::release(void *data, uint64_t) { allocations_.erase(data); }

Result<DeviceMemory> CpuDevice::place(std::span<const std::byte> bytes) {
  // Kernels take all buffers as void *; they only read weights, and the pages are read-only.
  return DeviceMemory(nullptr, const_cast<std::byte *>(bytes.data()), bytes.size());
}

Status CpuDevice::loadCode(std::span<const std::byte> object,
                           const std::vector<FunctionSpec> &functions) {
  auto code = CodeModule::load(object);
  if (!code) {
    return code.error();
  }
  std::vector<sluice_kernel> loaded;
  uint64_t scratchBytes = 0;
  for (const FunctionSpec &function : functions) {
    const auto address = code->symbol(function.symbol);
    if (!address) {
      return address.error();
    }
    loaded.push_back(reinterpret_cast<sluice_kernel>(*address));
    scratchBytes = std::max(scratchBytes, function.scratchBytes);
  }
  // Whole pages per worker, so that no two workers share a cache line.
  const auto padded = checkedAdd(scratchBytes, kPage - 1);
  const auto total = padded ? checkedMul(*padded / kPage * kPage, numThreads()) : std::nullopt;
  if (!total) {
    return corrupt("scratch of " + std::to_string(scratchBytes) + " bytes per worker");
  }
  auto scratch = HostMemory::allocate(*total);
  if (!scratch) {
    return scratch.error();
  }
  scratchStride_ = *padded / kPage * kPage;
  scratch_ = std::move(*scratch);
  functions_ = std::move(loaded);
  code_.emplace(std::move(*code));
  return Status::ok();
}

Status CpuDevice::launch(const Launch &launch) {
  if (launch.function >= functions_.size()) {
    return internalError("launch of function " + std::to_string(launch.function) + ", loaded are " +
                         std::to_string(functions_.size()));
  }
  LaunchContext context = {functions_[launch.function], launch.counts, launch.buffers,
                           scratch_.data(), scratchStride_};
  pool_.parallelFor(
      launch.cells,
      [](void *opaque, int64_t begin, int64_t end, uint32_t worker) {
        const auto &c = *static_cast<LaunchContext *>(opaque);
        std::byte *scratch = c.scratchStride == 0 ? nullptr : c.scratch + worker * c.scratchStride;
        c.kernel(c.counts, c.buffers, begin, end, scratch);
      },
      &context);
  return Status::ok();
}

Status CpuDevice::copyToDevice(void *device, const void *host, uint64_t bytes) {
  std::memcpy(device, host, bytes);
  return Status::ok();
}

Status CpuDevice::copyToHost(void *host, const void *device, uint64_t bytes) {
  std::memcpy(host, device, bytes);
  return Status::ok();
}

} // namespace sluice
