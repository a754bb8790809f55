// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The instruction sets that kernels are compiled for, and which of them this machine has.
#include "compiler/codegen/cpu/CpuCodegen.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

namespace sluicec::cpu {

namespace {

const char *const kV3Features[] = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"};
const char *const kV4Features[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

CpuTarget x86Target(llvm::StringRef name, bool avx512) {
  CpuTarget target;
  target.name = name.str();
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = avx512 ? "x86-64-v4" : "x86-64-v3";
  target.tuneCpu = avx512 ? "icelake-server" : "haswell";
  target.vectorBits = avx512 ? 512 : 256;
  target.requiredFeatures.assign(std::begin(kV3Features), std::end(kV3Features));
  if (avx512) {
    target.requiredFeatures.insert(target.requiredFeatures.end(), std::begin(kV4Features),
                                   std::end(kV4Features));
  }
  return target;
}

CpuTarget aarch64Target(llvm::StringRef name) {
  CpuTarget target;
  target.name = name.str();
  target.triple = "aarch64-unknown-linux-gnu";
  target.cpu = "generic";
  target.tuneCpu = "neoverse-n1";
  target.vectorBits = 128;
  return target;
}

template <typename List> bool hasAll(const llvm::StringMap<bool> &features, const List &wanted) {
  for (const char *feature : wanted) {
    if (!features.lookup(feature)) {
      return false;
    }
  }
  return true;
}

llvm::Expected<CpuTarget> nativeTarget() {
  llvm::Triple host(llvm::sys::getDefaultTargetTriple());
  if (host.getArch() == llvm::Triple::aarch64) {
    CpuTarget target = aarch64Target("native");
    target.tuneCpu = llvm::sys::getHostCPUName().str();
    return target;
  }
  if (host.getArch() != llvm::Triple::x86_64) {
    return llvm::createStringError(
        "target native: this machine is %s; code exists for x86_64 and aarch64",
        host.getArchName().str().c_str());
  }
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (!hasAll(features, kV3Features)) {
    return llvm::createStringError(
        "target native: this machine has no AVX2 with FMA and F16C (x86-64-v3), "
        "without which there is no code; compile for another machine with "
        "x86-64-v3, x86-64-v4 or aarch64");
  }
  CpuTarget target = x86Target("native", hasAll(features, kV4Features));
  target.tuneCpu = llvm::sys::getHostCPUName().str();
  return target;
}

} // namespace

llvm::Expected<CpuTarget> CpuTarget::parse(llvm::StringRef name) {
  if (name == "native") {
    return nativeTarget();
  }
  if (name == "x86-64-v3" || name == "x86-64-v4") {
    return x86Target(name, name == "x86-64-v4");
  }
  if (name == "aarch64") {
    return aarch64Target(name);
  }
  return llvm::createStringError(
      "unknown CPU target '%s': expected native, x86-64-v3, x86-64-v4 or aarch64",
      name.str().c_str());
}

} // namespace sluicec::cpu
