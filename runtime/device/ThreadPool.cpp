// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pool's protocol. A job is published by storing its number of chunks into unclaimed_
// (release); a thread owns a chunk when it has counted unclaimed_ down by one (acquire), and only
// then reads the job. A worker that comes late finds 0 and has touched nothing, so no job waits for
// sleepy workers.
#include "runtime/device/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <sched.h>
#include <system_error>

namespace sluice {
namespace {

// Chunks per thread: enough that a slow core does not hold up the others, few enough that claiming
// costs nothing beside the work.
constexpr int64_t kChunksPerThread = 8;
// How long a worker looks for the next launch before it sleeps: longer than the gap between two
// launches, shorter than anybody would notice in CPU use.
constexpr std::chrono::microseconds kSpinTime{100};
constexpr uint32_t kMaxThreads = 1024;
// Looks at the clock only every so often.
constexpr int kSpinsPerLook = 64;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Spins until `ready` or kSpinTime has passed; true when ready.
template <typename F> bool spinUntil(F ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kSpinsPerLook; ++i) {
      if (ready()) {
        return true;
      }
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

} // namespace

uint32_t ThreadPool::availableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0) {
    return static_cast<uint32_t>(CPU_COUNT(&cores));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(uint32_t threads) {
  if (threads == 0) {
    threads = availableCores();
  }
  threads = std::min(threads, kMaxThreads);
  workers_.reserve(threads);
  for (uint32_t worker = 1; worker < threads; ++worker) {
    try {
      workers_.emplace_back([this, worker] { workerMain(worker); });
    } catch (const std::system_error &) { // no more threads to be had
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  wakeups_.fetch_add(1);
  wakeups_.notify_all();
  for (std::thread &worker : workers_) {
    worker.join();
  }
}

void ThreadPool::parallelFor(int64_t cells, Task task, void *context) {
  if (cells <= 0) {
    return;
  }
  if (cells == 1 || workers_.empty()) {
    task(context, 0, cells, 0);
    return;
  }
  const int64_t wanted = std::min(cells, kChunksPerThread * static_cast<int64_t>(numThreads()));
  task_ = task;
  context_ = context;
  cells_ = cells;
  chunkCells_ = (cells + wanted - 1) / wanted;
  numChunks_ = static_cast<uint32_t>((cells + chunkCells_ - 1) / chunkCells_);
  done_.store(0, std::memory_order_relaxed); // nobody counts: all chunks of the last job have ended
  unclaimed_.store(numChunks_, std::memory_order_seq_cst);
  // With the worker's order (count itself asleep, then look at unclaimed_) one of both sees the
  // other.
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    wakeups_.fetch_add(1, std::memory_order_seq_cst);
    wakeups_.notify_all();
  }
  runChunks(0);
  const uint32_t all = numChunks_;
  const auto finished = [this, all] { return done_.load(std::memory_order_acquire) == all; };
  while (!spinUntil(finished)) {
    // A worker was put off its core in the middle of a chunk: give it ours.
    std::this_thread::yield();
  }
}

bool ThreadPool::runChunks(uint32_t worker) {
  bool worked = false;
  uint32_t left = unclaimed_.load(std::memory_order_acquire);
  while (left != 0) {
    if (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      continue;
    }
    worked = true;
    const int64_t chunk = static_cast<int64_t>(numChunks_) - static_cast<int64_t>(left);
    const int64_t begin = chunk * chunkCells_;
    task_(context_, begin, std::min(begin + chunkCells_, cells_), worker);
    done_.fetch_add(1, std::memory_order_acq_rel);
    left = unclaimed_.load(std::memory_order_acquire);
  }
  return worked;
}

void ThreadPool::workerMain(uint32_t worker) {
  const auto wanted = [this] {
    return unclaimed_.load(std::memory_order_acquire) != 0 ||
           stopping_.load(std::memory_order_relaxed);
  };
  while (!stopping_.load()) {
    if (runChunks(worker) || spinUntil(wanted)) {
      continue;
    }
    const uint32_t seen = wakeups_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (unclaimed_.load(std::memory_order_seq_cst) == 0 && !stopping_.load()) {
      wakeups_.wait(seen);
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

} // namespace sluice
