// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes packages for tests of the runtime from plain structures that a test may spoil, without the
// compiler's writer; and the fake model's package.
#pragma once

#include "runtime/package/PackageFormat.h"
#include "runtime/package/package_generated.h"
#include "test/runtime/FakeModel.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

namespace sluice::fake {

using Bytes = std::vector<uint8_t>;

struct BufferSpec {
  manifest::BufferKind kind = manifest::BufferKind::Workspace;
  manifest::Unit unit = manifest::Unit::Fixed;
  uint64_t perUnit = 0;
  uint64_t fixed = 0;
  manifest::ElementType element = manifest::ElementType::I32;
  manifest::InputKind input = manifest::InputKind::TokenIds;
  uint32_t group = 0;
  std::string name;
  uint32_t weight = 0;
  std::optional<manifest::Offset> offset;
};
struct FunctionSpec {
  std::string symbol;
  std::vector<manifest::GridDim> grid;
  uint64_t scratch = 0;
};
struct EntrySpec {
  manifest::EntryKind kind = manifest::EntryKind::Kernel;
  uint32_t function = 0;
  std::vector<uint32_t> buffers;
  uint32_t fewFunction = UINT32_MAX;
  uint32_t fewRows = 0;
  std::string name;
  uint32_t layer = 0;
  uint32_t neededFor = UINT32_MAX;
};
struct GroupSpec {
  uint64_t window = 0;
  uint64_t blockBytes = 0;
};
struct WeightSpec {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  manifest::ElementType element = manifest::ElementType::I32;
};
struct CodeSpec {
  std::string target = "test";
  std::string arch;
  std::vector<std::string> features;
  uint32_t section = 0;
};
struct SectionSpec {
  manifest::SectionKind kind = manifest::SectionKind::Text;
  Bytes bytes;
  uint64_t shift = 0;     // added to the true offset
  uint64_t moreBytes = 0; // added to the true size
};

struct PackageSpec {
  uint32_t vocab = kVocab;
  uint64_t context = 64;
  std::vector<int32_t> eosIds;
  std::string program = "step";
  uint32_t blockTokens = kBlockTokens;
  std::vector<BufferSpec> buffers;
  std::vector<FunctionSpec> functions;
  std::vector<EntrySpec> entries;
  std::vector<GroupSpec> groups;
  manifest::Offset workspace;
  std::vector<WeightSpec> weights;
  std::vector<CodeSpec> code;
  std::vector<SectionSpec> sections;
  uint32_t version = kFormatVersion;
};

inline uint64_t roundUpTo(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline flatbuffers::Offset<manifest::Program> writeProgram(flatbuffers::FlatBufferBuilder &b,
                                                           const PackageSpec &spec) {
  std::vector<flatbuffers::Offset<manifest::Buffer>> buffers;
  for (const BufferSpec &s : spec.buffers) {
    const auto name = s.name.empty() ? 0 : b.CreateString(s.name);
    manifest::BufferBuilder t(b);
    t.add_kind(s.kind);
    t.add_unit(s.unit);
    t.add_per_unit(s.perUnit);
    t.add_fixed(s.fixed);
    t.add_element(s.element);
    t.add_input(s.input);
    t.add_group(s.group);
    t.add_name(name);
    t.add_weight(s.weight);
    if (s.offset) {
      t.add_offset(&*s.offset);
    }
    buffers.push_back(t.Finish());
  }
  std::vector<flatbuffers::Offset<manifest::Entry>> entries;
  for (const EntrySpec &s : spec.entries) {
    entries.push_back(manifest::CreateEntry(
        b, s.kind, s.function, b.CreateVector(s.buffers), s.fewFunction, s.fewRows,
        s.name.empty() ? 0 : b.CreateString(s.name), s.layer, s.neededFor));
  }
  std::vector<flatbuffers::Offset<manifest::CacheGroup>> groups;
  for (const GroupSpec &s : spec.groups) {
    groups.push_back(manifest::CreateCacheGroup(b, s.window, manifest::ElementType::I32, 1, 1, 1, 1,
                                                s.blockBytes));
  }
  std::vector<flatbuffers::Offset<manifest::Function>> functions;
  for (const FunctionSpec &s : spec.functions) {
    functions.push_back(manifest::CreateFunction(b, b.CreateString(s.symbol),
                                                 b.CreateVectorOfStructs(s.grid), s.scratch));
  }
  return manifest::CreateProgram(b, b.CreateString(spec.program), b.CreateVector(buffers),
                                 b.CreateVector(entries), b.CreateVector(groups), spec.blockTokens,
                                 &spec.workspace, b.CreateVector(functions));
}

inline flatbuffers::Offset<manifest::Section> writeSection(flatbuffers::FlatBufferBuilder &b,
                                                           const SectionSpec &s, uint64_t offset) {
  std::vector<uint64_t> chunks;
  uint64_t hash = XXH3_64bits(s.bytes.data(), s.bytes.size());
  if (s.kind == manifest::SectionKind::Weights) {
    for (uint64_t at = 0; at < s.bytes.size(); at += kWeightChunkBytes) {
      chunks.push_back(XXH3_64bits(s.bytes.data() + at,
                                   std::min<uint64_t>(kWeightChunkBytes, s.bytes.size() - at)));
    }
    hash = XXH3_64bits(chunks.data(), chunks.size() * sizeof(uint64_t));
  }
  return manifest::CreateSection(b, s.kind, offset + s.shift, s.bytes.size() + s.moreBytes, hash,
                                 b.CreateVector(chunks), b.CreateString("section"));
}

/// The bytes of a package: header, sections at page borders, manifest at the end.
inline Bytes buildPackage(const PackageSpec &spec) {
  Bytes file(sizeof(PackageHeader), 0);
  std::vector<uint64_t> offsets;
  for (const SectionSpec &s : spec.sections) {
    file.resize(roundUpTo(file.size(), kSectionAlignment), 0);
    offsets.push_back(file.size());
    file.insert(file.end(), s.bytes.begin(), s.bytes.end());
  }
  file.resize(roundUpTo(file.size(), 16), 0);

  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<manifest::Section>> sections;
  for (size_t i = 0; i < spec.sections.size(); ++i) {
    sections.push_back(writeSection(b, spec.sections[i], offsets[i]));
  }
  std::vector<flatbuffers::Offset<manifest::Weight>> weights;
  for (const WeightSpec &s : spec.weights) {
    weights.push_back(
        manifest::CreateWeight(b, b.CreateString("w"), s.element, 0, 0, s.offset, s.bytes));
  }
  std::vector<flatbuffers::Offset<manifest::Code>> code;
  for (const CodeSpec &s : spec.code) {
    code.push_back(manifest::CreateCode(b, b.CreateString(s.target), b.CreateString(s.arch),
                                        b.CreateString("generic"),
                                        b.CreateVectorOfStrings(s.features), s.section));
  }
  const auto eos = b.CreateVector(spec.eosIds);
  const auto model = manifest::CreateModel(b, spec.vocab, spec.context, 1, 1, -1, eos);
  const std::vector<flatbuffers::Offset<manifest::Program>> programs = {writeProgram(b, spec)};
  b.Finish(manifest::CreateManifest(b, model, b.CreateVector(programs), b.CreateVector(weights),
                                    b.CreateVector(code), b.CreateVector(sections)),
           manifest::ManifestIdentifier());

  PackageHeader header = {};
  std::memcpy(header.magic, kPackageMagic, sizeof(header.magic));
  header.version = spec.version;
  header.headerBytes = sizeof(header);
  header.manifestOffset = file.size();
  header.manifestBytes = b.GetSize();
  header.manifestHash = XXH3_64bits(b.GetBufferPointer(), b.GetSize());
  file.insert(file.end(), b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
  header.fileBytes = file.size();
  header.headerHash = XXH3_64bits(&header, offsetof(PackageHeader, headerHash));
  std::memcpy(file.data(), &header, sizeof(header));
  return file;
}

/// Buffers of the fake model; the comments give their numbers.
inline void addFakeBuffers(PackageSpec &p, Bytes &weightBytes) {
  using manifest::BufferKind;
  using manifest::InputKind;
  using manifest::Unit;
  const auto add = [&p](BufferKind kind, Unit unit, uint64_t perUnit,
                        uint64_t fixed) -> BufferSpec & {
    p.buffers.emplace_back();
    BufferSpec &s = p.buffers.back();
    s.kind = kind;
    s.unit = unit;
    s.perUnit = perUnit;
    s.fixed = fixed;
    return s;
  };
  add(BufferKind::Input, Unit::Tokens, 1, 0).input = InputKind::TokenIds;  // 0
  add(BufferKind::Input, Unit::Tokens, 1, 0).input = InputKind::Positions; // 1
  add(BufferKind::Input, Unit::Seqs, 1, 1).input = InputKind::SeqStart;    // 2
  add(BufferKind::Input, Unit::Seqs, 1, 0).input = InputKind::KvLength;    // 3
  add(BufferKind::Input, Unit::Table, 1, 0).input = InputKind::BlockTable; // 4
  add(BufferKind::Input, Unit::Table, 1, 0).input = InputKind::BlockTable; // 5
  p.buffers.back().group = 1;
  add(BufferKind::Input, Unit::LogitRows, 1, 0).input = InputKind::LogitRows; // 6
  for (const uint32_t group : {0U, 1U}) {                                     // 7, 8
    add(BufferKind::Cache, Unit::Blocks, kBlockInts, 0).group = group;
    p.groups.push_back({group == 0 ? 0 : kWindow, kBlockInts * sizeof(int32_t)});
  }
  for (const uint32_t value : {kSalt, 0U, static_cast<uint32_t>(kWindow)}) { // 9, 10, 11
    add(BufferKind::Weight, Unit::Fixed, 0, 1).weight = static_cast<uint32_t>(p.weights.size());
    weightBytes.resize(roundUpTo(weightBytes.size(), kSectionAlignment), 0);
    p.weights.push_back({weightBytes.size(), sizeof(value)});
    weightBytes.resize(weightBytes.size() + sizeof(value));
    std::memcpy(weightBytes.data() + weightBytes.size() - sizeof(value), &value, sizeof(value));
  }
  // row_seq, row_index, hash0, hash1 [tokens] i32, marks [tokens, 2] i32: 12 ... 16
  uint64_t perToken = 0;
  for (const uint64_t width : {1U, 1U, 1U, 1U, 2U}) {
    add(BufferKind::Workspace, Unit::Tokens, width, 0).offset = manifest::Offset(0, perToken, 0, 0);
    perToken += width * sizeof(int32_t);
  }
  p.workspace = manifest::Offset(0, perToken, 0, 0);
  BufferSpec &logits = add(BufferKind::Output, Unit::LogitRows, kVocab, 0); // 17
  logits.element = manifest::ElementType::F32;
  logits.name = "logits";
}

/// Functions and launch list of the fake model.
inline void addFakeEntries(PackageSpec &p) {
  using manifest::GridDim;
  using manifest::Unit;
  const std::vector<GridDim> tokens = {GridDim(Unit::Tokens, 1, 0, 1)};
  const std::vector<GridDim> halves = {GridDim(Unit::LogitRows, 1, 0, 1),
                                       GridDim(Unit::Fixed, 0, kVocab, kVocab / 2)};
  p.functions = {{"fake_rows", {GridDim(Unit::Seqs, 1, 0, 1)}, 0},
                 {"fake_append", tokens, 0},
                 {"fake_attend", tokens, 4},
                 {"fake_logits", halves, 0},
                 {"fake_mark", tokens, 0},
                 {"fake_mark_few", tokens, 0}};
  const auto launch = [&p](uint32_t function, std::vector<uint32_t> buffers) {
    p.entries.emplace_back();
    p.entries.back().function = function;
    p.entries.back().buffers = std::move(buffers);
  };
  launch(0, {2, 3, 12, 13});
  launch(1, {0, 12, 13, 4, 7});
  launch(1, {0, 12, 13, 5, 8});
  launch(2, {12, 13, 4, 7, 9, 10, 14});
  launch(2, {12, 13, 5, 8, 9, 11, 15});
  launch(4, {16});
  p.entries.back().fewFunction = 5;
  p.entries.back().fewRows = 3;
  p.entries.back().neededFor = kOutputProbes;
  launch(3, {14, 15, 6, 17});
  p.entries.back().neededFor = kOutputLogits;
  EntrySpec probe;
  probe.kind = manifest::EntryKind::Probe;
  probe.buffers = {16};
  probe.name = "router_ids";
  probe.layer = 3;
  p.entries.push_back(probe);
}

/// The fake model: sections code, text, weights. `code`: the shared object of FakeKernels.cpp, or
/// anything where nothing is loaded.
inline PackageSpec fakeModel(const Bytes &code) {
  PackageSpec p;
  SectionSpec weights;
  weights.kind = manifest::SectionKind::Weights;
  addFakeBuffers(p, weights.bytes);
  addFakeEntries(p);
  SectionSpec codeSection;
  codeSection.kind = manifest::SectionKind::Code;
  codeSection.bytes = code;
  SectionSpec text;
  text.bytes = {'h', 'i'};
  p.sections = {codeSection, text, weights};
#if defined(__x86_64__)
  p.code = {{"x86-64", "x86_64", {"sse2"}, 0}};
#else
  p.code = {{"aarch64", "aarch64", {}, 0}};
#endif
  return p;
}

inline Bytes readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A file in the test's temporary folder, removed with the object.
class TemporaryFile {
public:
  explicit TemporaryFile(const Bytes &bytes) {
    const char *folder = std::getenv("TMPDIR");
    path_ = std::string(folder == nullptr ? "/tmp" : folder) + "/sluice-test-XXXXXX";
    ::close(::mkstemp(path_.data()));
    write(bytes);
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  ~TemporaryFile() { ::unlink(path_.c_str()); }

  void write(const Bytes &bytes) const {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char *>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  /// Overwrites bytes in the middle; false when the system refuses.
  bool patch(uint64_t offset, const void *bytes, size_t count) const {
    std::fstream out(path_, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(offset));
    out.write(static_cast<const char *>(bytes), static_cast<std::streamsize>(count));
    return out.good();
  }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

} // namespace sluice::fake
