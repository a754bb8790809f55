// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A package is written and read back: weights against the layouts' definitions, the manifest
// against the module, and what happens when writing fails.
#include "runtime/package/PackageFormat.h"

#include <csignal>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "PackageFixture.h"

using namespace mlir;
namespace m = sluice::manifest;

namespace sluicec::package {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PackageWriterTest : public PackageFixture {
protected:
  /// Writes the small model and opens it with the runtime's reader, which checks every hash.
  std::unique_ptr<sluice::PackageReader> writeAndOpen(PackageInputs inputs, int jobs = 2) {
    PackageOptions options;
    options.jobs = jobs;
    auto summary = writePackage(pathOf("m.sluice"), inputs, options);
    if (!summary) {
      ADD_FAILURE() << llvm::toString(summary.takeError());
      return nullptr;
    }
    written = *summary;
    auto reader = sluice::PackageReader::open(pathOf("m.sluice"), {});
    if (!reader) {
      ADD_FAILURE() << reader.error().message();
      return nullptr;
    }
    return std::make_unique<sluice::PackageReader>(std::move(*reader));
  }

  static std::string bytesOf(const sluice::PackageReader &reader, uint32_t weight) {
    auto bytes = reader.weight(weight);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }

  /// The first weight of that source, layout and role, or a failure.
  static uint32_t findWeight(const m::Manifest &manifest, StringRef name, StringRef layout) {
    for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
      const m::Weight &w = *manifest.weights()->Get(i);
      if (w.name()->str() == name && w.layout()->str() == layout) {
        return i;
      }
    }
    ADD_FAILURE() << "no weight " << name.str() << " in layout " << layout.str();
    return 0;
  }

  PackageSummary written;
};

TEST_F(PackageWriterTest, WeightsLieAsTheLayoutsSay) {
  parseSmallModel();
  auto reader = writeAndOpen(smallInputs());
  ASSERT_TRUE(reader);
  const m::Manifest &manifest = reader->manifest();

  // Plain: the file's own bytes.
  std::string plain;
  for (int64_t i = 0; i < 120; ++i) {
    plain += element("embed", i);
  }
  EXPECT_EQ(bytesOf(*reader, findWeight(manifest, "embed", "plain")), plain);

  // Panel of 64: [1, K = 6, 64] with columns 20.. zero.
  std::string panel;
  for (int64_t k = 0; k < 6; ++k) {
    for (int64_t j = 0; j < 64; ++j) {
      panel += j < 20 ? element("embed", j * 6 + k).str() : std::string(2, '\0');
    }
  }
  EXPECT_EQ(bytesOf(*reader, findWeight(manifest, "embed", "panel64")), panel);

  // Gated panels of 64 for 40 gates and 40 ups, per expert: 32 gate and 32 up columns, then 8
  // and 8.
  std::string gated;
  for (int64_t expert = 0; expert < 3; ++expert) {
    for (int64_t p = 0; p < 2; ++p) {
      for (int64_t k = 0; k < 6; ++k) {
        for (int64_t j = 0; j < 64; ++j) {
          int64_t column = p * 32 + j % 32, row = (j < 32 ? 0 : 40) + column;
          gated += column < 40 ? element("gate_up", (expert * 80 + row) * 6 + k).str()
                               : std::string(2, '\0');
        }
      }
    }
  }
  EXPECT_EQ(bytesOf(*reader, findWeight(manifest, "gate_up", "gated_panel64")), gated);
}

TEST_F(PackageWriterTest, EqualWeightsAreStoredOnce) {
  parseSmallModel();
  auto reader = writeAndOpen(smallInputs());
  ASSERT_TRUE(reader);
  // embed plain (twice in the program), embed in panels, router, gate_up, norm.
  EXPECT_EQ(reader->manifest().weights()->size(), 5u);
  std::vector<uint32_t> ofBuffers;
  for (const m::Buffer *buffer : *reader->program("step")->buffers()) {
    if (buffer->kind() == m::BufferKind::Weight) {
      ofBuffers.push_back(buffer->weight());
    }
  }
  EXPECT_THAT(ofBuffers, ElementsAre(0, 0, 1, 2, 3, 4));
}

TEST_F(PackageWriterTest, CountsParametersOnceAndActiveOnesByChoice) {
  parseSmallModel();
  auto reader = writeAndOpen(smallInputs());
  ASSERT_TRUE(reader);
  // The tied table counts once; of 3 experts 2 are active.
  EXPECT_EQ(written.parameters, 20u * 6 + 3 * 6 + 3 * 80 * 6 + 6);
  EXPECT_EQ(written.activeParameters, 20u * 6 + 3 * 6 + 2 * 80 * 6 + 6);
  EXPECT_EQ(reader->manifest().model()->active_parameters(), written.activeParameters);
  EXPECT_EQ(reader->manifest().model()->experts(), 3u);
  EXPECT_EQ(reader->manifest().model()->experts_per_token(), 2u);
}

TEST_F(PackageWriterTest, ManifestTellsTheProgram) {
  parseSmallModel();
  auto reader = writeAndOpen(smallInputs());
  ASSERT_TRUE(reader);
  const m::Program &program = *reader->program("step");
  EXPECT_EQ(program.kv_block_tokens(), 16u);
  EXPECT_EQ(program.workspace()->fixed(), 64u);
  EXPECT_EQ(program.workspace()->tokens(), 896u);
  EXPECT_EQ(program.workspace()->logit_rows(), 64u);
  ASSERT_EQ(program.groups()->size(), 1u);
  EXPECT_EQ(program.groups()->Get(0)->window(), 8u);
  EXPECT_EQ(program.groups()->Get(0)->block_bytes(), 192u * 2);
  EXPECT_EQ(program.groups()->Get(0)->element(), m::ElementType::F16);

  // Functions in the module's order; scratch is the largest of all variants.
  ASSERT_EQ(program.functions()->size(), 9u);
  EXPECT_EQ(program.functions()->Get(0)->symbol()->str(), "embedding_0");
  EXPECT_EQ(program.functions()->Get(0)->scratch_bytes(), 64u);
  EXPECT_EQ(program.functions()->Get(8)->scratch_bytes(), 4096u);
  const m::GridDim &tiles = *program.functions()->Get(6)->grid()->Get(0);
  EXPECT_EQ(tiles.unit(), m::Unit::Tokens);
  EXPECT_EQ(tiles.per_unit(), 2u);
  EXPECT_EQ(tiles.fixed(), 96u);
  EXPECT_EQ(tiles.tile(), 32u);

  // The launch list in order, with who needs each entry: what feeds the cache always, the head for
  // logits, the router for the probe alone here, and the experts for nothing.
  std::vector<uint32_t> needs;
  for (const m::Entry *entry : *program.entries()) {
    needs.push_back(entry->needed_for());
  }
  constexpr uint32_t kAlways = UINT32_MAX;
  EXPECT_THAT(needs, ElementsAre(kAlways, kAlways, kAlways, sluice::kOutputProbes,
                                 sluice::kOutputProbes, sluice::kOutputProbes, 0, 0,
                                 sluice::kOutputLogits, sluice::kOutputLogits));
  const m::Entry &probe = *program.entries()->Get(5);
  EXPECT_EQ(probe.kind(), m::EntryKind::Probe);
  EXPECT_EQ(probe.name()->str(), "router_ids");
  EXPECT_EQ(program.entries()->Get(9)->function(), 8u);
  EXPECT_EQ(program.entries()->Get(9)->few_function(), UINT32_MAX);

  std::vector<std::string> roles;
  for (const m::Weight *weight : *reader->manifest().weights()) {
    roles.push_back(weight->role()->str());
  }
  EXPECT_THAT(roles, ElementsAre("embedding", "linear", "router", "experts", "vector"));
}

TEST_F(PackageWriterTest, HoldsCodeTextsAndFacts) {
  parseSmallModel();
  PackageInputs inputs = smallInputs();
  inputs.facts.padId = 20; // the vocabulary has 20
  auto reader = writeAndOpen(inputs);
  ASSERT_TRUE(reader);
  const m::Manifest &manifest = reader->manifest();
  ASSERT_EQ(manifest.code()->size(), 2u);
  const m::Code &second = *manifest.code()->Get(1);
  EXPECT_EQ(second.target()->str(), "x86-64-v4");
  EXPECT_EQ(second.features()->Get(0)->str(), "avx512f");
  auto code = reader->section(second.section());
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(code.data()), code.size()),
            std::string(inputs.code[1].sharedObject.begin(), inputs.code[1].sharedObject.end()));
  EXPECT_EQ(reader->text(m::SectionKind::Tokenizer), inputs.texts.tokenizer.str());
  EXPECT_EQ(reader->text(m::SectionKind::ChatTemplate), inputs.texts.chatTemplate.str());
  EXPECT_FALSE(reader->text(m::SectionKind::TokenizerConfig).has_value());
  EXPECT_EQ(manifest.model()->vocab(), 20u);
  EXPECT_EQ(manifest.model()->context(), 64u);
  EXPECT_EQ(manifest.model()->bos_id(), 1);
  EXPECT_EQ(manifest.model()->pad_id(), -1);
  EXPECT_EQ(std::vector<int32_t>(manifest.model()->eos_ids()->begin(),
                                 manifest.model()->eos_ids()->end()),
            (std::vector<int32_t>{2, 19}));
  ASSERT_EQ(manifest.warnings()->size(), 1u);
  EXPECT_THAT(manifest.warnings()->Get(0)->str(), HasSubstr("padding id 20 is outside"));
  EXPECT_FLOAT_EQ(manifest.generation()->temperature(), 0.5f);
  EXPECT_EQ(manifest.generation()->top_k(), 7);
  EXPECT_FLOAT_EQ(manifest.generation()->top_p(), -1.0f);
  EXPECT_EQ(manifest.provenance()->options()->str(), "--jobs=2");
}

// A weight over several chunks of 4 MiB: the same bytes with any number of threads, and progress
// that ends at the whole.
TEST_F(PackageWriterTest, ManyChunksAndThreadsGiveTheSameBytes) {
  addWeight("big", {700, 2600}, "f32"); // 7 MiB in 11 panels
  addWeight("small", {3}, "f32");
  parse(R"mlir(
module {
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} {
    %s = lm.weight "small" : tensor<3xf32>
    %small = kernel.weight %s <plain, 0> : tensor<3xf32> -> <fixed * 0 + 3 x f32>
    %b = lm.weight "big" : tensor<700x2600xf32>
    %panels = kernel.weight %b <panel, 64> : tensor<700x2600xf32> -> <fixed * 0 + 1830400 x f32>
    %plain = kernel.weight %b <plain, 0> : tensor<700x2600xf32> -> <fixed * 0 + 1820000 x f32>
    %o = kernel.output "logits" : <logit_rows * 10 + 0 x f32>
  }
}
)mlir");
  PackageInputs inputs;
  inputs.kernelModule = *module;
  inputs.weights = &store;
  std::string first;
  for (int jobs : {1, 3}) {
    PackageOptions options;
    options.jobs = jobs;
    uint64_t done = 0, total = 1;
    options.progress = [&](uint64_t d, uint64_t t) {
      EXPECT_GT(d, done);
      done = d;
      total = t;
    };
    std::string path = pathOf("p" + std::to_string(jobs));
    auto summary = writePackage(path, inputs, options);
    ASSERT_TRUE(static_cast<bool>(summary)) << llvm::toString(summary.takeError());
    EXPECT_EQ(summary->parameters, 700u * 2600 + 3);
    EXPECT_EQ(done, summary->weightBytes);
    auto reader = sluice::PackageReader::open(path, {});
    ASSERT_TRUE(static_cast<bool>(reader)) << reader.error().message();
    if (jobs == 1) {
      first = contentsOf(path);
      std::string packed = bytesOf(*reader, 1), plain = bytesOf(*reader, 2);
      for (int64_t i = 0; i < 1830400; i += 997) { // a sample; 997 is prime to 64 and 2600
        int64_t panel = i / (64 * 2600), k = i / 64 % 2600, row = panel * 64 + i % 64;
        std::string expected =
            row < 700 ? element("big", row * 2600 + k).str() : std::string(4, '\0');
        ASSERT_EQ(packed.substr(static_cast<size_t>(i) * 4, 4), expected) << "element " << i;
      }
      ArrayRef<char> stored = store.bytes("big");
      EXPECT_EQ(plain, StringRef(stored.data(), stored.size()).str());
    }
    EXPECT_EQ(contentsOf(path), first);
  }
}

TEST_F(PackageWriterTest, NamesCodeThatLacksAKernel) {
  parseSmallModel();
  PackageInputs inputs = smallInputs();
  code[1].scratchBytes.erase(code[1].scratchBytes.begin());
  auto summary = writePackage(pathOf("m.sluice"), inputs, {});
  ASSERT_FALSE(static_cast<bool>(summary));
  EXPECT_EQ(llvm::toString(summary.takeError()), "code for x86-64-v4 lacks kernel 'embedding_0'");
}

TEST_F(PackageWriterTest, NamesAWeightThatIsMissingAndKeepsTheOldFile) {
  parseSmallModel();
  ASSERT_TRUE(writeAndOpen(smallInputs()));
  std::string before = contentsOf(pathOf("m.sluice"));
  support::WeightStore empty;
  PackageInputs inputs = smallInputs();
  inputs.weights = &empty;
  std::string diagnostic;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) { diagnostic = d.str(); });
  auto summary = writePackage(pathOf("m.sluice"), inputs, {});
  ASSERT_FALSE(static_cast<bool>(summary));
  EXPECT_THAT(llvm::toString(summary.takeError()), HasSubstr("weight 'embed'"));
  EXPECT_THAT(diagnostic, HasSubstr("not among the model's tensors"));
  EXPECT_EQ(contentsOf(pathOf("m.sluice")), before);
  EXPECT_THAT(filesInFolder(), ElementsAre("m.sluice"));
}

TEST_F(PackageWriterTest, RefusesPathsThatAreNoFiles) {
  parseSmallModel();
  auto toFolder = writePackage(folder, smallInputs(), {});
  ASSERT_FALSE(static_cast<bool>(toFolder));
  EXPECT_THAT(llvm::toString(toFolder.takeError()), HasSubstr("is no regular file"));
  auto toDevice = writePackage("/dev/null", smallInputs(), {});
  ASSERT_FALSE(static_cast<bool>(toDevice));
  EXPECT_THAT(llvm::toString(toDevice.takeError()), HasSubstr("/dev/null: is no regular file"));
  auto nowhere = writePackage(pathOf("absent/m.sluice"), smallInputs(), {});
  ASSERT_FALSE(static_cast<bool>(nowhere));
  EXPECT_THAT(llvm::toString(nowhere.takeError()), HasSubstr("absent/m.sluice: can't be made"));
}

// A limit on the size of files stands in for a full disk: both stop at the reservation.
TEST_F(PackageWriterTest, ReportsAFileThatDoesNotFit) {
  parseSmallModel();
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto oldHandler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1024, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto summary = writePackage(pathOf("m.sluice"), smallInputs(), {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, oldHandler);
  ASSERT_FALSE(static_cast<bool>(summary));
  EXPECT_THAT(llvm::toString(summary.takeError()), HasSubstr("m.sluice: can't reserve"));
  EXPECT_THAT(filesInFolder(), ElementsAre());
}

} // namespace
} // namespace sluicec::package
