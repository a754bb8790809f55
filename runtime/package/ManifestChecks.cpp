// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The structural checks of a manifest, table by table.
#include "runtime/package/ManifestChecks.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/package/PackageFormat.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace sluice {
namespace {

using namespace manifest;

// Vectors longer than this are no model's; keeps every loop and allocation below in bounds.
constexpr uint32_t kMaxItems = 1U << 22;
constexpr uint32_t kMaxGridDims = 8;
constexpr uint64_t kMaxScratchBytes = uint64_t{1} << 30;
constexpr uint32_t kMaxBlockTokens = 4096;

std::string indexed(const char *what, size_t index) {
  return std::string(what) + " " + std::to_string(index);
}

Status fault(const std::string &where, const std::string &what) {
  return corrupt(where + ": " + what + "; compile the package again");
}

// True for a vector that is there (maybe empty) and not absurdly long.
template <typename T> bool present(const flatbuffers::Vector<T> *items) {
  return items != nullptr && items->size() <= kMaxItems;
}

Status checkModel(const Model *model) {
  if (model == nullptr) {
    return fault("model", "missing");
  }
  const auto vocab = static_cast<int64_t>(model->vocab());
  if (vocab == 0 || vocab > INT32_MAX) {
    return fault("model", "vocabulary of " + std::to_string(vocab) + " tokens");
  }
  std::vector<int64_t> ids = {model->bos_id(), model->pad_id()};
  if (model->eos_ids() != nullptr) {
    ids.insert(ids.end(), model->eos_ids()->begin(), model->eos_ids()->end());
  }
  for (int64_t id : ids) {
    if (id < -1 || id >= vocab) {
      return fault("model", "token id " + std::to_string(id) + " is outside [-1, " +
                                std::to_string(vocab) + ")");
    }
  }
  return Status::ok();
}

Status checkSection(const Section &section, const std::string &where, uint64_t fileBytes) {
  if (section.kind() > SectionKind::MAX) {
    return fault(where, "unknown kind " + std::to_string(static_cast<int>(section.kind())));
  }
  const std::string range =
      "[" + std::to_string(section.offset()) + ", + " + std::to_string(section.bytes()) + ")";
  if (section.offset() % kSectionAlignment != 0) {
    return fault(where, range + " does not begin at a page");
  }
  if (!rangeFits(section.offset(), section.bytes(), fileBytes)) {
    return fault(where,
                 range + " does not lie in the file of " + std::to_string(fileBytes) + " bytes");
  }
  if (section.kind() == SectionKind::Weights) {
    const uint64_t expected =
        section.bytes() / kWeightChunkBytes + (section.bytes() % kWeightChunkBytes != 0 ? 1 : 0);
    const uint64_t found = section.chunk_hashes() == nullptr ? 0 : section.chunk_hashes()->size();
    if (found != expected) {
      return fault(where,
                   std::to_string(found) + " chunk hashes, expected " + std::to_string(expected));
    }
  }
  return Status::ok();
}

Status checkSections(const Manifest &manifest, uint64_t manifestOffset, uint64_t manifestBytes,
                     uint64_t fileBytes) {
  if (!present(manifest.sections())) {
    return fault("sections", "missing");
  }
  size_t weightSections = 0;
  std::vector<std::tuple<uint64_t, uint64_t, std::string>> ranges; // begin, end, whose
  ranges.emplace_back(0, sizeof(PackageHeader), "header");
  ranges.emplace_back(manifestOffset, manifestOffset + manifestBytes, "manifest");
  for (uint32_t i = 0; i < manifest.sections()->size(); ++i) {
    const Section &section = *manifest.sections()->Get(i);
    const std::string where = indexed("section", i) + " (" + sectionName(section.kind()) + ")";
    SLUICE_RETURN_IF_ERROR(checkSection(section, where, fileBytes));
    weightSections += section.kind() == SectionKind::Weights ? 1 : 0;
    if (section.bytes() != 0) {
      ranges.emplace_back(section.offset(), section.offset() + section.bytes(), where);
    }
  }
  if (weightSections > 1) {
    return fault("sections", std::to_string(weightSections) + " weights sections, expected one");
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (std::get<0>(ranges[i]) < std::get<1>(ranges[i - 1])) {
      return fault(std::get<2>(ranges[i]), "overlaps " + std::get<2>(ranges[i - 1]));
    }
  }
  return Status::ok();
}

Status checkWeights(const Manifest &manifest) {
  if (!present(manifest.weights())) {
    return fault("weights", "missing");
  }
  uint64_t sectionBytes = 0;
  for (const Section *section : *manifest.sections()) {
    if (section->kind() == SectionKind::Weights) {
      sectionBytes = section->bytes();
    }
  }
  for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
    const Weight &weight = *manifest.weights()->Get(i);
    const std::string where = indexed("weight", i);
    if (weight.element() > ElementType::MAX) {
      return fault(where, "unknown element type");
    }
    if (weight.offset() % kSectionAlignment != 0 ||
        !rangeFits(weight.offset(), weight.bytes(), sectionBytes)) {
      return fault(where, "[" + std::to_string(weight.offset()) + ", + " +
                              std::to_string(weight.bytes()) +
                              ") is not page-aligned within the weights section of " +
                              std::to_string(sectionBytes) + " bytes");
    }
    if (weight.bytes() % elementBytes(weight.element()) != 0) {
      return fault(where, "ends within an element");
    }
  }
  return Status::ok();
}

Status checkCode(const Manifest &manifest) {
  if (!present(manifest.code())) {
    return fault("code", "missing");
  }
  for (uint32_t i = 0; i < manifest.code()->size(); ++i) {
    const manifest::Code &code = *manifest.code()->Get(i);
    const std::string where = indexed("code", i);
    if (code.arch() == nullptr || code.target() == nullptr) {
      return fault(where, "no architecture or target");
    }
    if (code.section() >= manifest.sections()->size() ||
        manifest.sections()->Get(code.section())->kind() != SectionKind::Code) {
      return fault(where, "section " + std::to_string(code.section()) + " is not a code section");
    }
  }
  return Status::ok();
}

Status checkBuffer(const Buffer &buffer, const Program &program, const Manifest &manifest,
                   const std::string &where) {
  if (buffer.kind() > BufferKind::MAX || buffer.unit() > Unit::MAX ||
      buffer.element() > ElementType::MAX || buffer.input() > InputKind::MAX) {
    return fault(where, "unknown kind, unit, element type or input");
  }
  const auto atOne = bufferBytes(buffer, 1);
  if (!atOne) {
    return fault(where, "its size overflows");
  }
  const bool isTable =
      buffer.kind() == BufferKind::Input && buffer.input() == InputKind::BlockTable;
  if ((isTable || buffer.kind() == BufferKind::Cache) &&
      buffer.group() >= program.groups()->size()) {
    return fault(where, "cache group " + std::to_string(buffer.group()) + " does not exist");
  }
  switch (buffer.kind()) {
  case BufferKind::Input:
    if (buffer.element() != ElementType::I32 || (buffer.unit() == Unit::Table) != isTable ||
        buffer.unit() == Unit::Blocks) {
      return fault(where, "an input of the step is i32, only block tables count in tables");
    }
    return Status::ok();
  case BufferKind::Output:
    return buffer.name() != nullptr ? Status::ok() : fault(where, "an output without name");
  case BufferKind::Weight:
    if (buffer.weight() >= manifest.weights()->size() || buffer.unit() != Unit::Fixed) {
      return fault(where,
                   "weight " + std::to_string(buffer.weight()) + " does not exist or is not fixed");
    }
    // per_unit counts nothing in a fixed buffer
    if (bufferBytes(buffer, 0).value_or(UINT64_MAX) >
        manifest.weights()->Get(buffer.weight())->bytes()) {
      return fault(where, "larger than its weight");
    }
    return Status::ok();
  case BufferKind::Cache:
    if (buffer.unit() != Unit::Blocks || buffer.fixed() != 0 ||
        *atOne != program.groups()->Get(buffer.group())->block_bytes()) {
      return fault(where, "not whole blocks of its cache group");
    }
    return Status::ok();
  case BufferKind::Workspace:
    if (buffer.offset() == nullptr || buffer.unit() == Unit::Table ||
        buffer.unit() == Unit::Blocks) {
      return fault(where, "workspace without offset, or counted in tables or blocks");
    }
    return Status::ok();
  }
  return Status::ok();
}

Status checkFunction(const Function &function, const std::string &where) {
  if (function.symbol() == nullptr || function.symbol()->size() == 0) {
    return fault(where, "no symbol");
  }
  if (!present(function.grid()) || function.grid()->size() > kMaxGridDims) {
    return fault(where, "no grid, or more than " + std::to_string(kMaxGridDims) + " dimensions");
  }
  if (function.scratch_bytes() > kMaxScratchBytes) {
    return fault(where, "scratch of " + std::to_string(function.scratch_bytes()) + " bytes");
  }
  for (const GridDim *dim : *function.grid()) {
    // a grid over all blocks of a pool would depend on the machine's memory
    if (dim->tile() == 0 || dim->unit() > Unit::Table) {
      return fault(where, "a grid dimension has tile 0 or an unknown unit");
    }
  }
  return Status::ok();
}

Status checkEntry(const Entry &entry, const Program &program, const std::string &where) {
  if (entry.kind() > EntryKind::MAX) {
    return fault(where, "unknown kind");
  }
  if (entry.kind() == EntryKind::Kernel) {
    const uint32_t count = program.functions()->size();
    const bool few = entry.few_function() != UINT32_MAX;
    if (entry.function() >= count || (few && entry.few_function() >= count)) {
      return fault(where, "function does not exist");
    }
  }
  if (!present(entry.buffers())) {
    return fault(where, "no buffers");
  }
  for (uint32_t buffer : *entry.buffers()) {
    if (buffer >= program.buffers()->size()) {
      return fault(where, "buffer " + std::to_string(buffer) + " does not exist");
    }
  }
  if (entry.kind() == EntryKind::Probe) {
    if (entry.buffers()->size() != 1 || entry.name() == nullptr) {
      return fault(where, "a probe has one buffer and a name");
    }
    const ElementType element = program.buffers()->Get(entry.buffers()->Get(0))->element();
    if (element != ElementType::F32 && element != ElementType::I32) {
      return fault(where, "a probe is f32 or i32");
    }
  }
  return Status::ok();
}

Status checkGroups(const Program &program, const std::string &where) {
  for (uint32_t i = 0; i < program.groups()->size(); ++i) {
    const CacheGroup &group = *program.groups()->Get(i);
    if (group.block_bytes() == 0 || group.element() > ElementType::MAX ||
        group.window() > INT32_MAX) {
      return fault(where + ", " + indexed("cache group", i),
                   "no block size, unknown element type or impossible window");
    }
  }
  return Status::ok();
}

Status checkProgram(const Program &program, const Manifest &manifest, const std::string &where) {
  if (program.name() == nullptr || !present(program.buffers()) || !present(program.entries()) ||
      !present(program.groups()) || !present(program.functions()) ||
      program.workspace() == nullptr) {
    return fault(where, "name, buffers, entries, groups, functions or workspace missing");
  }
  if (program.kv_block_tokens() == 0 || program.kv_block_tokens() > kMaxBlockTokens) {
    return fault(where, "blocks of " + std::to_string(program.kv_block_tokens()) + " tokens");
  }
  SLUICE_RETURN_IF_ERROR(checkGroups(program, where));
  for (uint32_t i = 0; i < program.buffers()->size(); ++i) {
    SLUICE_RETURN_IF_ERROR(checkBuffer(*program.buffers()->Get(i), program, manifest,
                                       where + ", " + indexed("buffer", i)));
  }
  for (uint32_t i = 0; i < program.functions()->size(); ++i) {
    SLUICE_RETURN_IF_ERROR(
        checkFunction(*program.functions()->Get(i), where + ", " + indexed("function", i)));
  }
  for (uint32_t i = 0; i < program.entries()->size(); ++i) {
    SLUICE_RETURN_IF_ERROR(
        checkEntry(*program.entries()->Get(i), program, where + ", " + indexed("entry", i)));
  }
  return Status::ok();
}

} // namespace

uint64_t elementBytes(ElementType type) {
  switch (type) {
  case ElementType::F32:
  case ElementType::I32:
    return 4;
  case ElementType::F16:
  case ElementType::BF16:
    return 2;
  case ElementType::I8:
  case ElementType::U8:
  case ElementType::Bool:
    return 1;
  case ElementType::I64:
  case ElementType::F64:
    return 8;
  }
  return 8; // an unknown type is refused before its size matters
}

const char *sectionName(SectionKind kind) {
  switch (kind) {
  case SectionKind::Manifest:
    return "manifest";
  case SectionKind::Code:
    return "code";
  case SectionKind::Weights:
    return "weights";
  case SectionKind::Tokenizer:
    return "tokenizer";
  case SectionKind::TokenizerConfig:
    return "tokenizer config";
  case SectionKind::ChatTemplate:
    return "chat template";
  case SectionKind::Text:
    return "text";
  }
  return "unknown";
}

std::optional<uint64_t> bufferBytes(const Buffer &buffer, uint64_t count) {
  const auto counted = checkedMul(count, buffer.per_unit());
  const auto elements = counted ? checkedAdd(*counted, buffer.fixed()) : std::nullopt;
  return elements ? checkedMul(*elements, elementBytes(buffer.element())) : std::nullopt;
}

std::optional<uint64_t> offsetAt(const Offset &offset, uint64_t tokens, uint64_t seqs,
                                 uint64_t logitRows) {
  std::optional<uint64_t> total = offset.fixed();
  for (const auto &[perUnit, count] :
       {std::pair(offset.tokens(), tokens), std::pair(offset.seqs(), seqs),
        std::pair(offset.logit_rows(), logitRows)}) {
    const auto part = checkedMul(perUnit, count);
    total = part && total ? checkedAdd(*total, *part) : std::nullopt;
  }
  return total;
}

Status checkManifest(const Manifest &manifest, uint64_t manifestOffset, uint64_t manifestBytes,
                     uint64_t fileBytes) {
  SLUICE_RETURN_IF_ERROR(checkModel(manifest.model()));
  SLUICE_RETURN_IF_ERROR(checkSections(manifest, manifestOffset, manifestBytes, fileBytes));
  SLUICE_RETURN_IF_ERROR(checkWeights(manifest));
  SLUICE_RETURN_IF_ERROR(checkCode(manifest));
  if (!present(manifest.programs())) {
    return fault("programs", "missing");
  }
  for (uint32_t i = 0; i < manifest.programs()->size(); ++i) {
    SLUICE_RETURN_IF_ERROR(
        checkProgram(*manifest.programs()->Get(i), manifest, indexed("program", i)));
  }
  return Status::ok();
}

} // namespace sluice
