// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPUID bits by LLVM feature name, and the choice among a package's code variants.
#include "runtime/package/CpuFeatures.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace sluice {
namespace {

std::string_view withoutPlus(std::string_view name) {
  return !name.empty() && name.front() == '+' ? name.substr(1) : name;
}

#if defined(__x86_64__)

enum Register : uint8_t { Eax, Ebx, Ecx, Edx };
// Which register state the system must save, too.
enum State : uint8_t { None, Ymm, Zmm, Tiles };

struct Bit {
  std::string_view name; // as in llvm/lib/Target/X86/X86.td
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  uint8_t bit;
  State state = None;
};

// Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E (leaves from 0x80000000).
constexpr std::array kBits = {
    Bit{"x87", 1, 0, Edx, 0},
    Bit{"cx8", 1, 0, Edx, 8},
    Bit{"cmov", 1, 0, Edx, 15},
    Bit{"mmx", 1, 0, Edx, 23},
    Bit{"fxsr", 1, 0, Edx, 24},
    Bit{"sse", 1, 0, Edx, 25},
    Bit{"sse2", 1, 0, Edx, 26},
    Bit{"sse3", 1, 0, Ecx, 0},
    Bit{"pclmul", 1, 0, Ecx, 1},
    Bit{"ssse3", 1, 0, Ecx, 9},
    Bit{"fma", 1, 0, Ecx, 12, Ymm},
    Bit{"cx16", 1, 0, Ecx, 13},
    Bit{"sse4.1", 1, 0, Ecx, 19},
    Bit{"sse4.2", 1, 0, Ecx, 20},
    Bit{"crc32", 1, 0, Ecx, 20},
    Bit{"movbe", 1, 0, Ecx, 22},
    Bit{"popcnt", 1, 0, Ecx, 23},
    Bit{"aes", 1, 0, Ecx, 25},
    Bit{"xsave", 1, 0, Ecx, 27}, // OSXSAVE: the system has switched it on
    Bit{"avx", 1, 0, Ecx, 28, Ymm},
    Bit{"f16c", 1, 0, Ecx, 29, Ymm},
    Bit{"rdrnd", 1, 0, Ecx, 30},
    Bit{"fsgsbase", 7, 0, Ebx, 0},
    Bit{"sgx", 7, 0, Ebx, 2},
    Bit{"bmi", 7, 0, Ebx, 3},
    Bit{"avx2", 7, 0, Ebx, 5, Ymm},
    Bit{"bmi2", 7, 0, Ebx, 8},
    Bit{"invpcid", 7, 0, Ebx, 10},
    Bit{"rtm", 7, 0, Ebx, 11},
    Bit{"avx512f", 7, 0, Ebx, 16, Zmm},
    Bit{"evex512", 7, 0, Ebx, 16, Zmm},
    Bit{"avx512dq", 7, 0, Ebx, 17, Zmm},
    Bit{"rdseed", 7, 0, Ebx, 18},
    Bit{"adx", 7, 0, Ebx, 19},
    Bit{"avx512ifma", 7, 0, Ebx, 21, Zmm},
    Bit{"clflushopt", 7, 0, Ebx, 23},
    Bit{"clwb", 7, 0, Ebx, 24},
    Bit{"avx512cd", 7, 0, Ebx, 28, Zmm},
    Bit{"sha", 7, 0, Ebx, 29},
    Bit{"avx512bw", 7, 0, Ebx, 30, Zmm},
    Bit{"avx512vl", 7, 0, Ebx, 31, Zmm},
    Bit{"avx512vbmi", 7, 0, Ecx, 1, Zmm},
    Bit{"pku", 7, 0, Ecx, 4},
    Bit{"waitpkg", 7, 0, Ecx, 5},
    Bit{"avx512vbmi2", 7, 0, Ecx, 6, Zmm},
    Bit{"shstk", 7, 0, Ecx, 7},
    Bit{"gfni", 7, 0, Ecx, 8},
    Bit{"vaes", 7, 0, Ecx, 9, Ymm},
    Bit{"vpclmulqdq", 7, 0, Ecx, 10, Ymm},
    Bit{"avx512vnni", 7, 0, Ecx, 11, Zmm},
    Bit{"avx512bitalg", 7, 0, Ecx, 12, Zmm},
    Bit{"avx512vpopcntdq", 7, 0, Ecx, 14, Zmm},
    Bit{"rdpid", 7, 0, Ecx, 22},
    Bit{"cldemote", 7, 0, Ecx, 25},
    Bit{"movdiri", 7, 0, Ecx, 27},
    Bit{"movdir64b", 7, 0, Ecx, 28},
    Bit{"enqcmd", 7, 0, Ecx, 29},
    Bit{"uintr", 7, 0, Edx, 5},
    Bit{"avx512vp2intersect", 7, 0, Edx, 8, Zmm},
    Bit{"serialize", 7, 0, Edx, 14},
    Bit{"tsxldtrk", 7, 0, Edx, 16},
    Bit{"pconfig", 7, 0, Edx, 18},
    Bit{"amx-bf16", 7, 0, Edx, 22, Tiles},
    Bit{"avx512fp16", 7, 0, Edx, 23, Zmm},
    Bit{"amx-tile", 7, 0, Edx, 24, Tiles},
    Bit{"amx-int8", 7, 0, Edx, 25, Tiles},
    Bit{"sha512", 7, 1, Eax, 0, Ymm},
    Bit{"sm3", 7, 1, Eax, 1, Ymm},
    Bit{"sm4", 7, 1, Eax, 2, Ymm},
    Bit{"raoint", 7, 1, Eax, 3},
    Bit{"avxvnni", 7, 1, Eax, 4, Ymm},
    Bit{"avx512bf16", 7, 1, Eax, 5, Zmm},
    Bit{"cmpccxadd", 7, 1, Eax, 7},
    Bit{"amx-fp16", 7, 1, Eax, 21, Tiles},
    Bit{"hreset", 7, 1, Eax, 22},
    Bit{"avxifma", 7, 1, Eax, 23, Ymm},
    Bit{"avxvnniint8", 7, 1, Edx, 4, Ymm},
    Bit{"avxneconvert", 7, 1, Edx, 5, Ymm},
    Bit{"amx-complex", 7, 1, Edx, 8, Tiles},
    Bit{"avxvnniint16", 7, 1, Edx, 10, Ymm},
    Bit{"prefetchi", 7, 1, Edx, 14},
    Bit{"xsaveopt", 0xd, 1, Eax, 0},
    Bit{"xsavec", 0xd, 1, Eax, 1},
    Bit{"xsaves", 0xd, 1, Eax, 3},
    Bit{"ptwrite", 0x14, 0, Ebx, 4},
    Bit{"sahf", 0x80000001, 0, Ecx, 0},
    Bit{"lzcnt", 0x80000001, 0, Ecx, 5},
    Bit{"sse4a", 0x80000001, 0, Ecx, 6},
    Bit{"prfchw", 0x80000001, 0, Ecx, 8},
    Bit{"xop", 0x80000001, 0, Ecx, 11, Ymm},
    Bit{"lwp", 0x80000001, 0, Ecx, 15},
    Bit{"fma4", 0x80000001, 0, Ecx, 16, Ymm},
    Bit{"tbm", 0x80000001, 0, Ecx, 21},
    Bit{"mwaitx", 0x80000001, 0, Ecx, 29},
    Bit{"64bit", 0x80000001, 0, Edx, 29},
    Bit{"clzero", 0x80000008, 0, Ebx, 0},
    Bit{"rdpru", 0x80000008, 0, Ebx, 4},
    Bit{"wbnoinvd", 0x80000008, 0, Ebx, 9},
};

std::array<uint32_t, 4> cpuid(uint32_t leaf, uint32_t subleaf) {
  std::array<uint32_t, 4> r = {};
  // gives zeros for a leaf beyond the highest
  if (__get_cpuid_count(leaf, subleaf, &r[Eax], &r[Ebx], &r[Ecx], &r[Edx]) == 0) {
    return {};
  }
  return r;
}

// XCR0: the register state that the system saves; 0 without OSXSAVE.
uint64_t savedState() {
  constexpr uint32_t kOsXsave = 1U << 27;
  if ((cpuid(1, 0)[Ecx] & kOsXsave) == 0) {
    return 0;
  }
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux gives tile registers only to a process that asked for them (arch_prctl(2)).
bool tilesPermitted() {
  constexpr long kArchGetXcompPerm = 0x1022;
  constexpr uint64_t kTileData = uint64_t{1} << 18;
  uint64_t permitted = 0;
  return ::syscall(SYS_arch_prctl, kArchGetXcompPerm, &permitted) == 0 &&
         (permitted & kTileData) != 0;
}

std::vector<std::string_view> detect() {
  const uint64_t saved = savedState();
  const auto saves = [saved](uint64_t bits) { return (saved & bits) == bits; };
  // SDM vol. 1, 13.3: SSE and AVX state; then opmask, upper halves, upper registers; tile config
  // and data
  const std::array<bool, 4> stateOk = {true, saves(0x6), saves(0xe6),
                                       saves(0x60000) && tilesPermitted()};
  std::vector<std::string_view> present;
  for (const Bit &bit : kBits) {
    if ((cpuid(bit.leaf, bit.subleaf)[bit.reg] >> bit.bit & 1) != 0 && stateOk[bit.state]) {
      present.push_back(bit.name);
    }
  }
  return present;
}

#elif defined(__aarch64__)

struct Bit {
  std::string_view name; // as in llvm/lib/Target/AArch64/AArch64Features.td
  bool second;           // AT_HWCAP2
  uint8_t bit;           // Linux Documentation/arch/arm64/elf_hwcaps.rst, asm/hwcap.h
};

constexpr std::array kBits = {
    Bit{"fp-armv8", false, 0},  Bit{"neon", false, 1}, Bit{"aes", false, 3},
    Bit{"sha2", false, 6},      Bit{"crc", false, 7},  Bit{"lse", false, 8},
    Bit{"fullfp16", false, 10}, Bit{"rdm", false, 12}, Bit{"rcpc", false, 15},
    Bit{"dotprod", false, 20},  Bit{"sve", false, 22}, Bit{"fp16fml", false, 23},
    Bit{"sve2", true, 1},       Bit{"i8mm", true, 13}, Bit{"bf16", true, 14},
};

std::vector<std::string_view> detect() {
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  std::vector<std::string_view> present;
  for (const Bit &bit : kBits) {
    if (((bit.second ? second : first) >> bit.bit & 1) != 0) {
      present.push_back(bit.name);
    }
  }
  return present;
}

#else

std::vector<std::string_view> detect() { return {}; }

#endif

std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

// Names of `code` that `features` lacks.
std::vector<std::string> missingFeatures(const manifest::Code &code, const CpuFeatures &features) {
  std::vector<std::string> missing;
  if (code.features() != nullptr) {
    for (const flatbuffers::String *name : *code.features()) {
      if (!features.has(name->string_view())) {
        missing.emplace_back(withoutPlus(name->string_view()));
      }
    }
  }
  return missing;
}

} // namespace

CpuFeatures CpuFeatures::host() {
  CpuFeatures features;
  features.present_ = detect();
  std::sort(features.present_.begin(), features.present_.end());
  return features;
}

std::string_view CpuFeatures::architecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

bool CpuFeatures::has(std::string_view name) const {
  return std::binary_search(present_.begin(), present_.end(), withoutPlus(name));
}

void CpuFeatures::mask(std::span<const std::string> names) {
  for (const std::string &name : names) {
    std::erase(present_, withoutPlus(name));
  }
}

void CpuFeatures::maskList(std::string_view commaSeparated) {
  while (!commaSeparated.empty()) {
    const size_t comma = commaSeparated.find(',');
    std::erase(present_, withoutPlus(commaSeparated.substr(0, comma)));
    commaSeparated.remove_prefix(comma == std::string_view::npos ? commaSeparated.size()
                                                                 : comma + 1);
  }
}

Result<uint32_t> chooseCode(const manifest::Manifest &manifest, const CpuFeatures &features) {
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t best = kNone;
  size_t bestCount = 0;
  const manifest::Code *closest = nullptr;
  std::vector<std::string> closestMissing;
  std::string architectures;
  for (uint32_t i = 0; i < manifest.code()->size(); ++i) {
    const manifest::Code &code = *manifest.code()->Get(i);
    if (code.arch()->string_view() != CpuFeatures::architecture()) {
      architectures += (architectures.empty() ? "" : ", ") + code.arch()->str();
      continue;
    }
    std::vector<std::string> missing = missingFeatures(code, features);
    const size_t count = code.features() == nullptr ? 0 : code.features()->size();
    if (missing.empty() && (best == kNone || count > bestCount)) {
      best = i;
      bestCount = count;
    }
    if (closest == nullptr || missing.size() < closestMissing.size()) {
      closest = &code;
      closestMissing = std::move(missing);
    }
  }
  if (best != kNone) {
    return best;
  }
  if (closest != nullptr) {
    return unsupported("this CPU lacks " + joined(closestMissing) +
                       ", which the package's code for " + closest->target()->str() +
                       " needs; compile with --target=cpu:native on this machine");
  }
  return unsupported("the package has code for " +
                     (architectures.empty() ? "no machine" : architectures) + ", this machine is " +
                     std::string(CpuFeatures::architecture()) +
                     "; compile with --target=cpu:native on this machine");
}

} // namespace sluice
