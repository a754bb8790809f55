// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// EngineLoop: many threads, one engine; every request gets its finish, also at shutdown.
#include "runtime/engine/EngineLoop.h"

#include "test/runtime/FakeRunner.h"

#include <atomic>
#include <ctime>
#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace sluice {
namespace {

using fake::kVocab;

std::unique_ptr<Engine> smallEngine(fake::FakeRunner **runnerOut = nullptr,
                                    uint32_t maxQueued = 4096) {
  auto runner = std::make_unique<fake::FakeRunner>(StepCapacity{16, 4, 16, 64}, 20, 16);
  if (runnerOut != nullptr) {
    *runnerOut = runner.get();
  }
  ModelFacts facts;
  facts.vocab = kVocab;
  EngineOptions options;
  options.maxQueued = maxQueued;
  auto engine = Engine::create(std::move(runner), facts, std::nullopt, options);
  EXPECT_TRUE(engine);
  return std::move(*engine);
}

std::unique_ptr<EngineLoop> loopOf(std::unique_ptr<Engine> engine) {
  auto loop = EngineLoop::start(std::move(engine));
  EXPECT_TRUE(loop);
  return std::move(*loop);
}

TEST(EngineLoop, ManyThreadsGetTheirOwnAnswers) {
  const auto loop = loopOf(smallEngine());
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int n = 0; n < 10; ++n) {
        const std::vector<int32_t> prompt = {client, n};
        std::vector<int32_t> tokens;
        std::promise<FinishReason> finished;
        RequestSpec spec;
        spec.prompt = prompt;
        spec.maxTokens = 12;
        spec.sampling.temperature = 0;
        spec.onToken = [&](const TokenEvent &event) { tokens.push_back(event.token); };
        spec.onFinish = [&](const FinishEvent &event) { finished.set_value(event.reason); };
        if (loop->submit(std::move(spec)) && finished.get_future().get() == FinishReason::Length &&
            tokens == fake::greedy(prompt, 12)) {
          ++right;
        }
      }
    });
  }
  for (std::thread &client : clients) {
    client.join();
  }
  EXPECT_EQ(right, 40);
  EXPECT_TRUE(loop->status());
}

TEST(EngineLoop, CancelAndPostReachTheEngineThread) {
  const auto loop = loopOf(smallEngine());
  std::promise<FinishReason> finished;
  std::promise<void> began;
  bool first = true;
  RequestSpec spec;
  spec.prompt = {1};
  spec.sampling.temperature = 0;
  spec.onToken = [&](const TokenEvent &event) {
    if (std::exchange(first, false)) {
      loop->cancel(event.request); // from a callback: no deadlock
      began.set_value();
    }
  };
  spec.onFinish = [&](const FinishEvent &event) { finished.set_value(event.reason); };
  ASSERT_TRUE(loop->submit(std::move(spec)));
  began.get_future().get();
  EXPECT_EQ(finished.get_future().get(), FinishReason::Cancelled);
  std::promise<uint64_t> steps;
  loop->post([&](Engine &engine) { steps.set_value(engine.stats().steps); });
  EXPECT_GT(steps.get_future().get(), 0U);
  loop->cancel(9999); // unknown: nothing
}

TEST(EngineLoop, RefusesWhatTheEngineRefuses) {
  const auto loop = loopOf(smallEngine());
  RequestSpec spec;
  EXPECT_EQ(loop->submit(std::move(spec)).error().code(), Code::InvalidArgument);
}

TEST(EngineLoop, AFullQueueSaysTryLater) {
  const auto loop = loopOf(smallEngine(nullptr, 3));
  std::promise<void> gate;
  std::promise<void> reached;
  loop->post([&](Engine &) {
    reached.set_value();
    gate.get_future().wait();
  });
  reached.get_future().wait();
  int accepted = 0;
  for (int i = 0; i < 10; ++i) {
    RequestSpec spec;
    spec.prompt = {1};
    spec.maxTokens = 1;
    const auto id = loop->submit(std::move(spec));
    accepted += id ? 1 : 0;
    EXPECT_TRUE(id || id.error().code() == Code::Capacity);
  }
  EXPECT_EQ(accepted, 3);
  gate.set_value();
}

TEST(EngineLoop, DestructionFinishesEveryRequest) {
  std::atomic<int> finished{0};
  constexpr int kRequests = 12;
  {
    const auto loop = loopOf(smallEngine());
    for (int i = 0; i < kRequests; ++i) {
      RequestSpec spec;
      spec.prompt = {i};
      spec.onFinish = [&](const FinishEvent &) { ++finished; };
      ASSERT_TRUE(loop->submit(std::move(spec)));
    }
  }
  EXPECT_EQ(finished, kRequests);
}

TEST(EngineLoop, AnIdleLoopUsesNoCpu) {
  const auto loop = loopOf(smallEngine());
  std::promise<void> done;
  loop->post([&](Engine &) { done.set_value(); });
  done.get_future().wait();
  const std::clock_t before = std::clock(); // CPU time of the process
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Structural: a loop that polls would use 200 ms.
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.1);
}

} // namespace
} // namespace sluice
