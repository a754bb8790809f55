// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A shared object loaded from memory: the code section of a package on a CPU.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace sluice {

/// Move-only; symbols live as long as the module.
class CodeModule {
public:
  CodeModule(CodeModule &&other) noexcept;
  CodeModule &operator=(CodeModule &&other) noexcept;
  ~CodeModule();

  /// Loads an ELF shared object through an anonymous file, or, where the system forbids that,
  /// through a file in $TMPDIR that is removed at once. The bytes must come from a verified
  /// package: they are executed. Corrupt: not an ELF shared object for this machine; Unsupported:
  /// the system's loader refuses it.
  static Result<CodeModule> load(std::span<const std::byte> object);

  /// Address of an exported symbol; Corrupt when the object does not export it.
  Result<void *> symbol(const std::string &name) const;

private:
  CodeModule() = default;
  void *handle_ = nullptr;
  // Kept open while loaded: the loader knows an object by its path /proc/self/fd/N, so N must not
  // be used for a second one.
  int descriptor_ = -1;
};

} // namespace sluice
