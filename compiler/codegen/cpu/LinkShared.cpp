// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs lld as a library on objects in a temporary folder.
#include "compiler/codegen/cpu/LinkShared.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

namespace sluicec::cpu {

namespace {

/// lld keeps process-wide state: one link at a time.
std::mutex &lldMutex() {
  static std::mutex mutex;
  return mutex;
}

llvm::Error writeFile(llvm::StringRef path, const std::vector<char> &bytes) {
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error) {
    out.write(bytes.data(), bytes.size());
    out.close();
    error = out.error();
    out.clear_error();
  }
  return error ? llvm::createStringError(error, "cannot write %s: %s", path.str().c_str(),
                                         error.message().c_str())
               : llvm::Error::success();
}

/// A path of a file in `folder`.
std::string inside(llvm::StringRef folder, const llvm::Twine &name) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

std::vector<std::string> arguments(LinkKind kind, const CpuTarget &target) {
  std::vector<std::string> args{"ld.lld", "-m", target.isX86() ? "elf_x86_64" : "aarch64linux",
                                "--build-id=none", "--threads=1"};
  if (kind == LinkKind::Relocatable) {
    args.push_back("-r");
  } else {
    for (const char *option :
         {"-shared", "-Bsymbolic", "--no-undefined", "-soname=kernels", "--hash-style=both",
          "-znoexecstack", "-zrelro", "-znow", "--gc-sections", "--strip-all"}) {
      args.push_back(option);
    }
  }
  return args;
}

} // namespace

llvm::Expected<std::vector<char>> linkObjects(llvm::ArrayRef<std::vector<char>> objects,
                                              LinkKind kind, const CpuTarget &target) {
  llvm::SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("sluice-link", folder)) {
    return llvm::createStringError(error, "cannot make a temporary folder: %s",
                                   error.message().c_str());
  }
  llvm::scope_exit cleanup([&] { llvm::sys::fs::remove_directories(folder); });
  std::vector<std::string> args = arguments(kind, target);
  for (size_t i = 0; i < objects.size(); ++i) {
    std::string path = inside(folder, llvm::Twine(i) + ".o");
    if (llvm::Error error = writeFile(path, objects[i])) {
      return error;
    }
    args.push_back(path);
  }
  std::string result = inside(folder, "linked");
  args.insert(args.end(), {"-o", result});
  std::vector<const char *> pointers;
  for (const std::string &arg : args) {
    pointers.push_back(arg.c_str());
  }
  std::string words;
  llvm::raw_string_ostream stream(words);
  {
    std::lock_guard<std::mutex> lock(lldMutex());
    lld::Result linked = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (linked.retCode != 0) {
      return llvm::createStringError("linking kernels failed: %s", words.c_str());
    }
  }
  auto buffer =
      llvm::MemoryBuffer::getFile(result, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    return llvm::createStringError(buffer.getError(), "cannot read the linked kernels: %s",
                                   buffer.getError().message().c_str());
  }
  return std::vector<char>((*buffer)->getBufferStart(), (*buffer)->getBufferEnd());
}

} // namespace sluicec::cpu
