// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PackageReader: a good package opens; every cut, flipped byte or spoiled number is a Status that
// names its place, never a crash.
#include "runtime/package/PackageReader.h"

#include "test/runtime/PackageBuilder.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using fake::Bytes;
using fake::PackageSpec;
using fake::TemporaryFile;
using testing::HasSubstr;
using testing::StartsWith;

PackageSpec spec() { return fake::fakeModel(Bytes(100, 0x90)); }

Status openStatus(const TemporaryFile &file, const PackageOptions &options = {}) {
  const auto reader = PackageReader::open(file.path(), options);
  return reader ? Status::ok() : reader.error();
}

Status statusOf(const Bytes &bytes, const PackageOptions &options = {}) {
  return openStatus(TemporaryFile(bytes), options);
}

// The header with its hash made right again after an edit.
void rehash(Bytes &file) {
  const uint64_t hash = XXH3_64bits(file.data(), offsetof(PackageHeader, headerHash));
  std::memcpy(file.data() + offsetof(PackageHeader, headerHash), &hash, sizeof(hash));
}

TEST(PackageReader, OpensAGoodPackage) {
  const TemporaryFile file(buildPackage(spec()));
  for (const bool prefault : {false, true}) {
    PackageOptions options;
    options.prefault = prefault;
    auto opened = PackageReader::open(file.path(), options);
    ASSERT_TRUE(opened) << opened.error().message();
    const PackageReader reader = std::move(*opened);
    EXPECT_EQ(reader.text(manifest::SectionKind::Text), "hi");
    EXPECT_EQ(reader.text(manifest::SectionKind::Tokenizer), std::nullopt);
    EXPECT_EQ(reader.section(0).size(), 100U);
    ASSERT_NE(reader.program("step"), nullptr);
    EXPECT_EQ(reader.program("walk"), nullptr);
    const auto weight = reader.weight(2);
    ASSERT_EQ(weight.size(), sizeof(uint32_t));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.data()) % kSectionAlignment, 0U);
    uint32_t window = 0;
    std::memcpy(&window, weight.data(), sizeof(window));
    EXPECT_EQ(window, fake::kWindow);
  }
}

TEST(PackageReader, EveryFlippedByteIsAnError) {
  const Bytes good = buildPackage(spec());
  ASSERT_LT(good.size(), 32768U);
  const TemporaryFile file(good);
  for (size_t i = 0; i < good.size(); ++i) {
    // each byte with one flipped bit, a different one from byte to byte
    const auto bad = static_cast<uint8_t>(good[i] ^ (2U << i % 7));
    ASSERT_TRUE(file.patch(i, &bad, 1));
    const Status status = openStatus(file);
    ASSERT_TRUE(file.patch(i, &good[i], 1));
    ASSERT_FALSE(status) << "byte " << i;
    const bool isVersion = i >= 8 && i < 12; // then it reads as a newer version
    ASSERT_EQ(status.code(), isVersion ? Code::Unsupported : Code::Corrupt)
        << i << status.message();
    ASSERT_THAT(status.message(), StartsWith(file.path() + ": "));
    if (!isVersion && i >= sizeof(kPackageMagic)) {
      ASSERT_THAT(status.message(), HasSubstr("offset ")) << i;
    }
  }
  EXPECT_TRUE(openStatus(file)); // all bytes are as before
}

TEST(PackageReader, EveryCutIsAnError) {
  const Bytes good = buildPackage(spec());
  const TemporaryFile file(good);
  for (size_t length = good.size() - 1; length != SIZE_MAX; --length) {
    ASSERT_EQ(::truncate(file.path().c_str(), static_cast<off_t>(length)), 0);
    ASSERT_EQ(openStatus(file).code(), Code::Corrupt) << length;
  }
  Bytes longer = good;
  longer.push_back(0);
  EXPECT_THAT(statusOf(longer).message(),
              HasSubstr("the file has " + std::to_string(longer.size()) + " bytes"));
}

TEST(PackageReader, EveryFlippedByteOfTheManifestIsSafeEvenWithTheRightHash) {
  // What a hostile writer could do: all hashes are right, the structure is not. Some flips are
  // harmless (a name), none may crash; sanitizers watch in check-all.
  const Bytes good = buildPackage(spec());
  const TemporaryFile file(good);
  PackageHeader header;
  std::memcpy(&header, good.data(), sizeof(header));
  Bytes bad = good;
  size_t refused = 0;
  for (size_t i = header.manifestOffset; i < good.size(); ++i) {
    for (const uint8_t change : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xff}}) {
      bad[i] = static_cast<uint8_t>(good[i] ^ change);
      const uint64_t hash = XXH3_64bits(bad.data() + header.manifestOffset, header.manifestBytes);
      std::memcpy(bad.data() + offsetof(PackageHeader, manifestHash), &hash, sizeof(hash));
      rehash(bad);
      ASSERT_TRUE(file.patch(0, bad.data(), sizeof(PackageHeader)) && file.patch(i, &bad[i], 1));
      refused += openStatus(file) ? 0 : 1;
    }
    bad[i] = good[i];
    ASSERT_TRUE(file.patch(i, &good[i], 1));
  }
  EXPECT_GT(refused, header.manifestBytes); // most of the 3 changes per byte
}

TEST(PackageReader, NewerVersionNamesTheRemedy) {
  PackageSpec p = spec();
  p.version = kFormatVersion + 1;
  const Status status = statusOf(buildPackage(p));
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_THAT(status.message(),
              HasSubstr("package version 2 is newer than this runtime reads (1); update sluice"));
}

TEST(PackageReader, WhatIsNoPackageIsSaidSo) {
  EXPECT_THAT(statusOf({}).message(), HasSubstr("not a .sluice package"));
  EXPECT_THAT(statusOf({'G', 'G', 'U', 'F', 3, 0, 0, 0, 1}).message(),
              HasSubstr("not a .sluice package"));
  const auto missing = PackageReader::open("no such file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::NotFound);
}

TEST(PackageReader, HeaderFieldsAreBoundedEvenWithTheRightHash) {
  const Bytes good = buildPackage(spec());
  const auto withField = [&](size_t offset, uint64_t value, size_t bytes) {
    Bytes bad = good;
    std::memcpy(bad.data() + offset, &value, bytes);
    rehash(bad);
    return statusOf(bad);
  };
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{63}, uint64_t{65}, uint64_t{1} << 40, UINT64_MAX}) {
    EXPECT_EQ(withField(offsetof(PackageHeader, manifestOffset), value, 8).code(), Code::Corrupt);
    EXPECT_EQ(withField(offsetof(PackageHeader, manifestBytes), value, 8).code(), Code::Corrupt);
    EXPECT_EQ(withField(offsetof(PackageHeader, fileBytes), value, 8).code(), Code::Corrupt);
  }
  EXPECT_EQ(withField(offsetof(PackageHeader, headerBytes), 63, 4).code(), Code::Corrupt);
  EXPECT_EQ(withField(offsetof(PackageHeader, version), 0, 4).code(), Code::Corrupt);
  EXPECT_EQ(withField(offsetof(PackageHeader, reserved), 1, 8).code(), Code::Corrupt);
}

TEST(PackageReader, WeightsAreCheckedInChunksAndOnlyWhenAsked) {
  PackageSpec p = spec();
  Bytes &weights = p.sections[2].bytes;
  weights.resize(3 * kWeightChunkBytes + 1000, 7);
  const Bytes good = buildPackage(p);
  ASSERT_TRUE(statusOf(good));
  const uint64_t begin = 3 * kSectionAlignment; // header, code, text: a page each
  for (const uint64_t chunk : {0U, 2U, 3U}) {
    Bytes bad = good;
    const uint64_t at = begin + chunk * kWeightChunkBytes;
    bad[at + 999] ^= 1;
    bad[begin + 3 * kWeightChunkBytes + 999] ^= 1; // the last chunk, too: the first one is named
    if (chunk == 3) {
      bad[at + 999] ^= 1;
    }
    for (const uint32_t threads : {0U, 1U, 5U}) {
      PackageOptions options;
      options.threads = threads;
      const Status status = statusOf(bad, options);
      EXPECT_EQ(status.code(), Code::Corrupt);
      EXPECT_THAT(status.message(),
                  HasSubstr("section weights, offset " + std::to_string(at) + ":"));
    }
    PackageOptions trusting;
    trusting.verify = Verify::Code;
    EXPECT_TRUE(statusOf(bad, trusting));
  }
}

struct Fault {
  const char *name;
  std::function<void(PackageSpec &)> spoil;
  const char *message;
};

std::vector<Fault> faults() {
  constexpr uint64_t kHuge = UINT64_MAX / 2;
  return {
      {"vocab", [](auto &p) { p.vocab = 0; }, "model: vocabulary of 0"},
      {"vocab too large", [](auto &p) { p.vocab = 1U << 31; }, "model: vocabulary of 2147483648"},
      {"eos", [](auto &p) { p.eosIds = {3, 32}; }, "token id 32 is outside [-1, 32)"},
      {"section beyond", [](auto &p) { p.sections[2].moreBytes = 1 << 20; },
       "section 2 (weights): ["},
      {"section wraps", [](auto &p) { p.sections[1].moreBytes = UINT64_MAX - 100; },
       "does not lie in the file"},
      {"section unaligned", [](auto &p) { p.sections[0].shift = 8; }, "does not begin at a page"},
      {"sections overlap", [](auto &p) { p.sections[0].shift = 4096; }, "overlaps section"},
      {"section over header", [](auto &p) { p.sections[0].shift = static_cast<uint64_t>(-4096); },
       "section 0 (code): overlaps header"},
      {"two weights", [](auto &p) { p.sections.push_back(p.sections[2]); }, "2 weights sections"},
      {"chunks",
       [](auto &p) {
         p.sections[2].bytes.clear();
         p.sections[2].moreBytes = 1;
       },
       "0 chunk hashes, expected 1"},
      {"section kind", [](auto &p) { p.sections[1].kind = static_cast<manifest::SectionKind>(77); },
       "section 1 (unknown): unknown kind 77"},
      {"weight beyond", [](auto &p) { p.weights[1].bytes = 8196; }, "weight 1: [4096, + 8196)"},
      {"weight wraps", [](auto &p) { p.weights[1].bytes = UINT64_MAX - 3; }, "weight 1: [4096, + "},
      {"weight unaligned", [](auto &p) { p.weights[1].offset = 64; }, "weight 1: [64"},
      {"weight element", [](auto &p) { p.weights[0].bytes = 3; },
       "weight 0: ends within an element"},
      {"code section", [](auto &p) { p.code[0].section = 1; },
       "code 0: section 1 is not a code section"},
      {"code section range", [](auto &p) { p.code[0].section = 9; }, "code 0: section 9"},
      {"block tokens", [](auto &p) { p.blockTokens = 0; }, "program 0: blocks of 0 tokens"},
      {"group bytes", [](auto &p) { p.groups[1].blockBytes = 0; }, "cache group 1: no block size"},
      {"group bytes differ", [](auto &p) { p.groups[1].blockBytes = 64; },
       "buffer 8: not whole blocks"},
      {"group window", [](auto &p) { p.groups[1].window = uint64_t{1} << 40; },
       "impossible window"},
      {"buffer group", [](auto &p) { p.buffers[8].group = 2; },
       "program 0, buffer 8: cache group 2 does not exist"},
      {"table group", [](auto &p) { p.buffers[5].group = 2; },
       "buffer 5: cache group 2 does not exist"},
      {"table unit", [](auto &p) { p.buffers[5].unit = manifest::Unit::Tokens; },
       "buffer 5: an input of the step is i32"},
      {"input element", [](auto &p) { p.buffers[0].element = manifest::ElementType::I64; },
       "buffer 0: an input"},
      {"buffer kind", [](auto &p) { p.buffers[0].kind = static_cast<manifest::BufferKind>(99); },
       "buffer 0: unknown kind"},
      {"buffer unit", [](auto &p) { p.buffers[0].unit = static_cast<manifest::Unit>(99); },
       "buffer 0: unknown kind"},
      {"buffer overflow", [](auto &p) { p.buffers[12].perUnit = kHuge; },
       "buffer 12: its size overflows"},
      {"buffer weight", [](auto &p) { p.buffers[9].weight = 3; },
       "buffer 9: weight 3 does not exist"},
      {"buffer larger than weight", [](auto &p) { p.buffers[9].fixed = 2; },
       "buffer 9: larger than its weight"},
      {"workspace without offset", [](auto &p) { p.buffers[12].offset.reset(); },
       "buffer 12: workspace without offset"},
      {"output name", [](auto &p) { p.buffers[17].name.clear(); },
       "buffer 17: an output without name"},
      {"symbol", [](auto &p) { p.functions[1].symbol.clear(); }, "function 1: no symbol"},
      {"grid tile",
       [](auto &p) { p.functions[1].grid = {manifest::GridDim(manifest::Unit::Tokens, 1, 0, 0)}; },
       "function 1: a grid dimension has tile 0"},
      {"grid unit",
       [](auto &p) { p.functions[1].grid = {manifest::GridDim(manifest::Unit::Blocks, 1, 0, 1)}; },
       "function 1: a grid dimension"},
      {"grid dimensions",
       [](auto &p) {
         p.functions[1].grid.resize(9, manifest::GridDim(manifest::Unit::Tokens, 1, 0, 1));
       },
       "function 1: no grid, or more"},
      {"scratch", [](auto &p) { p.functions[1].scratch = kHuge; }, "function 1: scratch of"},
      {"entry kind", [](auto &p) { p.entries[0].kind = static_cast<manifest::EntryKind>(9); },
       "entry 0: unknown kind"},
      {"entry function", [](auto &p) { p.entries[0].function = 6; },
       "entry 0: function does not exist"},
      {"entry few function", [](auto &p) { p.entries[5].fewFunction = 6; },
       "entry 5: function does not exist"},
      {"entry buffer", [](auto &p) { p.entries[0].buffers[1] = 18; },
       "entry 0: buffer 18 does not exist"},
      {"probe buffers", [](auto &p) { p.entries[7].buffers.clear(); },
       "entry 7: a probe has one buffer"},
      {"probe element", [](auto &p) { p.buffers[16].element = manifest::ElementType::BF16; },
       "entry 7: a probe is f32 or i32"},
  };
}

TEST(PackageReader, EverySpoiledNumberIsNamed) {
  for (const Fault &fault : faults()) {
    SCOPED_TRACE(fault.name);
    PackageSpec p = spec();
    fault.spoil(p);
    const Status status = statusOf(buildPackage(p));
    EXPECT_EQ(status.code(), Code::Corrupt);
    EXPECT_THAT(status.message(), HasSubstr(": section manifest: "));
    EXPECT_THAT(status.message(), HasSubstr(fault.message));
    EXPECT_THAT(status.message(), HasSubstr("; compile the package again"));
  }
}

} // namespace
} // namespace sluice
