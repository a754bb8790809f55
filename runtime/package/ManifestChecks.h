// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the structure of a manifest whose bytes are already verified against their hash and by
// FlatBuffers' own verifier. After it, readers may follow every index without looking.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/package/package_generated.h"

#include <cstdint>
#include <optional>

namespace sluice {

/// Bytes of one element.
uint64_t elementBytes(manifest::ElementType type);
/// "weights", "code", ...: for messages.
const char *sectionName(manifest::SectionKind kind);

/// count * buffer.per_unit + fixed elements, in bytes; nothing on overflow.
std::optional<uint64_t> bufferBytes(const manifest::Buffer &buffer, uint64_t count);
/// An offset formula at counts (tokens, seqs, logitRows); nothing on overflow.
std::optional<uint64_t> offsetAt(const manifest::Offset &offset, uint64_t tokens, uint64_t seqs,
                                 uint64_t logitRows);

/// What holds afterwards:
/// - model, programs, sections and their inner vectors, names and symbols are present;
/// - enumerators are known; token ids of the model lie in [0, vocab);
/// - sections lie page-aligned within [sizeof(PackageHeader), fileBytes), overlap neither each
/// other
///   nor the manifest, and a weights section (at most one) has one hash per chunk;
/// - weights lie page-aligned within the weights section and have a whole number of elements;
/// - code names a Code section, at least one feature list (maybe empty), and its architecture;
/// - in each program: buffers name weights and groups that exist, a weight buffer is fixed and fits
///   its weight, a cache buffer is whole blocks of its group, an input has its element type;
///   entries name functions and buffers that exist, grids have tiles > 0 and countable units.
/// Corrupt: the first fault, as one line that names the table and its index.
Status checkManifest(const manifest::Manifest &manifest, uint64_t manifestOffset,
                     uint64_t manifestBytes, uint64_t fileBytes);

} // namespace sluice
