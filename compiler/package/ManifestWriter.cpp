// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernel IR to FlatBuffers tables.
#include "compiler/package/ManifestWriter.h"

#include "runtime/package/PackageFormat.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;

namespace sluicec::package {

namespace k = sluicec::kernel;
namespace m = sluice::manifest;

llvm::Expected<m::ElementType> elementTypeOf(Type type) {
  if (type.isF32()) {
    return m::ElementType::F32;
  }
  if (type.isF16()) {
    return m::ElementType::F16;
  }
  if (type.isBF16()) {
    return m::ElementType::BF16;
  }
  if (type.isF64()) {
    return m::ElementType::F64;
  }
  if (type.isInteger(1)) {
    return m::ElementType::Bool;
  }
  if (type.isInteger(8)) {
    return type.isUnsignedInteger() ? m::ElementType::U8 : m::ElementType::I8;
  }
  if (type.isInteger(32)) {
    return m::ElementType::I32;
  }
  if (type.isInteger(64)) {
    return m::ElementType::I64;
  }
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return llvm::createStringError("element type " + text + " has no place in a package");
}

namespace {

m::Unit unitOf(k::Unit unit) {
  switch (unit) {
  case k::Unit::Fixed:
    return m::Unit::Fixed;
  case k::Unit::Tokens:
    return m::Unit::Tokens;
  case k::Unit::Seqs:
    return m::Unit::Seqs;
  case k::Unit::LogitRows:
    return m::Unit::LogitRows;
  case k::Unit::Table:
    return m::Unit::Table;
  case k::Unit::Blocks:
    return m::Unit::Blocks;
  }
  llvm_unreachable("all units are listed");
}

m::InputKind inputOf(k::InputKind kind) {
  switch (kind) {
  case k::InputKind::TokenIds:
    return m::InputKind::TokenIds;
  case k::InputKind::Positions:
    return m::InputKind::Positions;
  case k::InputKind::SeqStart:
    return m::InputKind::SeqStart;
  case k::InputKind::KvLength:
    return m::InputKind::KvLength;
  case k::InputKind::BlockTable:
    return m::InputKind::BlockTable;
  case k::InputKind::LogitRows:
    return m::InputKind::LogitRows;
  }
  llvm_unreachable("all input kinds are listed");
}

m::Offset offsetOf(k::OffsetAttr offset) {
  return m::Offset(
      static_cast<uint64_t>(offset.getFixed()), static_cast<uint64_t>(offset.getTokens()),
      static_cast<uint64_t>(offset.getSeqs()), static_cast<uint64_t>(offset.getLogitRows()));
}

/// "plain", "panel64", "gated_panel64".
std::string layoutName(k::LayoutAttr layout) {
  std::string name = k::stringifyLayoutKind(layout.getKind()).str();
  return layout.getKind() == k::LayoutKind::Plain ? name : name + std::to_string(layout.getWidth());
}

/// Builds all tables of one manifest.
class ManifestWriter {
public:
  ManifestWriter(const PackageInputs &inputs, const WeightPlan &plan,
                 ArrayRef<PlacedSection> sections)
      : inputs(inputs), plan(plan), sections(sections), warnings(inputs.warnings) {
    program = *mlir::ModuleOp(inputs.kernelModule).getOps<k::ProgramOp>().begin();
    blockTokens = 16;
    for (auto cache : program.getOps<k::CacheOp>()) {
      blockTokens = cache.getBlockTokens();
    }
  }

  llvm::Expected<std::vector<char>> write() {
    auto programTable = writeProgram();
    auto weights = writeWeights();
    auto code = writeCode();
    auto sectionTables = writeSections();
    auto model = writeModel(); // adds warnings
    auto generation = writeGeneration();
    auto provenance = writeProvenance();
    std::vector<flatbuffers::Offset<flatbuffers::String>> warningTexts;
    for (const std::string &warning : warnings) {
      warningTexts.push_back(b.CreateString(warning));
    }
    if (error) {
      return llvm::createStringError(*error);
    }
    auto programs = b.CreateVector(std::vector{programTable});
    auto warningVector = b.CreateVector(warningTexts);
    m::FinishManifestBuffer(b, m::CreateManifest(b, model, programs, weights, code, sectionTables,
                                                 generation, provenance, warningVector));
    if (b.GetSize() > sluice::kMaxManifestBytes) {
      return llvm::createStringError(
          llvm::formatv("the manifest has {0} bytes, more than a runtime reads ({1})", b.GetSize(),
                        sluice::kMaxManifestBytes)
              .str());
    }
    const char *data = reinterpret_cast<const char *>(b.GetBufferPointer());
    return std::vector<char>(data, data + b.GetSize());
  }

private:
  const PackageInputs &inputs;
  const WeightPlan &plan;
  ArrayRef<PlacedSection> sections;
  std::vector<std::string> warnings;
  k::ProgramOp program;
  int64_t blockTokens;
  flatbuffers::FlatBufferBuilder b;
  std::optional<std::string> error; // the first; later ones are dropped
  llvm::DenseMap<Value, uint32_t> bufferIndex;
  llvm::StringMap<uint32_t> functionIndex;

  void fail(const llvm::Twine &message) {
    if (!error) {
      error = message.str();
    }
  }

  /// `value` as a field of fewer bits; a failure where it does not fit.
  template <typename T> T narrow(int64_t value, const char *what) {
    if (value < 0 || static_cast<uint64_t>(value) > std::numeric_limits<T>::max()) {
      fail(llvm::Twine(what) + " is " + llvm::Twine(value) + ", which a package can't hold");
      return 0;
    }
    return static_cast<T>(value);
  }

  m::ElementType element(Type type) {
    llvm::Expected<m::ElementType> found = elementTypeOf(type);
    if (found) {
      return *found;
    }
    fail(llvm::toString(found.takeError()));
    return m::ElementType::F32;
  }

  flatbuffers::Offset<m::Buffer> writeBuffer(Operation &op, k::BufferType type) {
    auto input = dyn_cast<k::InputOp>(op);
    auto output = dyn_cast<k::OutputOp>(op);
    auto cache = dyn_cast<k::CacheOp>(op);
    auto workspace = dyn_cast<k::WorkspaceOp>(op);
    flatbuffers::Offset<flatbuffers::String> name;
    if (output) {
      name = b.CreateString(output.getName().str());
    }
    m::Offset offset;
    m::BufferBuilder table(b);
    table.add_kind(input       ? m::BufferKind::Input
                   : output    ? m::BufferKind::Output
                   : cache     ? m::BufferKind::Cache
                   : workspace ? m::BufferKind::Workspace
                               : m::BufferKind::Weight);
    table.add_unit(unitOf(type.getUnit()));
    table.add_per_unit(narrow<uint64_t>(type.getPerUnit(), "a buffer's size"));
    table.add_fixed(narrow<uint64_t>(type.getFixed(), "a buffer's size"));
    table.add_element(element(type.getElement()));
    if (input) {
      table.add_input(inputOf(input.getKind()));
      table.add_group(narrow<uint32_t>(input.getGroup(), "a cache group"));
    } else if (output) {
      table.add_name(name);
    } else if (cache) {
      table.add_group(narrow<uint32_t>(cache.getGroup(), "a cache group"));
    } else if (workspace) {
      offset = offsetOf(workspace.getOffsetAttr());
      table.add_offset(&offset);
    } else {
      table.add_weight(plan.indexOf.lookup(op.getResult(0)));
    }
    return table.Finish();
  }

  flatbuffers::Offset<m::Function> writeFunction(k::FuncOp func) {
    std::vector<m::GridDim> grid;
    for (auto dim : func.getGrid().getAsRange<k::GridDimAttr>()) {
      grid.emplace_back(unitOf(dim.getUnit()), narrow<uint64_t>(dim.getPerUnit(), "a grid"),
                        narrow<uint64_t>(dim.getFixed(), "a grid"),
                        narrow<uint64_t>(dim.getTile(), "a grid"));
    }
    // One number serves all variants: the largest.
    uint64_t scratch = 0;
    for (const CodeVariant &code : inputs.code) {
      auto at = llvm::find_if(code.scratchBytes,
                              [&](const auto &s) { return s.first == func.getSymName(); });
      if (at == code.scratchBytes.end()) {
        fail("code for " + code.target + " lacks kernel '" + func.getSymName() + "'");
        break;
      }
      scratch = std::max(scratch, at->second);
    }
    auto symbol = b.CreateString(func.getSymName().str());
    return m::CreateFunction(b, symbol, b.CreateVectorOfStructs(grid), scratch);
  }

  /// For each launch and probe the output modes that need it, as bits: what it writes is needed by
  /// later entries, by an output, by a probe, or by the cache (always).
  llvm::DenseMap<Operation *, uint32_t> findNeeds() {
    llvm::StringMap<llvm::SmallBitVector> writes; // of each kernel's arguments
    for (auto func : mlir::ModuleOp(inputs.kernelModule).getOps<k::FuncOp>()) {
      Block &body = func.getBody().front();
      llvm::SmallBitVector &written = writes[func.getSymName()];
      written.resize(body.getNumArguments());
      SmallVector<MemoryEffects::EffectInstance> effects;
      cast<MemoryEffectOpInterface>(body.front()).getEffects(effects);
      for (const auto &effect : effects) {
        auto arg = dyn_cast_or_null<BlockArgument>(effect.getValue());
        if (arg && isa<MemoryEffects::Write>(effect.getEffect())) {
          written.set(arg.getArgNumber());
        }
      }
    }
    llvm::DenseMap<Value, uint32_t> needed; // of buffers, from the end backwards
    llvm::DenseMap<Operation *, uint32_t> result;
    for (Operation &op : llvm::reverse(program.getBody().front())) {
      if (auto probe = dyn_cast<k::ProbeOp>(op)) {
        result[&op] = sluice::kOutputProbes;
        needed[probe.getBuffer()] |= sluice::kOutputProbes;
      }
      auto launch = dyn_cast<k::LaunchOp>(op);
      if (!launch) {
        continue;
      }
      const llvm::SmallBitVector &written = writes[launch.getCallee()];
      uint32_t bits = 0;
      for (auto [i, buffer] : llvm::enumerate(launch.getBuffers())) {
        if (written.test(i)) {
          bits |= needed.lookup(buffer);
          bits |= isa<k::OutputOp>(buffer.getDefiningOp()) ? sluice::kOutputLogits : 0;
          bits |=
              isa<k::CacheOp>(buffer.getDefiningOp()) ? std::numeric_limits<uint32_t>::max() : 0;
        }
      }
      for (Value buffer : launch.getBuffers()) {
        needed[buffer] |= bits;
      }
      result[&op] = bits;
    }
    return result;
  }

  flatbuffers::Offset<m::Entry> writeEntry(Operation &op, uint32_t neededFor) {
    std::vector<uint32_t> buffers;
    for (Value buffer : op.getOperands()) {
      buffers.push_back(bufferIndex.lookup(buffer));
    }
    auto bufferVector = b.CreateVector(buffers);
    if (auto probe = dyn_cast<k::ProbeOp>(op)) {
      auto name = b.CreateString(probe.getName().str());
      m::EntryBuilder table(b);
      table.add_kind(m::EntryKind::Probe);
      table.add_buffers(bufferVector);
      table.add_name(name);
      table.add_layer(narrow<uint32_t>(probe.getLayer(), "a probe's layer"));
      table.add_needed_for(neededFor);
      return table.Finish();
    }
    auto launch = cast<k::LaunchOp>(op);
    m::EntryBuilder table(b);
    table.add_kind(m::EntryKind::Kernel);
    table.add_function(functionIndex.lookup(launch.getCallee()));
    table.add_buffers(bufferVector);
    if (launch.getFew()) {
      table.add_few_function(functionIndex.lookup(*launch.getFew()));
      table.add_few_rows(narrow<uint32_t>(launch.getFewRows(), "few_rows"));
    }
    table.add_needed_for(neededFor);
    return table.Finish();
  }

  flatbuffers::Offset<m::CacheGroup> writeGroup(k::CacheOp cache) {
    auto layout = cast<lm::CacheType>(cache.getLayout());
    unsigned elementBytes = layout.getElement().getIntOrFloatBitWidth() / 8;
    int64_t block = cache.getResult().getType().getPerUnit(); // at most 2^31, see lower
    return m::CreateCacheGroup(b, narrow<uint32_t>(layout.getWindow(), "a window"),
                               element(layout.getElement()),
                               narrow<uint32_t>(layout.getKvHeads(), "kv heads"),
                               narrow<uint32_t>(layout.getKeyHead(), "a head"),
                               narrow<uint32_t>(layout.getValueHead(), "a head"),
                               narrow<uint32_t>(layout.getLayers(), "layers"),
                               static_cast<uint64_t>(block) * elementBytes);
  }

  flatbuffers::Offset<m::Program> writeProgram() {
    std::vector<flatbuffers::Offset<m::Function>> functions;
    for (auto func : mlir::ModuleOp(inputs.kernelModule).getOps<k::FuncOp>()) {
      functionIndex[func.getSymName()] = static_cast<uint32_t>(functions.size());
      functions.push_back(writeFunction(func));
    }
    std::vector<flatbuffers::Offset<m::Buffer>> buffers;
    std::vector<flatbuffers::Offset<m::Entry>> entries;
    std::map<int64_t, k::CacheOp> groups;
    llvm::DenseMap<Operation *, uint32_t> needs = findNeeds();
    for (Operation &op : program.getBody().front()) {
      if (isa<k::LaunchOp, k::ProbeOp>(op)) {
        entries.push_back(writeEntry(op, needs.lookup(&op)));
      } else if (op.getNumResults() == 1 && isa<k::BufferType>(op.getResult(0).getType())) {
        bufferIndex[op.getResult(0)] = static_cast<uint32_t>(buffers.size());
        buffers.push_back(writeBuffer(op, cast<k::BufferType>(op.getResult(0).getType())));
        if (auto cache = dyn_cast<k::CacheOp>(op)) {
          groups[cache.getGroup()] = cache;
        }
      }
    }
    std::vector<flatbuffers::Offset<m::CacheGroup>> groupTables;
    for (auto [number, cache] : groups) {
      if (number != static_cast<int64_t>(groupTables.size())) {
        fail("cache groups are not numbered from 0");
      }
      groupTables.push_back(writeGroup(cache));
    }
    m::Offset workspace = offsetOf(program.getWorkspaceAttr());
    auto name = b.CreateString(program.getSymName().str());
    auto bufferVector = b.CreateVector(buffers);
    auto entryVector = b.CreateVector(entries);
    auto groupVector = b.CreateVector(groupTables);
    auto functionVector = b.CreateVector(functions);
    return m::CreateProgram(b, name, bufferVector, entryVector, groupVector,
                            narrow<uint32_t>(blockTokens, "kv_block_tokens"), &workspace,
                            functionVector);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<m::Weight>>> writeWeights() {
    std::vector<flatbuffers::Offset<m::Weight>> tables;
    for (const PackagedWeight &weight : plan.weights) {
      std::vector<uint64_t> shape(weight.type().getShape().begin(), weight.type().getShape().end());
      auto name = b.CreateString(weight.name);
      auto shapeVector = b.CreateVector(shape);
      auto layout = b.CreateString(layoutName(weight.layout));
      auto role = b.CreateString(weight.role);
      tables.push_back(m::CreateWeight(b, name, element(weight.type().getElementType()),
                                       shapeVector, layout, weight.offset, weight.bytes, role));
    }
    return b.CreateVector(tables);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<m::Code>>> writeCode() {
    std::vector<flatbuffers::Offset<m::Code>> tables;
    for (auto [i, code] : llvm::enumerate(inputs.code)) {
      auto target = b.CreateString(code.target);
      auto arch = b.CreateString(code.arch);
      auto cpu = b.CreateString(code.cpu);
      auto features = b.CreateVectorOfStrings(code.features);
      tables.push_back(m::CreateCode(b, target, arch, cpu, features, static_cast<uint32_t>(i)));
    }
    return b.CreateVector(tables);
  }

  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<m::Section>>> writeSections() {
    std::vector<flatbuffers::Offset<m::Section>> tables;
    for (const PlacedSection &section : sections) {
      auto hashes = b.CreateVector(section.chunkHashes);
      auto name = b.CreateString(section.name);
      tables.push_back(m::CreateSection(b, section.kind, section.offset, section.bytes,
                                        section.hash, hashes, name));
    }
    return b.CreateVector(tables);
  }

  /// A token id, or -1 with a warning where the vocabulary has no such token.
  int32_t tokenId(int64_t id, int64_t vocab, const char *what) {
    if (id >= -1 && id < vocab) {
      return static_cast<int32_t>(id);
    }
    warnings.push_back(
        llvm::formatv("{0} {1} is outside the vocabulary of {2} tokens and was left out", what, id,
                      vocab)
            .str());
    return -1;
  }

  flatbuffers::Offset<m::Model> writeModel() {
    auto attrs = inputs.kernelModule->getAttrOfType<DictionaryAttr>("lm.model");
    auto fact = [&](StringRef key) -> int64_t {
      auto value = attrs ? attrs.getAs<IntegerAttr>(key) : IntegerAttr();
      return value ? value.getInt() : 0;
    };
    int64_t vocab = fact("vocab");
    for (auto output : program.getOps<k::OutputOp>()) {
      if (output.getName() == "logits") {
        vocab = output.getResult().getType().getPerUnit();
      }
    }
    if (vocab < 1 || vocab > std::numeric_limits<int32_t>::max()) {
      fail("the vocabulary has " + llvm::Twine(vocab) + " tokens; expected 1 to 2^31 - 1");
    }
    int64_t experts = 0, expertsPerToken = 0;
    mlir::ModuleOp(inputs.kernelModule).walk([&](k::ExpertPlanOp op) {
      experts = std::max(experts, op.getExperts());
      expertsPerToken = std::max(expertsPerToken, op.getTopK());
    });
    std::vector<int32_t> eosIds;
    for (int64_t id : inputs.facts.eosIds) {
      int32_t kept = tokenId(id, vocab, "end-of-text id");
      if (kept >= 0 && !llvm::is_contained(eosIds, kept)) {
        eosIds.push_back(kept);
      }
    }
    int32_t bos = tokenId(inputs.facts.bosId, vocab, "begin-of-text id");
    int32_t pad = tokenId(inputs.facts.padId, vocab, "padding id");
    auto eosVector = b.CreateVector(eosIds);
    auto name = b.CreateString(inputs.facts.name);
    m::ModelBuilder table(b);
    table.add_vocab(narrow<uint32_t>(vocab, "the vocabulary"));
    table.add_context(narrow<uint64_t>(fact("context"), "the context"));
    table.add_layers(narrow<uint32_t>(fact("layers"), "the number of layers"));
    table.add_hidden(narrow<uint32_t>(fact("hidden"), "the hidden size"));
    table.add_bos_id(bos);
    table.add_eos_ids(eosVector);
    table.add_pad_id(pad);
    table.add_add_bos(inputs.facts.addBos);
    table.add_parameters(plan.parameters);
    table.add_active_parameters(plan.activeParameters);
    table.add_name(name);
    table.add_experts(narrow<uint32_t>(experts, "the number of experts"));
    table.add_experts_per_token(narrow<uint32_t>(expertsPerToken, "the experts per token"));
    return table.Finish();
  }

  flatbuffers::Offset<m::Generation> writeGeneration() {
    const GenerationDefaults &given = inputs.generation;
    m::GenerationBuilder table(b);
    if (given.temperature) {
      table.add_temperature(static_cast<float>(*given.temperature));
    }
    if (given.topP) {
      table.add_top_p(static_cast<float>(*given.topP));
    }
    if (given.topK) {
      table.add_top_k(narrow<int32_t>(std::max<int64_t>(*given.topK, 0), "top_k"));
    }
    if (given.repetitionPenalty) {
      table.add_repetition_penalty(static_cast<float>(*given.repetitionPenalty));
    }
    table.add_do_sample(given.doSample);
    return table.Finish();
  }

  flatbuffers::Offset<m::Provenance> writeProvenance() {
    const Provenance &from = inputs.provenance;
    auto compiler = b.CreateString(from.compiler);
    auto source = b.CreateString(from.source);
    auto producer = b.CreateString(from.producer);
    auto options = b.CreateString(from.options);
    return m::CreateProvenance(b, compiler, source, producer, options);
  }
};

} // namespace

llvm::Expected<std::vector<char>> writeManifest(const PackageInputs &inputs, const WeightPlan &plan,
                                                ArrayRef<PlacedSection> sections) {
  return ManifestWriter(inputs, plan, sections).write();
}

} // namespace sluicec::package
