// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of a model, opened so that nothing a model file says can lead out of its folder, and mapped
// read-only.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace sluicec {

/// A read-only mapping of a whole regular file; unmapped at destruction.
class MappedFile {
public:
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  llvm::ArrayRef<char> bytes() const { return {data, size}; }

  /// Maps the file that a user named; links are followed. Error where it is missing or no regular
  /// file.
  static llvm::Expected<std::shared_ptr<const MappedFile>> open(const std::string &path);
  /// Maps the file behind an open descriptor, which stays open.
  static llvm::Expected<std::shared_ptr<const MappedFile>> map(int descriptor);

private:
  MappedFile(const char *mapped, size_t bytes) : data(mapped), size(bytes) {}
  const char *data;
  size_t size;
};

/// Opens files by the relative paths that an ONNX file gives.
///
/// With an empty `externalDataRoot` paths are relative to the model's folder and refused where they
/// are absolute, hold `..`, a backslash, a drive letter or a NUL, pass through a symbolic link, or
/// name a hard link or anything but a regular file. Each component is opened relative to its parent
/// without following links, so that a race cannot change the answer. With a root, paths are
/// relative to it and links are followed as long as the file lies in the root.
class ContainedFolder {
public:
  static llvm::Expected<ContainedFolder> open(const std::string &modelFolder,
                                              const std::string &externalDataRoot);
  ContainedFolder(ContainedFolder &&other) noexcept;
  ContainedFolder &operator=(ContainedFolder &&) = delete;
  ~ContainedFolder();

  /// Maps the file at `location`; the message says what is wrong with the path, not which tensor
  /// wanted it.
  llvm::Expected<std::shared_ptr<const MappedFile>> map(llvm::StringRef location) const;

private:
  ContainedFolder(int fd, bool follow) : descriptor(fd), followLinks(follow) {}
  int descriptor;
  bool followLinks;
};

} // namespace sluicec
