// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bits do not depend on company (design.md 4): a prompt's logits are the same alone, beside 15
// others, in chunks of 1, 7 and 64, on one thread and two, and after cancelled neighbours. Real
// packages, compared byte for byte: no tolerance.
#include "runtime/engine/Engine.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace sluice;

namespace {

using Logits = std::vector<float>; // [tokens, vocab]

std::unique_ptr<Engine> openPackage(const std::string &name, uint32_t threads) {
  const char *folder = std::getenv("SLUICE_PACKAGES");
  std::string path = std::string(folder ? folder : "build/test/packages") + "/" + name + ".sluice";
  if (!std::filesystem::exists(path)) {
    return nullptr;
  }
  EngineOptions options;
  options.threads = threads;
  auto engine = Engine::open(path, options);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message());
  return engine ? std::move(*engine) : nullptr;
}

std::vector<int32_t> randomPrompt(size_t length, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(length);
  for (int32_t &id : ids) {
    id = static_cast<int32_t>(random() % vocab);
  }
  return ids;
}

/// Logits of sequence 0 among `sequences`.
Logits logitsOfFirst(Engine &engine, const std::vector<std::vector<int32_t>> &sequences,
                     uint32_t chunk) {
  Logits out(sequences[0].size() * engine.model().vocab);
  EvaluationInput input;
  input.sequences = sequences;
  input.chunkRows = chunk;
  EvaluationSink sink;
  sink.onLogits = [&](size_t s, size_t p, std::span<const float> row) {
    if (s == 0) {
      std::copy(row.begin(), row.end(), out.begin() + static_cast<std::ptrdiff_t>(p * row.size()));
    }
  };
  Status status = engine.evaluate(input, sink);
  EXPECT_TRUE(status) << status.message();
  return out;
}

void expectSameBits(const Logits &a, const Logits &b, const std::string &what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  }
  EXPECT_EQ(different, 0u) << what << ": " << different << " of " << a.size() << " logits differ";
}

class BitsTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    engine = openPackage(GetParam(), 1);
    if (!engine) {
      GTEST_SKIP() << GetParam() << " is not compiled (fixtures absent?)";
    }
    prompt = randomPrompt(150, engine->model().vocab, 1);
    alone = logitsOfFirst(*engine, {prompt}, 0);
    // The reference itself must say something: finite and not all equal.
    ASSERT_TRUE(std::isfinite(alone[0]));
    ASSERT_NE(alone[0], alone[1]);
  }
  std::unique_ptr<Engine> engine;
  std::vector<int32_t> prompt;
  Logits alone;
};

TEST_P(BitsTest, Chunks) {
  for (uint32_t chunk : {1u, 7u, 64u}) {
    expectSameBits(alone, logitsOfFirst(*engine, {prompt}, chunk),
                   "chunks of " + std::to_string(chunk));
  }
}

TEST_P(BitsTest, BesideFifteenOthers) {
  std::vector<std::vector<int32_t>> sequences = {prompt};
  for (uint32_t i = 0; i < 15; ++i) {
    sequences.push_back(randomPrompt(1 + 13 * i, engine->model().vocab, 100 + i));
  }
  for (uint32_t chunk : {0u, 1u, 7u}) {
    expectSameBits(alone, logitsOfFirst(*engine, sequences, chunk),
                   "16 together, chunks of " + std::to_string(chunk));
  }
}

TEST_P(BitsTest, TwoThreads) {
  auto two = openPackage(GetParam(), 2);
  ASSERT_TRUE(two);
  for (uint32_t chunk : {0u, 7u}) {
    expectSameBits(alone, logitsOfFirst(*two, {prompt}, chunk),
                   "two threads, chunks of " + std::to_string(chunk));
  }
}

/// Greedy answers with their logits, beside requests that are cancelled in prefill and in decoding.
TEST_P(BitsTest, AfterCancelledNeighbours) {
  auto generate = [&](bool neighbours) {
    std::vector<float> seen;
    RequestSpec spec;
    spec.prompt = prompt;
    spec.maxTokens = 24;
    spec.ignoreEos = true;
    spec.wantLogits = true;
    spec.sampling.temperature = 0;
    spec.onToken = [&](const TokenEvent &e) {
      seen.insert(seen.end(), e.logits.begin(), e.logits.end());
    };
    std::vector<RequestId> others;
    for (uint32_t i = 0; neighbours && i < 6; ++i) {
      RequestSpec other;
      other.prompt = randomPrompt(20 + 25 * i, engine->model().vocab, 300 + i);
      other.maxTokens = 200;
      other.ignoreEos = true;
      auto id = engine->submit(std::move(other));
      EXPECT_TRUE(id);
      others.push_back(*id);
    }
    EXPECT_TRUE(engine->submit(std::move(spec)));
    for (size_t step = 0;; ++step) {
      if (step % 2 == 0 && step / 2 < others.size()) {
        EXPECT_TRUE(engine->cancel(others[step / 2]));
      }
      auto more = engine->step();
      EXPECT_TRUE(more) << more.error().message();
      Status invariants = engine->checkInvariants();
      EXPECT_TRUE(invariants) << invariants.message();
      if (!more || !*more) {
        break;
      }
    }
    return seen;
  };
  std::vector<float> first = generate(false);
  ASSERT_EQ(first.size(), 24u * engine->model().vocab);
  expectSameBits(first, generate(true), "after cancelled neighbours");
}

INSTANTIATE_TEST_SUITE_P(
    Models, BitsTest, testing::Values("wordmoe", "mistral-torch-kv"), [](const auto &info) {
      return std::string(info.param).substr(0, std::string(info.param).find('-'));
    });

} // namespace
