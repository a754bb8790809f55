// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Program and ProgramPlan: the fake model through real packages, code, thread pool and paged cache.
#include "runtime/program/Program.h"

#include "runtime/device/CpuDevice.h"
#include "test/runtime/PackageBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>

namespace sluice {
namespace {

using fake::kBlockTokens;
using fake::kVocab;
using testing::HasSubstr;

using Tables = std::vector<std::vector<int32_t>>; // [groups][seqs * maxBlocks]

// The pieces that outlive a program.
struct Loaded {
  explicit Loaded(const fake::PackageSpec &spec, uint32_t threads = 2)
      : file(buildPackage(spec)), device(threads) {
    auto opened = PackageReader::open(file.path());
    EXPECT_TRUE(opened) << opened.error().message();
    package.emplace(std::move(*opened));
  }
  Result<std::unique_ptr<Program>> create(const ProgramOptions &options) {
    return Program::create(*package, "step", device, options);
  }

  fake::TemporaryFile file;
  std::optional<PackageReader> package;
  CpuDevice device;
};

fake::PackageSpec model() { return fake::fakeModel(fake::readFile(SLUICE_FAKE_KERNELS)); }

ProgramOptions options() {
  ProgramOptions o;
  o.capacity = {100, 5, 50, 64};
  o.numBlocks = {40, 30};
  return o;
}

// One step's vectors; input() views them.
struct Step {
  std::vector<int32_t> ids, positions, seqStart = {0}, kvLength, logitRows;
  Tables tables = Tables(2);
  uint32_t maxBlocks = 16;
  std::vector<std::span<const int32_t>> views;

  // Rows [begin, end) of `tokens`; block b of the sequence is firstBlock + b in both groups.
  void add(const std::vector<int32_t> &tokens, size_t begin, size_t end, int32_t firstBlock) {
    for (size_t i = begin; i < end; ++i) {
      logitRows.push_back(static_cast<int32_t>(ids.size()));
      ids.push_back(tokens[i]);
      positions.push_back(static_cast<int32_t>(i));
    }
    seqStart.push_back(static_cast<int32_t>(ids.size()));
    kvLength.push_back(static_cast<int32_t>(end));
    for (auto &table : tables) {
      for (uint32_t b = 0; b < maxBlocks; ++b) {
        table.push_back(b * kBlockTokens < end ? firstBlock + static_cast<int32_t>(b) : -1);
      }
    }
  }
  StepInput input() {
    views.assign(tables.begin(), tables.end());
    StepInput in;
    in.tokenIds = ids;
    in.positions = positions;
    in.seqStart = seqStart;
    in.kvLength = kvLength;
    in.blockTables = views;
    in.maxBlocks = maxBlocks;
    in.logitRows = logitRows;
    return in;
  }
};

std::vector<int32_t> someTokens(size_t count, uint32_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(static_cast<int32_t>((seed >> 16) % kVocab));
  }
  return tokens;
}

TEST(Program, TwoSequencesInChunksEqualTheReference) {
  Loaded loaded(model());
  auto program = loaded.create(options());
  ASSERT_TRUE(program) << program.error().message();
  const auto a = someTokens(30, 1);
  const auto b = someTokens(23, 2);
  // Chunks of both sequences side by side; the second begins later and steps row by row.
  const std::vector<std::array<size_t, 4>> chunks = {
      {0, 7, 0, 0}, {7, 8, 0, 20}, {8, 30, 20, 21}, {30, 30, 21, 23}};
  for (const auto &[aBegin, aEnd, bBegin, bEnd] : chunks) {
    Step step;
    std::vector<std::vector<float>> expected;
    if (aEnd > aBegin) {
      step.add(a, aBegin, aEnd, 3);
    }
    if (bEnd > bBegin) {
      step.add(b, bBegin, bEnd, 20);
    }
    for (size_t i = aBegin; i < aEnd; ++i) {
      expected.push_back(fake::logitsOf(a, i));
    }
    for (size_t i = bBegin; i < bEnd; ++i) {
      expected.push_back(fake::logitsOf(b, i));
    }
    const Status status = (*program)->run(step.input());
    ASSERT_TRUE(status) << status.message();
    const auto logits = (*program)->logits();
    ASSERT_EQ(logits.size(), expected.size() * kVocab);
    for (size_t row = 0; row < expected.size(); ++row) {
      const auto got = logits.subspan(row * kVocab, kVocab);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), expected[row].begin())) << row;
    }
  }
}

TEST(Program, DroppedBlocksOutsideTheWindowAreFine) {
  Loaded loaded(model());
  auto program = loaded.create(options());
  ASSERT_TRUE(program);
  const auto tokens = someTokens(30, 3);
  Step prefill;
  prefill.add(tokens, 0, 29, 0);
  ASSERT_TRUE((*program)->run(prefill.input()));
  Step decode;
  decode.add(tokens, 29, 30, 0);
  // The row at index 29 sees 24 ... 29 in group 1: blocks 6 and 7.
  for (size_t b = 0; b < 6; ++b) {
    decode.tables[1][b] = -1;
  }
  ASSERT_TRUE((*program)->run(decode.input()));
  const auto expected = fake::logitsOf(tokens, 29);
  const auto logits = (*program)->logits();
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin(), expected.end()));
  decode.tables[1][6] = -1;
  const Status missing = (*program)->run(decode.input());
  EXPECT_EQ(missing.code(), Code::InvalidArgument);
  EXPECT_EQ(missing.message(), "step: group 1, sequence 0: block 6 is needed and not there");
}

TEST(Program, ChecksTheWholeInputBeforeAnythingRuns) {
  Loaded loaded(model());
  auto program = loaded.create(options());
  ASSERT_TRUE(program);
  struct Case {
    const char *message;
    std::function<void(Step &)> spoil;
    Code code = Code::InvalidArgument;
  };
  const std::vector<Case> cases = {
      {"token id 32 of row 3 is outside [0, 32)", [](Step &s) { s.ids[3] = 32; }},
      {"token id -1 of row 3", [](Step &s) { s.ids[3] = -1; }},
      {"position -1 of row 0", [](Step &s) { s.positions[0] = -1; }},
      {"logit row 8 of row 1 is outside [0, 8)", [](Step &s) { s.logitRows[1] = 8; }},
      {"block 40 of row 0 is outside [-1, 40)", [](Step &s) { s.tables[0][0] = 40; }},
      {"block 30 of row 1 is outside [-1, 30)", [](Step &s) { s.tables[1][1] = 30; }},
      {"block -2", [](Step &s) { s.tables[1][1] = -2; }},
      {"block 1 is needed and not there", [](Step &s) { s.tables[0][1] = -1; }},
      {"block table of group 1 has 15 entries, expected 16",
       [](Step &s) { s.tables[1].pop_back(); }},
      {"has 8 rows and a cache of 7 tokens", [](Step &s) { s.kvLength[0] = 7; }},
      {"do not agree", [](Step &s) { s.seqStart[0] = 1; }},
      {"do not agree", [](Step &s) { s.seqStart[1] = 7; }},
      {"do not agree", [](Step &s) { s.positions.pop_back(); }},
      {"do not agree", [](Step &s) { s.tables.pop_back(); }},
      {"do not agree",
       [](Step &s) {
         s.ids.clear();
         s.positions.clear();
         s.seqStart = {0};
         s.kvLength.clear();
       }},
      {"65 tokens of one sequence, the capacity is 64", [](Step &s) { s.kvLength[0] = 65; },
       Code::Capacity},
      {"101 rows, the capacity is 100", [](Step &s) { s.ids.resize(101); }, Code::Capacity},
      {"6 sequences, the capacity is 5", [](Step &s) { s.kvLength.resize(6); }, Code::Capacity},
      {"51 logit rows, the capacity is 50", [](Step &s) { s.logitRows.resize(51); },
       Code::Capacity},
      {"17 blocks of one sequence, the capacity is 16", [](Step &s) { s.maxBlocks = 17; },
       Code::Capacity},
      {"the block tables are too short",
       [](Step &s) {
         s.maxBlocks = 1;
         s.tables[0].resize(1);
         s.tables[1].resize(1);
       }},
  };
  const auto tokens = someTokens(8, 4);
  ASSERT_TRUE([&] {
    Step s;
    s.add(tokens, 0, 8, 0);
    return (*program)->run(s.input());
  }());
  for (const Case &c : cases) {
    Step step;
    step.add(tokens, 0, 8, 0);
    c.spoil(step);
    const Status status = (*program)->run(step.input());
    EXPECT_EQ(status.code(), c.code) << c.message;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
    EXPECT_EQ((*program)->logits().size(), 8 * kVocab); // of the last good step
  }
}

TEST(Program, ProbesAndFewRowVariantsRunWhenAsked) {
  Loaded loaded(model());
  auto program = loaded.create(options());
  ASSERT_TRUE(program);
  const auto tokens = someTokens(8, 5);
  int calls = 0;
  int32_t variant = 0;
  uint64_t rows = 0;
  const ProbeSink sink = [&](const ProbeView &view) {
    ++calls;
    EXPECT_EQ(view.name, "router_ids");
    EXPECT_EQ(view.layer, 3U);
    EXPECT_TRUE(view.isInteger);
    EXPECT_EQ(view.rowWidth, 2U);
    rows = view.rows;
    const auto *data = static_cast<const int32_t *>(view.data);
    variant = data[0];
    for (uint64_t r = 0; r < rows; ++r) {
      EXPECT_EQ(data[r * 2], variant);
      EXPECT_EQ(data[r * 2 + 1], static_cast<int32_t>(r));
    }
  };
  const auto run = [&](size_t begin, size_t end, bool probes) {
    Step step;
    step.add(tokens, begin, end, 0);
    StepInput input = step.input();
    input.probes = probes ? &sink : nullptr;
    input.logitRows = {};
    return (*program)->run(input);
  };
  ASSERT_TRUE(run(0, 4, false));
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(run(0, 4, true));
  EXPECT_EQ(variant, 1); // 4 rows: many
  EXPECT_EQ(rows, 4U);
  ASSERT_TRUE(run(4, 7, true));
  EXPECT_EQ(variant, 2); // 3 rows: few
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE((*program)->logits().empty());
}

TEST(Program, RefusesWhatItCanNotRun) {
  const auto statusOf = [](const fake::PackageSpec &spec, const ProgramOptions &o) {
    Loaded loaded(spec);
    const auto program = loaded.create(o);
    return program ? Status::ok() : program.error();
  };
  ASSERT_TRUE(statusOf(model(), options()));
  const auto withOptions = [&](const std::function<void(ProgramOptions &)> &edit) {
    ProgramOptions o = options();
    edit(o);
    return statusOf(model(), o);
  };
  EXPECT_EQ(withOptions([](auto &o) { o.capacity.tokens = 0; }).code(), Code::InvalidArgument);
  EXPECT_EQ(withOptions([](auto &o) { o.capacity.maxKv = 1U << 31; }).code(),
            Code::InvalidArgument);
  EXPECT_EQ(withOptions([](auto &o) { o.numBlocks = {1}; }).code(), Code::InvalidArgument);
  EXPECT_EQ(withOptions([](auto &o) { o.numBlocks = {1, 0}; }).code(), Code::InvalidArgument);
  EXPECT_EQ(withOptions([](auto &o) { o.code = 1; }).code(), Code::InvalidArgument);
  const auto withSpec = [&](const std::function<void(fake::PackageSpec &)> &edit) {
    fake::PackageSpec spec = model();
    edit(spec);
    return statusOf(spec, options());
  };
  using manifest::Offset;
  EXPECT_THAT(withSpec([](auto &p) { p.buffers[17].name = "hidden"; }).message(),
              HasSubstr("no logits"));
  EXPECT_THAT(withSpec([](auto &p) { p.buffers[17].perUnit = 31; }).message(),
              HasSubstr("logits are not [logit_rows, 32] f32"));
  EXPECT_THAT(withSpec([](auto &p) { p.buffers[0].perUnit = 0; }).message(),
              HasSubstr("buffer 0: smaller than this input"));
  EXPECT_THAT(withSpec([](auto &p) { p.buffers[2].fixed = 0; }).message(),
              HasSubstr("buffer 2: smaller than this input"));
  EXPECT_THAT(withSpec([](auto &p) { p.buffers[12].offset = Offset(4, 0, 0, 0); }).message(),
              HasSubstr("buffer 12: [4, + 512) is not aligned"));
  EXPECT_THAT(withSpec([](auto &p) { p.buffers[16].offset = Offset(64, 16, 0, 0); }).message(),
              HasSubstr("buffer 16: ["));
  EXPECT_EQ(
      withSpec([](auto &p) { p.buffers[16].offset = Offset(0, UINT64_MAX / 2, 0, 0); }).code(),
      Code::OutOfMemory);
  EXPECT_EQ(withSpec([](auto &p) { p.workspace = Offset(0, UINT64_MAX / 2, 0, 0); }).code(),
            Code::OutOfMemory);
  EXPECT_EQ(withSpec([](auto &p) { p.workspace = Offset(uint64_t{1} << 60, 0, 0, 0); }).code(),
            Code::OutOfMemory);
  EXPECT_EQ(withSpec([](auto &p) {
              p.functions[1].grid.assign(8,
                                         manifest::GridDim(manifest::Unit::Tokens, 1 << 16, 0, 1));
            }).code(),
            Code::OutOfMemory);
  EXPECT_EQ(withSpec([](auto &p) { p.entries[0].kind = manifest::EntryKind::Collective; }).code(),
            Code::Unsupported);
  EXPECT_THAT(withSpec([](auto &p) { p.functions[0].symbol = "gone"; }).message(),
              HasSubstr("does not export 'gone'"));
  EXPECT_EQ(withSpec([](auto &p) { p.program = "function"; }).code(), Code::NotFound);
}

TEST(ProgramPlan, InputsAndOutputsDoNotOverlapAndAreAligned) {
  Loaded loaded(model());
  const manifest::Program &program = *loaded.package->program("step");
  for (const uint32_t tokens : {1U, 63U, 64U, 65U, 1000U}) {
    const auto plan = ProgramPlan::make(program, kVocab, {tokens, 3, 2, 65}, {7, 5});
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_EQ(plan->maxBlocks, 17U);
    EXPECT_EQ(plan->poolBytes, (std::vector<uint64_t>{7 * 32, 5 * 32}));
    std::set<std::pair<uint64_t, uint64_t>> inputs;
    for (const BufferPlace &place : plan->buffers) {
      EXPECT_EQ(place.offset % 64, 0U);
      if (place.region == BufferPlace::Region::Inputs) {
        inputs.insert({place.offset, place.offset + place.bytes});
      }
    }
    uint64_t end = 0;
    for (const auto &[begin, next] : inputs) {
      EXPECT_GE(begin, end);
      end = next;
    }
    EXPECT_LE(end, plan->inputBytes);
    EXPECT_EQ(inputs.size(), 7U);
  }
}

} // namespace
} // namespace sluice
