// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writing a package file safely.
#include "compiler/package/PackageFile.h"

#include "llvm/Support/Errno.h"
#include "llvm/Support/FormatVariadic.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace sluicec::package {

namespace fs = llvm::sys::fs;

llvm::Error PackageFile::failure(int code, llvm::StringRef doing) const {
  llvm::StringRef remedy =
      code == ENOSPC || code == EDQUOT ? "; free space there or choose another -o" : "";
  return llvm::createStringError(
      std::error_code(code, std::generic_category()),
      llvm::formatv("{0}: can't {1}: {2}{3}", path, doing, llvm::sys::StrError(code), remedy)
          .str());
}

llvm::Expected<PackageFile> PackageFile::create(llvm::StringRef path, uint64_t bytes) {
  fs::file_status status;
  if (!fs::status(path, status) && !fs::is_regular_file(status)) {
    return llvm::createStringError(path + ": is no regular file; choose another -o");
  }
  auto temporary = fs::TempFile::create(path + ".%%%%%%%%.partial");
  if (!temporary) {
    return llvm::createStringError(path +
                                   ": can't be made: " + llvm::toString(temporary.takeError()));
  }
  PackageFile file(path.str(), std::move(*temporary));
  // File systems that can't reserve (ENOTSUP) report a full disk while writing.
  if (bytes > 0 && ::fallocate(file.file->FD, 0, 0, static_cast<off_t>(bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return file.failure(errno, llvm::formatv("reserve {0} MiB", (bytes >> 20) + 1).str());
  }
  return std::move(file);
}

PackageFile::~PackageFile() {
  if (file) {
    // Nothing is left to say: whoever returned early reported why.
    llvm::consumeError(file->discard());
  }
}

llvm::Error PackageFile::write(uint64_t offset, llvm::ArrayRef<char> bytes) const {
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(file->FD, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return failure(written < 0 ? errno : EIO, "write");
    }
    bytes = bytes.drop_front(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return llvm::Error::success();
}

llvm::Error PackageFile::commit(uint64_t bytes) {
  if (::ftruncate(file->FD, static_cast<off_t>(bytes)) != 0) {
    return failure(errno, "set the size");
  }
  if (::fsync(file->FD) != 0 && errno != EINVAL) {
    return failure(errno, "write");
  }
  if (llvm::Error e = file->keep(path)) {
    file.reset();
    return llvm::createStringError(path + ": can't be made: " + llvm::toString(std::move(e)));
  }
  file.reset();
  return llvm::Error::success();
}

} // namespace sluicec::package
