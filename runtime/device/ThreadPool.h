// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the cells of a kernel's grid on all threads of the CPU device. Made for hundreds of short
// launches per step: workers spin for a moment between launches, then sleep.
#pragma once

#include "runtime/base/Status.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace sluice {

/// One thread at a time calls parallelFor (the engine's); it works along. An idle pool sleeps and
/// uses no CPU.
class ThreadPool {
public:
  /// Runs cells [begin, end); `worker` in [0, numThreads()) tells whose scratch memory to use.
  using Task = void (*)(void *context, int64_t begin, int64_t end, uint32_t worker);

  /// `threads` includes the caller; 0 = one per core that this process may use (affinity mask).
  /// When the system gives fewer threads, the pool is smaller.
  explicit ThreadPool(uint32_t threads);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  uint32_t numThreads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

  /// Calls `task` for chunks that cover [0, cells) once each; returns when all are done. What the
  /// caller wrote before is seen by the tasks, what they wrote is seen after. Allocates nothing.
  /// cells <= 0: nothing.
  void parallelFor(int64_t cells, Task task, void *context);

  /// parallelFor over a callable `(int64_t begin, int64_t end, uint32_t worker)`.
  template <typename F> void parallelForEach(int64_t cells, F &&body) {
    using Body = std::remove_reference_t<F>;
    parallelFor(
        cells,
        [](void *context, int64_t begin, int64_t end, uint32_t worker) {
          (*static_cast<Body *>(context))(begin, end, worker);
        },
        const_cast<std::remove_const_t<Body> *>(&body));
  }

  /// Cores that this process may run on.
  static uint32_t availableCores();

private:
  void workerMain(uint32_t worker);
  bool runChunks(uint32_t worker);

  // The job. Written by the caller only while unclaimed_ is 0 and done_ says that all chunks have
  // ended; read only by a thread that has claimed a chunk of it.
  Task task_ = nullptr;
  void *context_ = nullptr;
  int64_t cells_ = 0;
  int64_t chunkCells_ = 1;
  uint32_t numChunks_ = 0;

  alignas(64) std::atomic<uint32_t> unclaimed_{0}; // chunks of the job that nobody has taken
  alignas(64) std::atomic<uint32_t> done_{0};      // chunks that have ended
  alignas(64) std::atomic<uint32_t> wakeups_{0};   // what sleeping workers wait on
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

} // namespace sluice
