// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// planStep: who gets rows, who waits, who is preempted.
#include "runtime/engine/SchedulingPolicy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {

bool operator==(const RowShare &a, const RowShare &b) {
  return a.index == b.index && a.rows == b.rows;
}
void PrintTo(const RowShare &share, std::ostream *out) { *out << share.index << ":" << share.rows; }

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Scene {
  std::vector<ScheduledRequest> running;
  std::vector<ScheduledRequest> waiting;
  std::vector<uint32_t> free = {100, 100};
  CacheShape shape = {4, {0, 6}};
  uint32_t maxTokens = 16;
  uint32_t maxSeqs = 4;

  StepPlan plan() const {
    StepPlan p;
    planStep({running, waiting, free, &shape, maxTokens, maxSeqs}, p);
    return p;
  }
};

TEST(SchedulingPolicy, DecodeRowsComeFirstThenPrefillsByAge) {
  Scene s;
  s.running = {{30, 0}, {9, 8}, {10, 0}, {6, 5}};
  const StepPlan plan = s.plan();
  EXPECT_THAT(plan.shares, ElementsAre(RowShare{1, 1}, RowShare{3, 1}, RowShare{0, 14}));
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_EQ(plan.admitted, 0U);
}

TEST(SchedulingPolicy, AdmitsInOrderUntilBudgetOrSequencesEnd) {
  Scene s;
  s.running = {{9, 8}};
  s.waiting = {{5, 0}, {7, 0}, {9, 0}, {1, 0}};
  EXPECT_THAT(s.plan().shares,
              ElementsAre(RowShare{0, 1}, RowShare{1, 5}, RowShare{2, 7}, RowShare{3, 3}));
  EXPECT_EQ(s.plan().admitted, 3U);
  s.maxSeqs = 2;
  EXPECT_EQ(s.plan().admitted, 1U);
  s.maxSeqs = 1;
  EXPECT_EQ(s.plan().admitted, 0U);
}

TEST(SchedulingPolicy, NobodyOvertakesAWaitingRequestThatDoesNotFit) {
  Scene s;
  s.free = {5, 100};
  s.running = {{9, 8}};          // needs 1 block now
  s.waiting = {{40, 0}, {1, 0}}; // 11 blocks: no room
  EXPECT_EQ(s.plan().admitted, 0U);
  s.waiting = {{1, 0}, {40, 0}};
  EXPECT_EQ(s.plan().admitted, 1U);
  s.running.clear();
  s.waiting = {{40, 0}};
  EXPECT_EQ(s.plan().admitted, 1U); // alone it may begin, it fits the pool when that is empty
}

TEST(SchedulingPolicy, KeepsBlocksForPrefillsThatHaveBegun) {
  Scene s;
  s.free = {10, 100};
  s.running = {{40, 16}};           // will take 7 more, the next token's block included
  s.waiting = {{11, 0}};            // 3
  EXPECT_EQ(s.plan().admitted, 0U); // the chunk takes all rows
  s.maxTokens = 32;
  EXPECT_EQ(s.plan().admitted, 1U);
  s.free = {9, 100};
  EXPECT_EQ(s.plan().admitted, 0U);
}

TEST(SchedulingPolicy, PreemptsTheYoungestWhenBlocksRunOut) {
  Scene s;
  s.free = {0, 100};
  s.running = {{9, 8}, {9, 8}, {9, 8}}; // each needs a new block
  s.waiting = {{1, 0}};
  const StepPlan plan = s.plan();
  // The third gives back 2: enough for the first two. Nothing is admitted in such a step.
  EXPECT_THAT(plan.preempted, ElementsAre(2U));
  EXPECT_THAT(plan.shares, ElementsAre(RowShare{0, 1}, RowShare{1, 1}));
  EXPECT_EQ(plan.admitted, 0U);
}

TEST(SchedulingPolicy, AnOldPrefillTakesBackTheRowOfAYoungDecode) {
  Scene s;
  s.free = {1, 100};
  s.running = {{20, 8}, {5, 4}}; // the decode takes the last block first
  const StepPlan plan = s.plan();
  EXPECT_THAT(plan.preempted, ElementsAre(1U));
  EXPECT_THAT(plan.shares, ElementsAre(RowShare{0, 8})); // 2 blocks: its own and that of the victim
}

TEST(SchedulingPolicy, AYoungOneSitsOutRatherThanPreemptAnOlder) {
  Scene s;
  s.free = {1, 100};
  s.running = {{5, 4}, {5, 4}};
  const StepPlan plan = s.plan();
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_THAT(plan.shares, ElementsAre(RowShare{0, 1}));
}

TEST(SchedulingPolicy, ChunksShrinkToTheFreeBlocks) {
  Scene s;
  s.free = {100, 2};
  s.running = {{30, 5}};
  EXPECT_THAT(s.plan().shares, ElementsAre(RowShare{0, 11})); // to the end of 2 blocks: 16 - 5
}

TEST(SchedulingPolicy, WithoutCacheGroupsOnlyBudgetsCount) {
  Scene s;
  s.shape.windows.clear();
  s.free.clear();
  s.running = {{100, 0}};
  s.waiting = {{3, 0}};
  EXPECT_THAT(s.plan().shares, ElementsAre(RowShare{0, 16}));
}

} // namespace
} // namespace sluice
