// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What this machine's CPU can do, in LLVM's feature names, and which code of a package runs on it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/package/package_generated.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A set of LLVM feature names ("avx512f", "fma", aarch64: "dotprod").
class CpuFeatures {
public:
  /// Of this machine, by CPUID and XGETBV (a register file that the system does not save counts as
  /// missing) or HWCAP. Names that this runtime does not know count as missing.
  static CpuFeatures host();

  /// The architecture that this runtime was built for: "x86_64" or "aarch64".
  static std::string_view architecture();

  /// `name` with or without a leading '+'.
  bool has(std::string_view name) const;
  /// Takes names away, as if the machine lacked them.
  void mask(std::span<const std::string> names);
  /// Takes away the names of a comma-separated list.
  void maskList(std::string_view commaSeparated);

private:
  std::vector<std::string_view> present_; // sorted; views of literals
};

/// Index into manifest.code() of the best code whose features are all there: the one that asks for
/// most features. Unsupported: none fits; the message names the missing features of the code that
/// comes closest and the remedy.
Result<uint32_t> chooseCode(const manifest::Manifest &manifest, const CpuFeatures &features);

} // namespace sluice
