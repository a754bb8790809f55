// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// memfd_create and dlopen, with a temporary file as the way out.
#include "runtime/device/CodeModule.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace sluice {
namespace {

// Whether the loader would take the file for an object of this machine; dlopen's own messages name
// a path that means nothing to anybody.
Status checkElf(std::span<const std::byte> object) {
  Elf64_Ehdr header;
  if (object.size() < sizeof(header) || std::memcmp(object.data(), ELFMAG, SELFMAG) != 0) {
    return corrupt("the code section is not an ELF object; compile the package again");
  }
  std::memcpy(&header, object.data(), sizeof(header));
#if defined(__x86_64__)
  constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
  constexpr uint16_t kMachine = EM_AARCH64;
#else
  constexpr uint16_t kMachine = EM_NONE;
#endif
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine ||
      header.e_type != ET_DYN) {
    return corrupt("the code section is not a 64-bit shared object for this machine; compile the "
                   "package again");
  }
  return Status::ok();
}

bool writeAll(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// dlopen of an open file by its number; null with dlerror() set on failure.
void *openByNumber(int descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string loaderMessage() {
  const char *text = ::dlerror();
  return text == nullptr ? "no reason given" : text;
}

} // namespace

CodeModule::CodeModule(CodeModule &&other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

CodeModule &CodeModule::operator=(CodeModule &&other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

CodeModule::~CodeModule() {
  if (handle_ != nullptr) {
    ::dlclose(handle_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<CodeModule> CodeModule::load(std::span<const std::byte> object) {
  SLUICE_RETURN_IF_ERROR(checkElf(object));
  CodeModule module;
  module.descriptor_ = ::memfd_create("sluice-code", MFD_CLOEXEC);
  if (module.descriptor_ >= 0 && writeAll(module.descriptor_, object)) {
    module.handle_ = openByNumber(module.descriptor_);
    if (module.handle_ != nullptr) {
      return module;
    }
  }
  const std::string first = module.descriptor_ >= 0 ? loaderMessage() : std::strerror(errno);
  // No anonymous files, no /proc, or they may not be executed: a file that only we can read.
  const char *folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder == nullptr || *folder == 0 ? "/tmp" : folder) + "/sluice-XXXXXX";
  const int file = ::mkstemp(path.data()); // created with mode 0600
  if (file < 0) {
    return unsupported("can't load the package's code: " + first + "; nor through " + path + ": " +
                       std::strerror(errno) + "; set TMPDIR to a writable folder");
  }
  if (writeAll(file, object)) {
    module.handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  const std::string second = module.handle_ == nullptr ? loaderMessage() : std::string();
  ::unlink(path.c_str());
  ::close(file);
  if (module.handle_ == nullptr) {
    return unsupported("can't load the package's code: " + first +
                       "; nor through a temporary file: " + second +
                       "; set TMPDIR to a folder whose files may be executed");
  }
  return module;
}

Result<void *> CodeModule::symbol(const std::string &name) const {
  void *address = ::dlsym(handle_, name.c_str());
  if (address == nullptr) {
    return corrupt("the code section does not export '" + name + "'; compile the package again");
  }
  return address;
}

} // namespace sluice
