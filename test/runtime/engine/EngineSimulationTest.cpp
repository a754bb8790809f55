// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ten thousand random engine steps with arrivals, cancellations and starved pools: the invariants
// hold after each, and every request gets exactly the tokens it gets alone.
#include "runtime/engine/Engine.h"
#include "test/runtime/FakeRunner.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace sluice {
namespace {

using fake::FakeRunner;
using fake::kVocab;

struct Simulated {
  std::vector<int32_t> prompt;
  uint32_t maxTokens = 0;
  float temperature = 0;
  uint64_t seed = 0;
  int32_t stopToken = -1;
  std::vector<int32_t> tokens;
  bool finished = false;
  FinishReason reason = FinishReason::Error;
};

RequestSpec specOf(Simulated &request) {
  RequestSpec spec;
  spec.prompt = request.prompt;
  spec.maxTokens = request.maxTokens;
  spec.sampling.temperature = request.temperature;
  spec.sampling.seed = request.seed;
  spec.sampling.repetitionPenalty = request.seed % 3 == 0 ? 1.2F : 1.0F;
  if (request.stopToken >= 0) {
    spec.sampling.stopTokens = {request.stopToken};
  }
  spec.onToken = [&request](const TokenEvent &event) { request.tokens.push_back(event.token); };
  spec.onFinish = [&request](const FinishEvent &event) {
    EXPECT_FALSE(request.finished);
    EXPECT_TRUE(event.status) << event.status.message();
    request.finished = true;
    request.reason = event.reason;
  };
  return spec;
}

std::unique_ptr<Engine> engineOf(const StepCapacity &capacity, uint32_t blocks,
                                 uint32_t windowBlocks) {
  ModelFacts facts;
  facts.vocab = kVocab;
  EngineOptions options;
  options.maxQueued = 20;
  auto engine = Engine::create(std::make_unique<FakeRunner>(capacity, blocks, windowBlocks), facts,
                               std::nullopt, options);
  EXPECT_TRUE(engine);
  return std::move(*engine);
}

class Simulation {
public:
  Simulation(uint32_t seed, const StepCapacity &capacity, uint32_t blocks, uint32_t windowBlocks)
      : random_(seed), capacity_(capacity), engine_(engineOf(capacity, blocks, windowBlocks)) {}

  // Returns false at the first fault.
  bool run(int steps) {
    for (int i = 0; i < steps; ++i) {
      // Bursts and lulls, so that full queues and idle engines both happen.
      const int arrivals = i / 50 % 3 == 2 ? 0 : draw(0, 1) * draw(0, 3);
      for (int a = 0; a < arrivals; ++a) {
        arrive();
      }
      if (draw(0, 9) == 0 && !ids_.empty()) {
        const RequestId id = ids_[static_cast<size_t>(draw(0, static_cast<int>(ids_.size()) - 1))];
        const Status status = engine_->cancel(id); // often of one that has ended
        EXPECT_TRUE(status || status.code() == Code::NotFound);
      }
      if (!stepOnce()) {
        return false;
      }
    }
    int left = 0;
    for (; !engine_->idle() && left < 20000; ++left) {
      if (!stepOnce()) {
        return false;
      }
    }
    EXPECT_TRUE(engine_->idle()) << "requests starve";
    return !testing::Test::HasFailure();
  }

  // Every request against the same one alone in a roomy engine.
  void compareWithAlone() const {
    for (const auto &request : requests_) {
      ASSERT_TRUE(request->finished);
      Simulated alone;
      alone.prompt = request->prompt;
      alone.maxTokens = request->maxTokens;
      alone.temperature = request->temperature;
      alone.seed = request->seed;
      alone.stopToken = request->stopToken;
      const auto engine = engineOf({64, 4, 64, capacity_.maxKv}, 64, 64);
      ASSERT_TRUE(engine->submit(specOf(alone)));
      ASSERT_TRUE(engine->runAll());
      if (request->reason == FinishReason::Cancelled) {
        ASSERT_LE(request->tokens.size(), alone.tokens.size());
        alone.tokens.resize(request->tokens.size());
      } else {
        ASSERT_EQ(request->reason, alone.reason);
      }
      ASSERT_EQ(request->tokens, alone.tokens);
    }
  }

  const EngineStats &stats() const { return engine_->stats(); }
  size_t numRequests() const { return requests_.size(); }

private:
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void arrive() {
    auto request = std::make_unique<Simulated>();
    const int longest = static_cast<int>(capacity_.maxKv) - 1;
    const int length = draw(0, 3) == 0 ? draw(1, longest) : draw(1, 12);
    for (int t = 0; t < length; ++t) {
      request->prompt.push_back(draw(0, kVocab - 1));
    }
    request->maxTokens = static_cast<uint32_t>(draw(0, 5) == 0 ? 0 : draw(1, 30));
    request->temperature = draw(0, 1) == 0 ? 0.0F : 0.8F;
    request->seed = random_();
    request->stopToken = draw(0, 1) == 0 ? -1 : draw(0, kVocab - 1);
    const auto id = engine_->submit(specOf(*request));
    if (!id) {
      EXPECT_EQ(id.error().code(), Code::Capacity) << id.error().message();
      return;
    }
    ids_.push_back(*id);
    requests_.push_back(std::move(request));
  }

  bool stepOnce() {
    const auto more = engine_->step();
    EXPECT_TRUE(more) << more.error().message();
    const Status fine = engine_->checkInvariants();
    EXPECT_TRUE(fine) << fine.message();
    return more && fine && !testing::Test::HasFailure();
  }

  std::mt19937 random_;
  StepCapacity capacity_;
  std::vector<std::unique_ptr<Simulated>> requests_;
  std::vector<RequestId> ids_;
  std::unique_ptr<Engine> engine_;
};

TEST(EngineSimulation, TenThousandRandomStepsInStarvedPools) {
  struct World {
    StepCapacity capacity;
    uint32_t blocks;
    uint32_t windowBlocks;
  };
  // The least that holds one sequence of 48 tokens: 12 blocks, 3 for the window; then a little
  // more.
  const std::vector<World> worlds = {{{8, 4, 8, 48}, 12, 4},
                                     {{16, 8, 16, 48}, 14, 40},
                                     {{5, 5, 5, 48}, 60, 4},
                                     {{1, 1, 1, 48}, 12, 4},
                                     {{24, 8, 24, 48}, 30, 12}};
  uint64_t preemptions = 0;
  size_t requests = 0;
  uint32_t seed = 1;
  for (const World &world : worlds) {
    SCOPED_TRACE("world " + std::to_string(seed));
    Simulation simulation(seed++, world.capacity, world.blocks, world.windowBlocks);
    ASSERT_TRUE(simulation.run(2000));
    simulation.compareWithAlone();
    preemptions += simulation.stats().preemptions;
    requests += simulation.numRequests();
  }
  EXPECT_GT(preemptions, 100U); // else the pools were not starved
  EXPECT_GT(requests, 1000U);
}

} // namespace
} // namespace sluice
