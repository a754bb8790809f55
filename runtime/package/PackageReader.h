// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a .sluice package: maps the file, verifies header, manifest and sections, and hands out
// views. Second room of the runtime; device, program and engine read the model through it.
#pragma once

#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"
#include "runtime/package/package_generated.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Which hashes open() checks. Header, manifest, structure, code and texts always are.
enum class Verify {
  All,  ///< also the weights, in parallel
  Code, ///< not the weights: faster start, a flipped weight bit goes unseen
};

struct PackageOptions {
  Verify verify = Verify::All;
  bool prefault = false; ///< reads all pages in before open() returns
  uint32_t threads = 0;  ///< for hashing; 0 = one per core
};

/// Everything handed out points into the mapped file and lives as long as the reader (moving the
/// reader keeps it valid). Immutable: all functions may run in several threads.
class PackageReader {
public:
  /// NotFound: no such file; Corrupt: not a package, cut, or changed ("section weights, offset N:
  /// ..."); Unsupported: written by a newer compiler. Each message is one line that opens with the
  /// path.
  static Result<PackageReader> open(const std::string &path, const PackageOptions &options = {});

  const std::string &path() const { return path_; }
  uint64_t fileBytes() const { return file_.bytes().size(); }
  /// Verified: all tables and strings that readers need are there, all indices and ranges in
  /// bounds (ManifestChecks.h lists what holds).
  const manifest::Manifest &manifest() const { return *manifest_; }

  /// Bytes of manifest().sections()[index].
  std::span<const std::byte> section(uint32_t index) const;
  /// The first section of this kind as text (may be empty); nothing when there is none.
  std::optional<std::string_view> text(manifest::SectionKind kind) const;
  /// Bytes of manifest().weights()[index], page-aligned.
  std::span<const std::byte> weight(uint32_t index) const;
  /// The program of this name; null when there is none.
  const manifest::Program *program(std::string_view name) const;

private:
  PackageReader(std::string path, MappedFile file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Status verify(const PackageOptions &options);

  std::string path_;
  MappedFile file_;
  const manifest::Manifest *manifest_ = nullptr;
  std::span<const std::byte> weights_; // the weights section; empty without one
};

} // namespace sluice
