// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Engine::open and evaluate on a real package with real (fake) kernels; the same bits in every
// chunking, company and number of threads; and the C API over it.
#include "runtime/engine/Engine.h"
#include "runtime/sluice.h"
#include "test/runtime/PackageBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace sluice {
namespace {

using fake::kVocab;
using testing::HasSubstr;
using testing::StartsWith;

fake::PackageSpec model() { return fake::fakeModel(fake::readFile(SLUICE_FAKE_KERNELS)); }

std::vector<std::vector<int32_t>> someSequences() {
  std::vector<std::vector<int32_t>> sequences;
  for (uint32_t i = 0; i < 6; ++i) {
    sequences.emplace_back();
    for (uint32_t t = 0; t < 1 + i * 9; ++t) {
      sequences.back().push_back(static_cast<int32_t>((i * 11 + t * t * 5 + 3) % kVocab));
    }
  }
  return sequences;
}

std::unique_ptr<Engine> openEngine(const fake::TemporaryFile &file, EngineOptions options = {}) {
  options.kvBytes = options.kvBytes == 0 && options.kvBlocks == 0 ? 1 << 20 : options.kvBytes;
  auto engine = Engine::open(file.path(), options);
  EXPECT_TRUE(engine) << engine.error().message();
  return engine ? std::move(*engine) : nullptr;
}

TEST(EnginePackage, SaysWhatItOpened) {
  fake::PackageSpec spec = model();
  spec.eosIds = {5};
  const fake::TemporaryFile file(buildPackage(spec));
  EngineOptions options;
  options.threads = 2;
  options.maxTokensPerStep = 10;
  options.maxSeqs = 64; // more than rows: cut
  const auto engine = openEngine(file, options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->model().vocab, kVocab);
  EXPECT_EQ(engine->model().eosIds, std::vector<int32_t>{5});
  EXPECT_EQ(engine->model().defaults.temperature, 0);
  EXPECT_EQ(engine->contextLimit(), 64U);
  EXPECT_EQ(engine->numThreads(), 2U);
  EXPECT_EQ(engine->stepFacts().capacity.seqs, 10U);
  EXPECT_EQ(engine->tokenizer(), nullptr);
  EXPECT_TRUE(engine->tokenizerStatus());
  EXPECT_NE(engine->package(), nullptr);
  // 10 sequences * 16 blocks; 10 * (2 + 2) + 3
  EXPECT_EQ(engine->kvBytes(), (160U + 43U) * 32);
}

TEST(EnginePackage, EvaluateGivesTheSameBitsInEveryChunkingCompanyAndThreadCount) {
  const fake::TemporaryFile file(buildPackage(model()));
  const auto sequences = someSequences();
  for (const uint32_t threads : {1U, 2U, 3U}) {
    for (const uint32_t tokens : {512U, 20U, 1U}) {
      EngineOptions options;
      options.threads = threads;
      options.maxTokensPerStep = tokens;
      const auto engine = openEngine(file, options);
      ASSERT_NE(engine, nullptr);
      for (const uint32_t chunk : {0U, 1U, 7U, 64U}) {
        for (const uint32_t together : {0U, 1U, 3U}) {
          std::vector<size_t> next(sequences.size(), 0);
          std::vector<size_t> probed(sequences.size(), 0);
          EvaluationInput input;
          input.sequences = sequences;
          input.chunkRows = chunk;
          input.maxTogether = together;
          input.probes = true;
          EvaluationSink sink;
          sink.onLogits = [&](size_t sequence, size_t position, std::span<const float> logits) {
            ASSERT_EQ(position, next[sequence]++);
            const auto expected = fake::logitsOf(sequences[sequence], position);
            ASSERT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin(), expected.end()));
          };
          sink.onProbe = [&](size_t sequence, size_t position, const ProbeView &view) {
            ASSERT_EQ(position, probed[sequence]);
            probed[sequence] += view.rows;
            ASSERT_TRUE(chunk == 0 || view.rows <= chunk);
            const auto *data = static_cast<const int32_t *>(view.data);
            for (uint64_t r = 1; r < view.rows; ++r) { // rows of the step, in order
              ASSERT_EQ(data[r * 2 + 1], data[1] + static_cast<int32_t>(r));
            }
          };
          const Status status = engine->evaluate(input, sink);
          ASSERT_TRUE(status) << status.message();
          for (size_t i = 0; i < sequences.size(); ++i) {
            EXPECT_EQ(next[i], sequences[i].size());
            EXPECT_EQ(probed[i], sequences[i].size());
          }
          EXPECT_TRUE(engine->checkInvariants()); // all blocks are free again
        }
      }
    }
  }
}

TEST(EnginePackage, EvaluateChecksItsInput) {
  const fake::TemporaryFile file(buildPackage(model()));
  EngineOptions options;
  options.kvBlocks = 16;
  const auto engine = openEngine(file, options);
  ASSERT_NE(engine, nullptr);
  const auto statusOf = [&](std::vector<std::vector<int32_t>> sequences) {
    EvaluationInput input;
    input.sequences = sequences;
    return engine->evaluate(input, {});
  };
  EXPECT_TRUE(statusOf({}));
  EXPECT_TRUE(statusOf({std::vector<int32_t>(64, 1), std::vector<int32_t>(64, 2)})); // in turn
  EXPECT_EQ(statusOf({{}}).code(), Code::InvalidArgument);
  EXPECT_THAT(statusOf({{1}, {1, 32}}).message(), HasSubstr("sequence 1: token 32"));
  EXPECT_THAT(statusOf({std::vector<int32_t>(65, 1)}).message(), HasSubstr("expected 1 ... 64"));
  // A running request holds blocks: too few are free for a long sequence, and the request goes on.
  RequestSpec spec;
  spec.prompt = {1, 2, 3};
  spec.sampling.temperature = 0;
  std::vector<int32_t> tokens;
  spec.onToken = [&](const TokenEvent &event) { tokens.push_back(event.token); };
  spec.maxTokens = 10;
  ASSERT_TRUE(engine->submit(std::move(spec)));
  ASSERT_TRUE(engine->step());
  EXPECT_EQ(statusOf({std::vector<int32_t>(64, 1)}).code(), Code::Capacity);
  EXPECT_TRUE(statusOf({std::vector<int32_t>(30, 1)}));
  ASSERT_TRUE(engine->runAll());
  EXPECT_EQ(tokens, fake::greedy({1, 2, 3}, 10));
}

TEST(EnginePackage, OpenNamesTheFileAndTheFault) {
  const auto statusOf = [](const fake::PackageSpec &spec, const EngineOptions &options = {}) {
    const fake::TemporaryFile file(buildPackage(spec));
    const auto engine = Engine::open(file.path(), options);
    EXPECT_FALSE(engine);
    EXPECT_THAT(engine.error().message(), StartsWith(file.path() + ": "));
    return engine ? Status::ok() : engine.error();
  };
  fake::PackageSpec other = model();
  other.program = "function";
  EXPECT_THAT(statusOf(other).message(), HasSubstr("holds no program 'step'"));
  fake::PackageSpec demanding = model();
  demanding.code[0].features = {"telepathy"};
  EXPECT_EQ(statusOf(demanding).code(), Code::Unsupported);
  EXPECT_THAT(statusOf(demanding).message(), HasSubstr("this CPU lacks telepathy"));
#if defined(__x86_64__)
  EngineOptions masked;
  masked.maskedCpuFeatures = {"sse2"};
  EXPECT_THAT(statusOf(model(), masked).message(), HasSubstr("this CPU lacks sse2"));
  ::setenv("SLUICE_MASK_CPU_FEATURES", "avx,sse2", 1);
  EXPECT_THAT(statusOf(model()).message(), HasSubstr("this CPU lacks sse2"));
  ::unsetenv("SLUICE_MASK_CPU_FEATURES");
#endif
  EngineOptions tiny;
  tiny.kvBytes = 10;
  EXPECT_THAT(statusOf(model(), tiny).message(), HasSubstr("at least 64 bytes are needed"));
  fake::PackageSpec noCode = model();
  noCode.sections[0].bytes = {1, 2, 3};
  EXPECT_THAT(statusOf(noCode).message(), HasSubstr("not an ELF object"));
}

// A bad tokenizer or template leaves ids working and says why there is no text.
TEST(EnginePackage, ABadTokenizerIsNoReasonNotToOpen) {
  fake::PackageSpec spec = model();
  fake::SectionSpec tokenizer;
  tokenizer.kind = manifest::SectionKind::Tokenizer;
  tokenizer.bytes = {'{', '}'};
  fake::SectionSpec chat;
  chat.kind = manifest::SectionKind::ChatTemplate;
  chat.bytes = {'{', '%', ' ', 'i', 'f'};
  spec.sections.push_back(tokenizer);
  spec.sections.push_back(chat);
  const fake::TemporaryFile file(buildPackage(spec));
  const auto engine = openEngine(file);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->tokenizer(), nullptr);
  EXPECT_FALSE(engine->tokenizerStatus());
  EXPECT_EQ(engine->chatTemplate(), nullptr);
  EXPECT_FALSE(engine->chatTemplateStatus());
}

class CApiTest : public testing::Test {
protected:
  CApiTest() : file_(buildPackage(model())) {
    sluice_engine_options options;
    sluice_engine_options_init(&options);
    options.kv_bytes = 1 << 20;
    options.threads = 1;
    expectOk(sluice_engine_open(file_.path().c_str(), &options, &engine_));
  }
  ~CApiTest() override { sluice_engine_close(engine_); }

  static void expectOk(sluice_status *status) {
    EXPECT_EQ(sluice_status_code(status), SLUICE_OK) << sluice_status_message(status);
    sluice_status_destroy(status);
  }
  static void expectCode(sluice_status *status, sluice_code code, const char *message) {
    EXPECT_EQ(sluice_status_code(status), code);
    EXPECT_THAT(sluice_status_message(status), HasSubstr(message));
    sluice_status_destroy(status);
  }

  fake::TemporaryFile file_;
  sluice_engine *engine_ = nullptr;
};

TEST_F(CApiTest, RunsRequestsAndHandsOutEvents) {
  EXPECT_EQ(sluice_engine_vocab(engine_), kVocab);
  EXPECT_EQ(sluice_engine_context_limit(engine_), 64U);
  sluice_request_options options;
  sluice_request_options_init(engine_, &options);
  options.max_tokens = 5;
  const int32_t first[] = {1, 2, 3};
  const int32_t second[] = {4};
  uint64_t a = 0;
  uint64_t b = 0;
  expectOk(sluice_engine_submit(engine_, first, 3, &options, &a));
  expectOk(sluice_engine_submit(engine_, second, 1, nullptr, &b)); // up to the context limit
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, sluice_finish_reason> reasons;
  for (int32_t more = 1; more != 0;) {
    if (tokens[b].size() == 8) {
      expectOk(sluice_engine_cancel(engine_, b));
    }
    expectOk(sluice_engine_step(engine_, &more));
    sluice_event event = {};
    event.struct_bytes = sizeof(event);
    for (;;) {
      expectOk(sluice_engine_next_event(engine_, &event));
      if (event.kind == SLUICE_EVENT_NONE) {
        break;
      }
      EXPECT_STREQ(event.text, ""); // no tokenizer
      if (event.kind == SLUICE_EVENT_TOKEN) {
        tokens[event.request].push_back(event.token);
      } else {
        reasons[event.request] = event.reason;
        EXPECT_EQ(event.generated_tokens, tokens[event.request].size());
      }
    }
  }
  EXPECT_EQ(tokens[a], fake::greedy({1, 2, 3}, 5));
  EXPECT_EQ(tokens[b], fake::greedy({4}, 8));
  EXPECT_EQ(reasons[a], SLUICE_FINISH_LENGTH);
  EXPECT_EQ(reasons[b], SLUICE_FINISH_CANCELLED);
  expectCode(sluice_engine_cancel(engine_, b), SLUICE_NOT_FOUND, "has ended");
}

TEST_F(CApiTest, EvaluatesLogits) {
  const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  for (const uint32_t chunk : {0U, 2U}) {
    std::vector<float> logits(ids.size() * kVocab, -1);
    expectOk(sluice_engine_evaluate(engine_, ids.data(), ids.size(), chunk, logits.data()));
    for (size_t position = 0; position < ids.size(); ++position) {
      const auto expected = fake::logitsOf(ids, position);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             logits.begin() + static_cast<std::ptrdiff_t>(position * kVocab)));
    }
  }
}

TEST_F(CApiTest, WrongUseIsAStatus) {
  sluice_engine *none = nullptr;
  expectCode(sluice_engine_open(nullptr, nullptr, &none), SLUICE_INVALID_ARGUMENT, "null");
  expectCode(sluice_engine_open("absent.sluice", nullptr, &none), SLUICE_NOT_FOUND,
             "absent.sluice: can't open");
  EXPECT_EQ(none, nullptr);
  uint64_t id = 0;
  const int32_t ids[] = {99};
  expectCode(sluice_engine_submit(engine_, ids, 1, nullptr, &id), SLUICE_INVALID_ARGUMENT,
             "outside the vocabulary");
  expectCode(sluice_engine_submit(engine_, nullptr, 1, nullptr, &id), SLUICE_INVALID_ARGUMENT,
             "null");
  sluice_request_options options = {};
  expectCode(sluice_engine_submit(engine_, ids, 1, &options, &id), SLUICE_INVALID_ARGUMENT,
             "struct_bytes is 0");
  sluice_event event = {};
  expectCode(sluice_engine_next_event(engine_, &event), SLUICE_INVALID_ARGUMENT, "struct_bytes");
  size_t count = 0;
  expectCode(sluice_engine_tokenize(engine_, "a", 1, 1, 0, nullptr, 0, &count), SLUICE_UNSUPPORTED,
             "no tokenizer");
  expectCode(sluice_engine_detokenize(engine_, ids, 1, 1, nullptr, 0, &count), SLUICE_UNSUPPORTED,
             "no tokenizer");
  sluice_status_destroy(nullptr);
  sluice_engine_close(nullptr);
  EXPECT_STREQ(sluice_status_message(nullptr), "");
}

} // namespace
} // namespace sluice
