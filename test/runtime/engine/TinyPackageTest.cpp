// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime against a real, committed package (test/runtime/data/make_tiny.py): what can be shown
// without a compiler.
#include "runtime/engine/Engine.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace sluice;

namespace {

const char *const kTiny = "test/runtime/data/tiny.sluice";

std::unique_ptr<Engine> openTiny(const EngineOptions &options = {}) {
  auto engine = Engine::open(kTiny, options);
  if (!engine && engine.error().code() == Code::Unsupported) {
    return nullptr; // this machine has no AVX2
  }
  EXPECT_TRUE(engine) << engine.error().message();
  return engine ? std::move(*engine) : nullptr;
}

std::vector<float> logitsOf(Engine &engine, const std::vector<std::vector<int32_t>> &sequences,
                            uint32_t chunk) {
  std::vector<float> out(sequences[0].size() * 32);
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

const std::vector<int32_t> kPrompt = {1, 7, 3,  30, 12, 5, 5,  9,  21, 0, 14,
                                      2, 8, 19, 31, 4,  6, 11, 25, 17, 3};

TEST(TinyPackage, SameBitsInChunksAndCompany) {
  auto engine = openTiny();
  if (!engine) {
    GTEST_SKIP() << "no AVX2 here";
  }
  std::vector<float> whole = logitsOf(*engine, {kPrompt}, 0);
  EXPECT_TRUE(std::isfinite(whole[0]));
  EXPECT_NE(whole[0], whole[1]);
  for (uint32_t chunk : {1u, 3u, 16u}) {
    std::vector<float> parts = logitsOf(*engine, {kPrompt, {4, 4, 9}, {30}, kPrompt}, chunk);
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0)
        << "chunks of " << chunk;
  }
}

/// Window 4: a token changes the logits of rows up to 3 behind it (one layer), and of none further
/// on.
TEST(TinyPackage, WindowIsExact) {
  auto engine = openTiny();
  if (!engine) {
    GTEST_SKIP() << "no AVX2 here";
  }
  std::vector<float> before = logitsOf(*engine, {kPrompt}, 0);
  std::vector<int32_t> changed = kPrompt;
  changed[6] = 28;
  std::vector<float> after = logitsOf(*engine, {changed}, 0);
  for (size_t row = 0; row < kPrompt.size(); ++row) {
    bool same = std::memcmp(&before[row * 32], &after[row * 32], 32 * sizeof(float)) == 0;
    EXPECT_EQ(same, row < 6 || row >= 6 + 4) << "row " << row;
  }
}

TEST(TinyPackage, GreedyAnswerEqualsArgmaxOfLogits) {
  auto engine = openTiny();
  if (!engine) {
    GTEST_SKIP() << "no AVX2 here";
  }
  std::vector<int32_t> answer;
  RequestSpec spec;
  spec.prompt = kPrompt;
  spec.maxTokens = 12;
  spec.sampling.temperature = 0;
  spec.ignoreEos = true;
  spec.onToken = [&](const TokenEvent &e) { answer.push_back(e.token); };
  ASSERT_TRUE(engine->submit(std::move(spec)));
  ASSERT_TRUE(engine->runAll());
  ASSERT_EQ(answer.size(), 12u);
  std::vector<int32_t> all = kPrompt;
  all.insert(all.end(), answer.begin(), answer.end());
  std::vector<float> logits = logitsOf(*engine, {all}, 0);
  for (size_t i = 0; i < answer.size(); ++i) {
    const float *row = &logits[(kPrompt.size() - 1 + i) * 32];
    EXPECT_EQ(std::max_element(row, row + 32) - row, answer[i]) << "token " << i;
  }
}

/// Every 97th byte flipped and the file cut at as many places: always an error that names the file.
TEST(TinyPackage, DamageIsAnErrorNotACrash) {
  std::ifstream in(kTiny, std::ios::binary);
  std::vector<char> whole(std::istreambuf_iterator<char>(in), {});
  ASSERT_GT(whole.size(), 50000u);
  std::string path = testing::TempDir() + "damaged.sluice";
  size_t refused = 0, tried = 0;
  auto tryBytes = [&](const std::vector<char> &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    auto package = PackageReader::open(path);
    ++tried;
    if (!package) {
      ++refused;
      EXPECT_NE(package.error().message().find("damaged.sluice"), std::string::npos)
          << package.error().message();
    }
    return !package;
  };
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::vector<char> bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_TRUE(tryBytes(bytes)) << "byte " << at;
  }
  for (size_t keep = 0; keep < whole.size(); keep += 997) {
    EXPECT_TRUE(tryBytes(
        std::vector<char>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(keep))))
        << "cut at " << keep;
  }
  EXPECT_EQ(refused, tried);
}

} // namespace
