// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening by component with openat and O_NOFOLLOW.
#include "compiler/import/ContainedFile.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace sluicec;

namespace {
// Closes a descriptor at the end of a scope.
class Descriptor {
public:
  explicit Descriptor(int fd) : value(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (value >= 0) {
      ::close(value);
    }
  }
  void reset(int fd) { Descriptor old(std::exchange(value, fd)); }
  int get() const { return value; }

private:
  int value;
};

llvm::Error systemError(const llvm::Twine &what, int code) {
  return llvm::createStringError(what + ": " + std::strerror(code));
}

// Null where the path is a plain relative one, else what is wrong with it.
const char *pathFault(llvm::StringRef location) {
  if (location.empty()) {
    return "the path is empty";
  }
  if (location.contains('\0')) {
    return "the path holds a NUL character";
  }
  if (location.starts_with("/")) {
    return "the path is absolute, expected one below the model's folder";
  }
  if (location.contains('\\')) {
    return "the path holds a backslash; expected '/' between folders";
  }
  if (location.size() >= 2 && location[1] == ':' && llvm::isAlpha(location[0])) {
    return "the path starts with a drive letter, expected one below the model's folder";
  }
  llvm::SmallVector<llvm::StringRef> components;
  location.split(components, '/');
  return llvm::is_contained(components, "..") ? "the path leaves the model's folder with '..'"
                                              : nullptr;
}

std::string descriptorPath(int fd) {
  char buffer[PATH_MAX];
  ssize_t length =
      ::readlink(("/proc/self/fd/" + llvm::itostr(fd)).c_str(), buffer, sizeof(buffer));
  return length > 0 ? std::string(buffer, static_cast<size_t>(length)) : std::string();
}

llvm::Error openError(llvm::StringRef location, int code) {
  if (code == ELOOP || code == ENOTDIR) {
    return llvm::createStringError(
        "'" + location +
        "' passes through a symbolic link or a file; copy the file beside the model or pass "
        "--external-data-root=DIR");
  }
  return systemError("cannot open '" + location + "'", code);
}
} // namespace

MappedFile::~MappedFile() {
  if (size > 0) {
    ::munmap(const_cast<char *>(data), size);
  }
}

llvm::Expected<std::shared_ptr<const MappedFile>> MappedFile::map(int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    return systemError("cannot examine the file", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return llvm::createStringError("it is no regular file");
  }
  auto size = static_cast<size_t>(status.st_size);
  void *data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) {
    return systemError("cannot map the file", errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const char *>(data), size));
}

llvm::Expected<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: a FIFO must not hang the open; it is refused by map.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) {
    return systemError("cannot open the file", errno);
  }
  return map(file.get());
}

llvm::Expected<ContainedFolder> ContainedFolder::open(const std::string &modelFolder,
                                                      const std::string &externalDataRoot) {
  const std::string &folder = externalDataRoot.empty() ? modelFolder : externalDataRoot;
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return systemError("cannot open folder '" + folder + "'", errno);
  }
  return ContainedFolder(descriptor, !externalDataRoot.empty());
}

ContainedFolder::ContainedFolder(ContainedFolder &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)), followLinks(other.followLinks) {}

ContainedFolder::~ContainedFolder() { Descriptor closing(descriptor); }

llvm::Expected<std::shared_ptr<const MappedFile>>
ContainedFolder::map(llvm::StringRef location) const {
  if (const char *fault = pathFault(location)) {
    // A NUL would cut the message short on a terminal.
    return llvm::createStringError("external data file '" + location.take_until([](char c) {
      return c == '\0';
    }) + "': " + fault);
  }
  int noFollow = followLinks ? 0 : O_NOFOLLOW;
  llvm::SmallVector<llvm::StringRef> components;
  location.split(components, '/', -1, false);
  llvm::erase(components, ".");
  Descriptor current(::dup(descriptor));
  for (auto [i, component] : llvm::enumerate(components)) {
    bool isLast = i + 1 == components.size();
    int flags = O_CLOEXEC | noFollow | (isLast ? O_RDONLY | O_NONBLOCK : O_RDONLY | O_DIRECTORY);
    int next = ::openat(current.get(), component.str().c_str(), flags);
    if (next < 0) {
      return openError(location, errno);
    }
    current.reset(next);
  }
  struct stat status{};
  if (::fstat(current.get(), &status) != 0) {
    return systemError("cannot examine '" + location + "'", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return llvm::createStringError("external data file '" + location + "' is no regular file");
  }
  if (!followLinks && status.st_nlink > 1) {
    return llvm::createStringError(
        "external data file '" + location +
        "' is a hard link, which may lead out of the model's folder; copy it or pass "
        "--external-data-root=DIR");
  }
  if (followLinks) {
    std::string root = descriptorPath(descriptor);
    std::string file = descriptorPath(current.get());
    if (root.empty() || !(root == "/" || llvm::StringRef(file).starts_with(root + "/"))) {
      return llvm::createStringError("external data file '" + location +
                                     "' leads out of --external-data-root");
    }
  }
  return MappedFile::map(current.get());
}
