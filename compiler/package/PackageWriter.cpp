// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lays out the file, streams weights into it chunk by chunk with several threads, and closes it
// with manifest and header.
//
//   header | code, texts (pages) | weights (pages) | manifest
#include "compiler/package/PackageWriter.h"

#include "compiler/package/ManifestWriter.h"
#include "compiler/package/PackageFile.h"
#include "compiler/package/WeightPacker.h"
#include "compiler/support/WeightRecipe.h"
#include "runtime/package/PackageFormat.h"

#include "llvm/Support/ThreadPool.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <xxhash.h>

using namespace mlir;

namespace sluicec::package {

namespace m = sluice::manifest;

namespace {

uint64_t hashOf(ArrayRef<char> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t alignUp(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

/// Sections in file order; code first, weights last.
struct FileLayout {
  std::vector<PlacedSection> sections;
  std::vector<ArrayRef<char>> contents; // beside sections; empty for weights
  uint64_t end = sizeof(sluice::PackageHeader);

  void add(m::SectionKind kind, StringRef name, ArrayRef<char> bytes) {
    place(kind, name, bytes.size());
    sections.back().hash = hashOf(bytes);
    contents.back() = bytes;
  }
  void place(m::SectionKind kind, StringRef name, uint64_t bytes) {
    uint64_t offset = alignUp(end, sluice::kSectionAlignment);
    sections.push_back({kind, name.str(), offset, bytes, 0, {}});
    contents.emplace_back();
    end = offset + bytes;
  }
};

FileLayout layOut(const PackageInputs &inputs, const WeightPlan &plan) {
  FileLayout layout;
  for (const CodeVariant &code : inputs.code) {
    layout.add(m::SectionKind::Code, code.target, code.sharedObject);
  }
  auto addText = [&](m::SectionKind kind, StringRef name, StringRef text) {
    if (!text.empty()) {
      layout.add(kind, name, ArrayRef<char>(text.data(), text.size()));
    }
  };
  addText(m::SectionKind::Tokenizer, "tokenizer.json", inputs.texts.tokenizer);
  addText(m::SectionKind::TokenizerConfig, "tokenizer_config.json", inputs.texts.tokenizerConfig);
  addText(m::SectionKind::ChatTemplate, "chat_template.jinja", inputs.texts.chatTemplate);
  if (plan.sectionBytes > 0) {
    layout.place(m::SectionKind::Weights, "weights", plan.sectionBytes);
  }
  return layout;
}

/// Counts bytes and tells the caller, one call at a time.
class ProgressMeter {
public:
  ProgressMeter(const PackageOptions &options, uint64_t total) : options(options), total(total) {}
  void add(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    done += bytes;
    if (options.progress) {
      options.progress(done, total);
    }
  }

private:
  const PackageOptions &options;
  uint64_t total, done = 0;
  std::mutex mutex;
};

/// The reader of one weight, made by the first chunk that needs it and dropped behind the last.
class SharedReader {
public:
  void expectChunks(uint64_t chunks) { chunksLeft = chunks; }
  std::shared_ptr<const support::RecipeReader> get(Value recipe,
                                                   const support::WeightStore &store) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!reader) {
      auto made = support::RecipeReader::create(recipe, support::resolverOf(store));
      if (succeeded(made)) {
        reader = std::make_shared<support::RecipeReader>(std::move(*made));
      }
    }
    return reader;
  }
  void finishChunk() {
    std::lock_guard<std::mutex> lock(mutex);
    if (--chunksLeft == 0) {
      reader.reset();
    }
  }

private:
  std::mutex mutex;
  std::shared_ptr<const support::RecipeReader> reader;
  uint64_t chunksLeft = 0;
};

/// Computes the weights section in chunks of kWeightChunkBytes; each chunk is one piece of work.
class WeightStream {
public:
  WeightStream(const WeightPlan &plan, const support::WeightStore &store, const PackageFile &file,
               PlacedSection &section, ProgressMeter &meter)
      : plan(plan), store(store), file(file), section(section), meter(meter),
        readers(plan.weights.size()) {
    section.chunkHashes.resize((section.bytes + sluice::kWeightChunkBytes - 1) /
                               sluice::kWeightChunkBytes);
    for (auto [weight, reader] : llvm::zip(plan.weights, readers)) {
      uint64_t last = weight.offset + std::max<uint64_t>(weight.bytes, 1) - 1;
      reader.expectChunks(last / sluice::kWeightChunkBytes -
                          weight.offset / sluice::kWeightChunkBytes + 1);
    }
  }

  llvm::Error run(int jobs) {
    unsigned threads = static_cast<unsigned>(std::max(1, jobs));
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(threads));
    for (unsigned i = 0; i < threads; ++i) {
      pool.async([this] { work(); });
    }
    pool.wait();
    if (!error.empty()) {
      return llvm::createStringError(error);
    }
    ArrayRef<uint64_t> hashes(section.chunkHashes);
    section.hash = hashOf(ArrayRef<char>(reinterpret_cast<const char *>(hashes.data()),
                                         hashes.size() * sizeof(uint64_t)));
    return llvm::Error::success();
  }

private:
  const WeightPlan &plan;
  const support::WeightStore &store;
  const PackageFile &file;
  PlacedSection &section;
  ProgressMeter &meter;
  std::vector<SharedReader> readers; // by weight
  std::atomic<size_t> nextChunk{0};
  std::atomic<bool> stopped{false};
  std::mutex errorMutex;
  std::string error; // the first

  void work() {
    std::vector<char> chunk;
    while (!stopped) {
      size_t index = nextChunk++;
      if (index >= section.chunkHashes.size()) {
        return;
      }
      if (llvm::Error e = writeChunk(index, chunk)) {
        std::lock_guard<std::mutex> lock(errorMutex);
        std::string text = llvm::toString(std::move(e));
        error = error.empty() ? text : error;
        stopped = true;
      }
    }
  }

  llvm::Error writeChunk(size_t index, std::vector<char> &chunk) {
    uint64_t begin = index * sluice::kWeightChunkBytes;
    uint64_t end = std::min(section.bytes, begin + sluice::kWeightChunkBytes);
    chunk.assign(end - begin, 0); // between weights stand zeros
    auto first = llvm::partition_point(
        plan.weights, [&](const PackagedWeight &w) { return w.offset + w.bytes <= begin; });
    for (size_t i = static_cast<size_t>(first - plan.weights.begin());
         i < plan.weights.size() && plan.weights[i].offset < end; ++i) {
      uint64_t from = std::max(begin, plan.weights[i].offset);
      uint64_t to = std::min(end, plan.weights[i].offset + plan.weights[i].bytes);
      if (llvm::Error e = packRange(i, from, {chunk.data() + (from - begin), to - from})) {
        return e;
      }
    }
    section.chunkHashes[index] = hashOf(chunk);
    if (llvm::Error e = file.write(section.offset + begin, chunk)) {
      return e;
    }
    meter.add(chunk.size());
    return llvm::Error::success();
  }

  /// Bytes of one weight from `from` (in the section) on.
  llvm::Error packRange(size_t index, uint64_t from, MutableArrayRef<char> out) {
    const PackagedWeight &weight = plan.weights[index];
    std::shared_ptr<const support::RecipeReader> reader = readers[index].get(weight.recipe, store);
    auto failed = [&] {
      return llvm::createStringError("weight '" + weight.name +
                                     "' can't be computed; its own error says why");
    };
    if (!reader) {
      return failed();
    }
    int64_t rowElements = weight.type().getRank() == 0 ? 1 : weight.type().getShape().back();
    llvm::Error result = WeightPacker(weight).pack(
        from - weight.offset, out, [&](int64_t row, int64_t rows, MutableArrayRef<char> into) {
          return succeeded(reader->readElements(row * rowElements, rows * rowElements, into))
                     ? llvm::Error::success()
                     : failed();
        });
    readers[index].finishChunk();
    return result;
  }
};

} // namespace

/// Writes all but manifest and header; fills the hashes of the weights section.
static llvm::Error writeSections(FileLayout &layout, const WeightPlan &plan,
                                 const PackageInputs &inputs, const PackageFile &file,
                                 const PackageOptions &options) {
  ProgressMeter meter(options, layout.end);
  for (auto [section, contents] : llvm::zip(layout.sections, layout.contents)) {
    if (section.kind == m::SectionKind::Weights) {
      WeightStream stream(plan, *inputs.weights, file, section, meter);
      if (llvm::Error e = stream.run(options.jobs)) {
        return e;
      }
      continue;
    }
    if (llvm::Error e = file.write(section.offset, contents)) {
      return e;
    }
    meter.add(section.bytes);
  }
  return llvm::Error::success();
}

static sluice::PackageHeader makeHeader(uint64_t manifestOffset, ArrayRef<char> manifest) {
  sluice::PackageHeader header = {};
  std::memcpy(header.magic, sluice::kPackageMagic, sizeof(header.magic));
  header.version = sluice::kFormatVersion;
  header.headerBytes = sizeof(header);
  header.fileBytes = manifestOffset + manifest.size();
  header.manifestOffset = manifestOffset;
  header.manifestBytes = manifest.size();
  header.manifestHash = hashOf(manifest);
  const char *bytes = reinterpret_cast<const char *>(&header);
  header.headerHash = hashOf(ArrayRef<char>(bytes, offsetof(sluice::PackageHeader, headerHash)));
  return header;
}

llvm::Expected<PackageSummary> writePackage(StringRef path, const PackageInputs &inputs,
                                            const PackageOptions &options) {
  assert(inputs.kernelModule && inputs.weights && "the caller gives module and weight store");
  auto programs = mlir::ModuleOp(inputs.kernelModule).getOps<kernel::ProgramOp>();
  assert(llvm::hasSingleElement(programs) && "verify-kernel leaves one program");
  llvm::Expected<WeightPlan> plan = planWeights(*programs.begin());
  if (!plan) {
    return plan.takeError();
  }
  FileLayout layout = layOut(inputs, *plan);
  llvm::Expected<PackageFile> file = PackageFile::create(path, layout.end);
  if (!file) {
    return file.takeError();
  }
  if (llvm::Error e = writeSections(layout, *plan, inputs, *file, options)) {
    return std::move(e);
  }
  llvm::Expected<std::vector<char>> manifest = writeManifest(inputs, *plan, layout.sections);
  if (!manifest) {
    return manifest.takeError();
  }
  uint64_t manifestOffset = alignUp(layout.end, 64);
  sluice::PackageHeader header = makeHeader(manifestOffset, *manifest);
  if (llvm::Error e = file->write(manifestOffset, *manifest)) {
    return std::move(e);
  }
  // Last, so that a file without it was never finished.
  ArrayRef<char> headerBytes(reinterpret_cast<const char *>(&header), sizeof(header));
  if (llvm::Error e = file->write(0, headerBytes)) {
    return std::move(e);
  }
  if (llvm::Error e = file->commit(header.fileBytes)) {
    return std::move(e);
  }
  return PackageSummary{header.fileBytes, plan->sectionBytes, plan->parameters,
                        plan->activeParameters};
}

} // namespace sluicec::package
