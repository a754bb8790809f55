// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file that a package is written to: parallel writes at stated offsets into a temporary file
// that becomes the package when it is whole.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sluicec::package {

class PackageFile {
public:
  /// Makes a temporary file beside `path` and reserves `bytes` for it, so that a full disk is found
  /// now rather than after the work. Unwritten bytes read as 0.
  static llvm::Expected<PackageFile> create(llvm::StringRef path, uint64_t bytes);
  PackageFile(PackageFile &&) = default;
  PackageFile &operator=(PackageFile &&) = delete;
  /// Removes the temporary file where commit() was not reached.
  ~PackageFile();

  /// Writes at an offset; any thread. Grows the file beyond what was reserved where needed.
  llvm::Error write(uint64_t offset, llvm::ArrayRef<char> bytes) const;
  /// Cuts to `bytes`, waits until all is on disk, and gives the file its name.
  llvm::Error commit(uint64_t bytes);

private:
  PackageFile(std::string path, llvm::sys::fs::TempFile file)
      : path(std::move(path)), file(std::move(file)) {}

  std::string path;
  std::optional<llvm::sys::fs::TempFile> file;

  llvm::Error failure(int code, llvm::StringRef doing) const;
};

} // namespace sluicec::package
