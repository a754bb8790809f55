// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fixed header that opens a .sluice file; all else stands in the manifest (package.fbs).
//
//   [0, 64)                PackageHeader
//   [manifestOffset, ..)   FlatBuffers manifest, XXH3-64 in the header
//   sections               page-aligned, listed in the manifest with their hashes
//
// The runtime reads it first; compiler/package writes it last, so that a cut file is never mistaken for a whole one.
#pragma once

#include <cstdint>

namespace sluice {

inline constexpr char kPackageMagic[8] = {'S', 'L', 'U', 'I', 'C', 'E', '0', '1'};
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint64_t kSectionAlignment = 4096;
inline constexpr uint64_t kWeightChunkBytes = 4ull << 20;
inline constexpr uint64_t kMaxManifestBytes = 256ull << 20;

/// Output mode bits of a step, as Entry.needed_for in package.fbs names them: an entry runs when the step asks for any of its bits.
inline constexpr uint32_t kOutputLogits = 1; ///< at least one logit row
inline constexpr uint32_t kOutputProbes = 2; ///< probes

/// Little-endian, no padding. `headerHash` is XXH3-64 of the bytes before it.
struct PackageHeader {
  char magic[8];
  uint32_t version;        ///< kFormatVersion of the writer
  uint32_t headerBytes;    ///< sizeof(PackageHeader)
  uint64_t fileBytes;      ///< of the whole package
  uint64_t manifestOffset; ///< in bytes
  uint64_t manifestBytes;
  uint64_t manifestHash; ///< XXH3-64
  uint64_t reserved;     ///< 0
  uint64_t headerHash;
};
static_assert(sizeof(PackageHeader) == 64);

} // namespace sluice
