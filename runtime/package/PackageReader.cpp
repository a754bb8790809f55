// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a package in the order that lets nothing unverified steer anything: header, manifest hash,
// FlatBuffers verifier, structure, hashes of the sections.
#include "runtime/package/PackageReader.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/package/ManifestChecks.h"
#include "runtime/package/PackageFormat.h"
#include "runtime/package/SectionHashes.h"

#include <cstddef>
#include <cstring>

namespace sluice {
namespace {

constexpr uint64_t kManifestAlignment = 8; // of the 64-bit numbers within

// The status with the path in front.
Status withPath(const std::string &path, const Status &status) {
  return {status.code(), path + ": " + status.message()};
}

Result<PackageHeader> readHeader(std::span<const std::byte> file) {
  PackageHeader header = {};
  if (file.size() < sizeof(header.magic) ||
      std::memcmp(file.data(), kPackageMagic, sizeof(kPackageMagic)) != 0) {
    return corrupt("not a .sluice package: it does not begin with SLUICE01; make one with sluicec");
  }
  if (file.size() < sizeof(header)) {
    return corrupt("header, offset 0: the file ends after " + std::to_string(file.size()) +
                   " bytes; copy or compile the package again");
  }
  std::memcpy(&header, file.data(), sizeof(header));
  // The version comes first: a newer header may be hashed otherwise.
  if (header.version > kFormatVersion) {
    return unsupported("package version " + std::to_string(header.version) +
                       " is newer than this runtime reads (" + std::to_string(kFormatVersion) +
                       "); update sluice, or compile the model with the sluicec of this version");
  }
  if (hashBytes(file.first(offsetof(PackageHeader, headerHash))) != header.headerHash) {
    return corrupt(
        "header, offset 0: the bytes differ from their hash; copy or compile the package again");
  }
  if (header.version == 0 || header.headerBytes != sizeof(header) || header.reserved != 0) {
    return corrupt("header, offset 8: impossible version, size or reserved field; compile the "
                   "package again");
  }
  if (header.fileBytes != file.size()) {
    return corrupt("header, offset 16: the file has " + std::to_string(file.size()) +
                   " bytes, expected " + std::to_string(header.fileBytes) +
                   "; copy or compile the package again");
  }
  if (header.manifestOffset < sizeof(header) || header.manifestOffset % kManifestAlignment != 0 ||
      header.manifestBytes > kMaxManifestBytes ||
      !rangeFits(header.manifestOffset, header.manifestBytes, file.size())) {
    return corrupt("header, offset 24: the manifest at " + std::to_string(header.manifestOffset) +
                   " of " + std::to_string(header.manifestBytes) +
                   " bytes does not lie in the file; compile the package again");
  }
  return header;
}

} // namespace

Result<PackageReader> PackageReader::open(const std::string &path, const PackageOptions &options) {
  auto file = MappedFile::open(path);
  if (!file) {
    return file.error();
  }
  PackageReader reader(path, std::move(*file));
  if (Status status = reader.verify(options); !status) {
    return withPath(path, status);
  }
  if (options.prefault) {
    reader.file_.prefault(0, reader.fileBytes());
  }
  return reader;
}

Status PackageReader::verify(const PackageOptions &options) {
  const auto bytes = file_.bytes();
  const auto header = readHeader(bytes);
  if (!header) {
    return header.error();
  }
  const auto manifestBytes = bytes.subspan(header->manifestOffset, header->manifestBytes);
  if (hashBytes(manifestBytes) != header->manifestHash) {
    return corrupt("section manifest, offset " + std::to_string(header->manifestOffset) +
                   ": the bytes differ from their hash; copy or compile the package again");
  }
  flatbuffers::Verifier::Options limits;
  limits.max_depth = 16;        // the schema nests four deep
  limits.max_tables = 1U << 22; // layers * entries, far above any model
  const auto *data = reinterpret_cast<const uint8_t *>(manifestBytes.data());
  flatbuffers::Verifier verifier(data, manifestBytes.size(), limits);
  if (!manifest::VerifyManifestBuffer(verifier)) {
    return corrupt("section manifest, offset " + std::to_string(header->manifestOffset) +
                   ": not a valid manifest; compile the package again");
  }
  const manifest::Manifest *root = manifest::GetManifest(data);
  if (Status status =
          checkManifest(*root, header->manifestOffset, header->manifestBytes, bytes.size());
      !status) {
    return {status.code(), "section manifest: " + status.message()};
  }
  SLUICE_RETURN_IF_ERROR(checkPadding(bytes, *root, header->manifestOffset, header->manifestBytes));
  SLUICE_RETURN_IF_ERROR(
      checkSectionHashes(bytes, *root, options.verify == Verify::All, options.threads));
  manifest_ = root;
  for (const manifest::Section *section : *root->sections()) {
    if (section->kind() == manifest::SectionKind::Weights) {
      weights_ = bytes.subspan(section->offset(), section->bytes());
    }
  }
  return Status::ok();
}

std::span<const std::byte> PackageReader::section(uint32_t index) const {
  const manifest::Section &section = *manifest_->sections()->Get(index);
  return file_.bytes().subspan(section.offset(), section.bytes());
}

std::optional<std::string_view> PackageReader::text(manifest::SectionKind kind) const {
  for (uint32_t i = 0; i < manifest_->sections()->size(); ++i) {
    if (manifest_->sections()->Get(i)->kind() == kind) {
      const auto bytes = section(i);
      return std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
  }
  return std::nullopt;
}

std::span<const std::byte> PackageReader::weight(uint32_t index) const {
  const manifest::Weight &weight = *manifest_->weights()->Get(index);
  return weights_.subspan(weight.offset(), weight.bytes());
}

const manifest::Program *PackageReader::program(std::string_view name) const {
  for (const manifest::Program *program : *manifest_->programs()) {
    if (program->name()->string_view() == name) {
      return program;
    }
  }
  return nullptr;
}

} // namespace sluice
