// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the bytes of a package with the hashes in its manifest: XXH3-64 of each section, weights
// in chunks by several threads, and zeros wherever nothing lies.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/package/package_generated.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// XXH3-64, seed 0.
uint64_t hashBytes(std::span<const std::byte> bytes);

/// Compares all sections, weights only when `weights`. `threads`: 0 = one per core. Requires
/// checkManifest. Corrupt: names the section and the offset in the file of the section or chunk
/// that differs.
Status checkSectionHashes(std::span<const std::byte> file, const manifest::Manifest &manifest,
                          bool weights, uint32_t threads);

/// The bytes between header, manifest and sections must be 0 and gaps shorter than a page, so that
/// every byte of a package is covered. Requires checkManifest.
Status checkPadding(std::span<const std::byte> file, const manifest::Manifest &manifest,
                    uint64_t manifestOffset, uint64_t manifestBytes);

} // namespace sluice
