// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CpuFeatures against what the system reports, and the choice of code.
#include "runtime/package/CpuFeatures.h"

#include "runtime/package/PackageReader.h"
#include "test/runtime/PackageBuilder.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

namespace sluice {
namespace {

using fake::CodeSpec;
using testing::HasSubstr;

#if defined(__x86_64__)
TEST(CpuFeatures, AgreesWithTheSystem) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("flags", 0) == 0) {
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;) {
        flags.insert(word);
      }
      break;
    }
  }
  if (flags.empty()) {
    GTEST_SKIP() << "the system lists no flags";
  }
  const CpuFeatures host = CpuFeatures::host();
  // LLVM's name, the kernel's name (arch/x86/include/asm/cpufeatures.h)
  const std::vector<std::pair<std::string, std::string>> names = {{"sse2", "sse2"},
                                                                  {"sse4.2", "sse4_2"},
                                                                  {"popcnt", "popcnt"},
                                                                  {"avx", "avx"},
                                                                  {"fma", "fma"},
                                                                  {"f16c", "f16c"},
                                                                  {"avx2", "avx2"},
                                                                  {"bmi", "bmi1"},
                                                                  {"bmi2", "bmi2"},
                                                                  {"lzcnt", "abm"},
                                                                  {"movbe", "movbe"},
                                                                  {"avx512f", "avx512f"},
                                                                  {"avx512bw", "avx512bw"},
                                                                  {"avx512dq", "avx512dq"},
                                                                  {"avx512vl", "avx512vl"},
                                                                  {"avx512cd", "avx512cd"},
                                                                  {"avx512vnni", "avx512_vnni"},
                                                                  {"avx512bf16", "avx512_bf16"},
                                                                  {"avx512fp16", "avx512_fp16"},
                                                                  {"avxvnni", "avx_vnni"},
                                                                  {"avx512vbmi", "avx512vbmi"},
                                                                  {"gfni", "gfni"},
                                                                  {"vaes", "vaes"},
                                                                  {"sha", "sha_ni"},
                                                                  {"64bit", "lm"},
                                                                  {"cx16", "cx16"},
                                                                  {"fsgsbase", "fsgsbase"},
                                                                  {"sahf", "lahf_lm"}};
  for (const auto &[llvm, kernel] : names) {
    EXPECT_EQ(host.has(llvm), flags.count(kernel) != 0) << llvm;
    EXPECT_EQ(host.has("+" + llvm), host.has(llvm));
  }
  EXPECT_FALSE(host.has("no-such-feature"));
  EXPECT_FALSE(host.has(""));
}

TEST(CpuFeatures, MaskTakesAway) {
  CpuFeatures host = CpuFeatures::host();
  ASSERT_TRUE(host.has("sse2"));
  host.maskList("x,+sse2,");
  EXPECT_FALSE(host.has("sse2"));
  EXPECT_TRUE(host.has("64bit"));
  host.mask(std::vector<std::string>{"64bit"});
  EXPECT_FALSE(host.has("64bit"));
}
#endif

Result<uint32_t> choose(const std::vector<CodeSpec> &code, const CpuFeatures &features) {
  fake::PackageSpec spec = fake::fakeModel(fake::Bytes(100, 0));
  spec.code = code;
  const fake::TemporaryFile file(buildPackage(spec));
  const auto reader = PackageReader::open(file.path());
  return reader ? chooseCode(reader->manifest(), features) : reader.error();
}

TEST(ChooseCode, TakesTheMostDemandingThatRuns) {
  const std::string arch(CpuFeatures::architecture());
  const CpuFeatures host = CpuFeatures::host();
  const std::string some = arch == "x86_64" ? "sse2" : "neon";
  EXPECT_EQ(*choose({{"base", arch, {}, 0},
                     {"some", arch, {some}, 0},
                     {"none", arch, {some, "telepathy"}, 0}},
                    host),
            1U);
  EXPECT_EQ(*choose({{"some", arch, {some}, 0}, {"base", arch, {}, 0}}, host), 0U);
  EXPECT_EQ(*choose({{"other", "riscv64", {}, 0}, {"base", arch, {}, 0}}, host), 1U);
}

TEST(ChooseCode, NamesWhatIsMissing) {
  const std::string arch(CpuFeatures::architecture());
  CpuFeatures host = CpuFeatures::host();
  host.maskList("avx512f,avx512bw,sse2,neon");
  const auto missing = choose({{"far", arch, {"+avx512f", "+avx512bw", "+telepathy"}, 0},
                               {"x86-64-v4", arch, {"+avx512f", "+avx512bw"}, 0}},
                              host);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::Unsupported);
  EXPECT_EQ(missing.error().message(), "this CPU lacks avx512f, avx512bw, which the package's code "
                                       "for x86-64-v4 needs; compile with "
                                       "--target=cpu:native on this machine");
  const auto foreign = choose({{"r", "riscv64", {}, 0}}, host);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code(), Code::Unsupported);
  EXPECT_THAT(foreign.error().message(),
              HasSubstr("has code for riscv64, this machine is " + arch));
  EXPECT_THAT(choose({}, host).error().message(), HasSubstr("has code for no machine"));
}

} // namespace
} // namespace sluice
