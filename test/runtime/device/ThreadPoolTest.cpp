// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ThreadPool: every cell once, memory seen by all, many short launches, and no CPU use when idle.
#include "runtime/device/ThreadPool.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace sluice {
namespace {

TEST(ThreadPool, RunsEachCellOnceWithValidWorkers) {
  for (const uint32_t threads : {1U, 2U, 3U, 8U}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.numThreads(), threads);
    for (const int64_t cells : {0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 1000, 12345}) {
      std::vector<int> runs(static_cast<size_t>(cells),
                            0); // not atomic: a cell that ran twice would race
      pool.parallelForEach(cells, [&](int64_t begin, int64_t end, uint32_t worker) {
        EXPECT_LT(begin, end);
        EXPECT_LT(worker, threads);
        for (int64_t cell = begin; cell < end; ++cell) {
          ++runs[static_cast<size_t>(cell)];
        }
      });
      EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), cells);
    }
  }
  ThreadPool pool(0);
  EXPECT_EQ(pool.numThreads(), ThreadPool::availableCores());
}

TEST(ThreadPool, ManyShortLaunchesSeeEachOthersMemory) {
  ThreadPool pool(4);
  constexpr int64_t kCells = 37;
  constexpr int kLaunches = 20000;
  std::vector<int64_t> values(kCells,
                              0); // each launch reads what the last one wrote on other threads
  std::vector<int64_t> next(kCells, 0);
  for (int launch = 0; launch < kLaunches; ++launch) {
    pool.parallelForEach(kCells, [&](int64_t begin, int64_t end, uint32_t) {
      for (int64_t cell = begin; cell < end; ++cell) {
        next[static_cast<size_t>(cell)] = values[static_cast<size_t>((cell + 1) % kCells)] + 1;
      }
    });
    std::swap(values, next);
  }
  EXPECT_EQ(std::count(values.begin(), values.end(), kLaunches), kCells);
}

TEST(ThreadPool, WorkersSleepAndWakeAgain) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  const auto add = [&](int64_t begin, int64_t end, uint32_t) { sum += end - begin; };
  pool.parallelForEach(1000, add);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20)); // far beyond the time that workers spin
  // Structural, not a timing claim: a pool that spins would use 3 threads * 200 ms.
  const std::clock_t before = std::clock(); // CPU time of the process
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.1);
  for (int i = 0; i < 20; ++i) {
    pool.parallelForEach(1000, add);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(sum, 21000);
}

TEST(ThreadPool, UsesSeveralThreads) {
  ThreadPool pool(2);
  std::atomic<uint32_t> seen{0};
  // Both must be in a chunk at once to get on: fails by hanging (ctest's limit) if one thread ran
  // all.
  pool.parallelForEach(2, [&](int64_t, int64_t, uint32_t) {
    ++seen;
    while (seen.load() < 2) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(seen, 2U);
}

TEST(ThreadPool, StartsAndStopsQuickly) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) {
      std::atomic<int64_t> cells{0};
      pool.parallelForEach(10, [&](int64_t begin, int64_t end, uint32_t) { cells += end - begin; });
      EXPECT_EQ(cells, 10);
    }
  }
}

} // namespace
} // namespace sluice
