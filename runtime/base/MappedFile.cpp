// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps a file read-only through mmap and tells the system how it will be read.
#include "runtime/base/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sluice {
namespace {

// Closes the descriptor on every way out.
struct Descriptor {
  int number = -1;
  explicit Descriptor(int n) : number(n) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0) {
      ::close(number);
    }
  }
};

std::string systemMessage(const std::string &path, const char *what) {
  const int error = errno; // before anything else can change it
  return path + ": " + what + ": " + std::strerror(error);
}

// The part of [offset, offset + length) within `size`, widened to whole pages; empty when outside.
std::pair<uint64_t, uint64_t> pagesOf(uint64_t offset, uint64_t length, uint64_t size) {
  if (offset >= size) {
    return {0, 0};
  }
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t end = length < size - offset ? offset + length : size;
  const uint64_t begin = offset / page * page;
  return {begin, end - begin};
}

} // namespace

MappedFile::MappedFile(MappedFile &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    // munmap takes a pointer to non-const, though nothing is written
    ::munmap(const_cast<std::byte *>(data_), size_);
  }
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: opening a named pipe must not wait for its other end
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    std::string message = systemMessage(path, "can't open");
    return missing ? notFound(std::move(message)) : invalidArgument(std::move(message));
  }
  struct stat facts = {};
  if (::fstat(file.number, &facts) != 0) {
    return invalidArgument(systemMessage(path, "can't read its size"));
  }
  if (!S_ISREG(facts.st_mode)) {
    return invalidArgument(path + ": not a regular file");
  }
  MappedFile mapped;
  if (facts.st_size == 0) {
    return mapped;
  }
  const auto size = static_cast<uint64_t>(facts.st_size);
  void *data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) {
    return outOfMemory(systemMessage(path, "can't map it"));
  }
  mapped.data_ = static_cast<const std::byte *>(data);
  mapped.size_ = size;
  return mapped;
}

void MappedFile::willNeed(uint64_t offset, uint64_t length) const {
  const auto [begin, bytes] = pagesOf(offset, length, size_);
  if (bytes != 0) { // advice only: a failure changes nothing but speed
    ::madvise(const_cast<std::byte *>(data_) + begin, bytes, MADV_WILLNEED);
  }
}

void MappedFile::prefault(uint64_t offset, uint64_t length) const {
  const auto [begin, bytes] = pagesOf(offset, length, size_);
  if (bytes == 0) {
    return;
  }
#ifdef MADV_POPULATE_READ // Linux 5.14
  if (::madvise(const_cast<std::byte *>(data_) + begin, bytes, MADV_POPULATE_READ) == 0) {
    return;
  }
#endif
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const volatile std::byte *touch = data_ + begin;
  for (uint64_t at = 0; at < bytes; at += page) {
    static_cast<void>(touch[at]);
  }
}

} // namespace sluice
