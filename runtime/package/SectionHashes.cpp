// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hashes sections and weight chunks; the only place that walks all bytes of a package.
#include "runtime/package/SectionHashes.h"

#include "runtime/package/ManifestChecks.h"
#include "runtime/package/PackageFormat.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#include <xxhash.h>

namespace sluice {
namespace {

constexpr uint64_t kNoChunk = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kMaxThreads = 64;

Status differs(const manifest::Section &section, uint64_t offset) {
  return corrupt("section " + std::string(sectionName(section.kind())) + ", offset " +
                 std::to_string(offset) +
                 ": the bytes differ from their hash; copy or compile the package again");
}

// Index of the lowest chunk that differs from its hash, or kNoChunk. Chunk i is
// weights[i * kWeightChunkBytes, ...).
uint64_t firstBadChunk(std::span<const std::byte> weights,
                       const flatbuffers::Vector<uint64_t> &hashes, uint32_t threads) {
  const uint64_t numChunks = hashes.size();
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> bad{kNoChunk};
  const auto work = [&] {
    for (uint64_t chunk = next.fetch_add(1); chunk < numChunks && chunk < bad.load();
         chunk = next.fetch_add(1)) {
      const uint64_t offset = chunk * kWeightChunkBytes;
      const uint64_t length = std::min<uint64_t>(kWeightChunkBytes, weights.size() - offset);
      if (hashBytes(weights.subspan(offset, length)) !=
          hashes.Get(static_cast<flatbuffers::uoffset_t>(chunk))) {
        uint64_t seen = bad.load();
        while (chunk < seen && !bad.compare_exchange_weak(seen, chunk)) {
        }
      }
    }
  };
  if (threads == 0) {
    threads = std::max(1U, std::thread::hardware_concurrency());
  }
  threads = static_cast<uint32_t>(std::min<uint64_t>({threads, kMaxThreads, numChunks}));
  std::vector<std::thread> others;
  others.reserve(threads);
  for (uint32_t i = 1; i < threads; ++i) {
    try {
      others.emplace_back(work);
    } catch (const std::system_error &) { // no more threads to be had: those that run do it all
      break;
    }
  }
  work();
  for (std::thread &other : others) {
    other.join();
  }
  return bad.load();
}

Status checkWeights(std::span<const std::byte> bytes, const manifest::Section &section,
                    uint32_t threads) {
  // checkManifest: the vector may be missing only when the section is empty
  std::vector<uint64_t> hashes;
  if (section.chunk_hashes() != nullptr) {
    hashes.assign(section.chunk_hashes()->begin(), section.chunk_hashes()->end());
  }
  if (hashBytes(std::as_bytes(std::span<const uint64_t>(hashes))) != section.hash()) {
    return corrupt("section weights: its chunk hashes differ from their hash; compile the package "
                   "again");
  }
  if (hashes.empty()) {
    return Status::ok();
  }
  const uint64_t bad = firstBadChunk(bytes, *section.chunk_hashes(), threads);
  return bad == kNoChunk ? Status::ok()
                         : differs(section, section.offset() + bad * kWeightChunkBytes);
}

} // namespace

uint64_t hashBytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Status checkSectionHashes(std::span<const std::byte> file, const manifest::Manifest &manifest,
                          bool weights, uint32_t threads) {
  for (const manifest::Section *section : *manifest.sections()) {
    const auto bytes = file.subspan(section->offset(), section->bytes());
    if (section->kind() == manifest::SectionKind::Weights) {
      if (weights) {
        SLUICE_RETURN_IF_ERROR(checkWeights(bytes, *section, threads));
      }
    } else if (hashBytes(bytes) != section->hash()) {
      return differs(*section, section->offset());
    }
  }
  return Status::ok();
}

Status checkPadding(std::span<const std::byte> file, const manifest::Manifest &manifest,
                    uint64_t manifestOffset, uint64_t manifestBytes) {
  std::vector<std::pair<uint64_t, uint64_t>> used; // [begin, end) in the file
  used.emplace_back(0, sizeof(PackageHeader));
  used.emplace_back(manifestOffset, manifestOffset + manifestBytes);
  for (const manifest::Section *section : *manifest.sections()) {
    used.emplace_back(section->offset(), section->offset() + section->bytes());
  }
  std::sort(used.begin(), used.end());
  used.emplace_back(file.size(), file.size());
  uint64_t end = 0;
  for (const auto &[begin, nextEnd] : used) {
    if (begin > end && begin - end >= kSectionAlignment) {
      return corrupt("offset " + std::to_string(end) + ": " + std::to_string(begin - end) +
                     " bytes belong to no section; compile the package again");
    }
    for (; end < begin; ++end) {
      if (file[end] != std::byte{0}) {
        return corrupt("offset " + std::to_string(end) +
                       ": padding is not zero; copy or compile the package again");
      }
    }
    end = std::max(end, nextEnd);
  }
  return Status::ok();
}

} // namespace sluice
