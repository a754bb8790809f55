// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Targets, objects and links of codegen/cpu: what is in the files, for every target, and that it is
// always the same.
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gmock/gmock.h>

#include "KernelHarness.h"

namespace sluicec::cpu {

namespace {

/// Several templates in one module.
std::string someKernels() {
  std::string t = rows("tokens", 64), w = fixedBuffer(64, "f32"), m = fixedBuffer(64 * 128, "bf16"),
              o = rows("tokens", 128);
  std::string i = rows("tokens", 1, "i32"), cache = rows("blocks", 2 * 32 * 16, "bf16"),
              table = rows("table", 1, "i32");
  std::string layout = "layout = !lm.cache<window = 0, element = bf16, kvHeads = 1, keyHead = 32, "
                       "valueHead = 32, layers = 1>";
  std::string norm = rowKernel("norm", "tokens", {t, w, t},
                               "kernel.rms_norm %0, %1, %2 {features = 64 : i64, groups = 1 : i64, "
                               "epsilon = 1.0e-6 : f64} : " +
                                   t + ", " + w + ", " + t);
  std::string matmul = "kernel.func @matmul grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, "
                       "#kernel.grid_dim<fixed * 0 + 2 tile 1>] {\n"
                       "^bb0(%x: " +
                       t + ", %w: " + m + ", %o: " + o +
                       "):\n kernel.matmul %x, %w, %o {n = 128 : i64, k = 64 : i64, "
                       "layout = #kernel.layout<panel, 64>} : " +
                       t + ", " + m + ", " + o + "\n}\n";
  std::string append =
      rowKernel("append", "tokens", {rows("tokens", 32), rows("tokens", 32), i, i, table, cache},
                "kernel.cache_append %0, %1, %2, %3, %4, %5 {" + layout +
                    ", block_tokens = 16 : i64, layer = 0 : i64} : " + rows("tokens", 32) + ", " +
                    rows("tokens", 32) + ", " + i + ", " + i + ", " + table + ", " + cache);
  std::string attention =
      "kernel.func @attention grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>, "
      "#kernel.grid_dim<fixed * 0 + 1 tile 1>] {\n"
      "^bb0(%q: " +
      t + ", %rs: " + i + ", %ri: " + i + ", %t: " + table + ", %c: " + cache + ", %o: " + t +
      "):\n kernel.attention %q, %rs, %ri, %t, %c, %o {" + layout +
      ", block_tokens = 16 : i64, layer = 0 : i64, heads = 2 : i64, "
      "scale = 0.1 : f64, window = 0 : i64, mask_window = 0 : i64, soft_cap = 5.0 : f64, span = 64 "
      ": i64, chunk = 1024 : i64} : " +
      t + ", " + i + ", " + i + ", " + table + ", " + cache + ", " + t + "\n}\n";
  std::string cs = rows("tokens", 16);
  std::string angles = rowKernel(
      "angles", "tokens", {i, cs, cs},
      "kernel.rope_table %0, %1, %2 {frequencies = array<f64: 1.0, 0.5, 0.25, 0.2, 0.1, 0.05, "
      "0.02, 0.01, "
      "0.005, 0.004, 0.003, 0.002, 0.001, 0.0005, 0.0002, 0.0001>, scale = 1.0 : f64} : " +
          i + ", " + cs + ", " + cs);
  return norm + matmul + append + attention + angles;
}

CpuTarget target(const std::string &name) {
  llvm::Expected<CpuTarget> parsed = CpuTarget::parse(name);
  EXPECT_TRUE(static_cast<bool>(parsed));
  return parsed ? *parsed : CpuTarget();
}

CpuCode compile(const std::string &name, const CpuCodegenOptions &options) {
  std::string errors;
  mlir::FailureOr<CpuCode> code = compileText(someKernels(), target(name), options, errors);
  EXPECT_TRUE(mlir::succeeded(code)) << errors;
  return mlir::succeeded(code) ? std::move(*code) : CpuCode();
}

/// Names of the defined and of the undefined dynamic symbols of an ELF file.
std::pair<std::vector<std::string>, std::vector<std::string>>
dynamicSymbols(const std::vector<char> &bytes) {
  auto buffer =
      llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(bytes.data(), bytes.size()), "kernels");
  auto object = llvm::object::ObjectFile::createELFObjectFile(*buffer);
  std::pair<std::vector<std::string>, std::vector<std::string>> names;
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    return names;
  }
  for (auto symbol :
       llvm::cast<llvm::object::ELFObjectFileBase>(object->get())->getDynamicSymbolIterators()) {
    std::string name = llvm::cantFail(symbol.getName()).str();
    bool undefined = llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined;
    (undefined ? names.second : names.first).push_back(name);
  }
  return names;
}

} // namespace

TEST(CpuTarget, NamesWhatItNeeds) {
  CpuTarget v3 = target("x86-64-v3"), v4 = target("x86-64-v4"), arm = target("aarch64");
  EXPECT_EQ(v3.vectorBits, 256);
  EXPECT_EQ(v4.vectorBits, 512);
  EXPECT_TRUE(llvm::is_contained(v3.requiredFeatures, "fma"));
  EXPECT_FALSE(llvm::is_contained(v3.requiredFeatures, "avx512f"));
  EXPECT_TRUE(llvm::is_contained(v4.requiredFeatures, "avx512vl"));
  EXPECT_FALSE(arm.isX86());
}

TEST(CpuTarget, RefusesUnknownNames) {
  llvm::Expected<CpuTarget> unknown = CpuTarget::parse("x86-64-v2");
  ASSERT_FALSE(static_cast<bool>(unknown));
  EXPECT_EQ(llvm::toString(unknown.takeError()),
            "unknown CPU target 'x86-64-v2': expected native, x86-64-v3, x86-64-v4 or aarch64");
}

TEST(CpuCodegen, ExportsKernelsAndNeedsNothing) {
  for (const char *name : {"x86-64-v3", "x86-64-v4", "aarch64"}) {
    SCOPED_TRACE(name);
    CpuCode code = compile(name, {});
    auto [defined, undefined] = dynamicSymbols(code.sharedObject);
    EXPECT_TRUE(undefined.empty()) << undefined.front();
    EXPECT_THAT(defined,
                testing::UnorderedElementsAre("norm", "matmul", "append", "attention", "angles"));
    ASSERT_EQ(code.functions.size(), 5u);
    EXPECT_EQ(code.functions[0].symbol, "norm");
    EXPECT_EQ(code.functions[0].scratchBytes, 0u);
    EXPECT_EQ(code.functions[1].scratchBytes, 48u * 64 * 4 + 128 * 64 * 4);
  }
}

TEST(CpuCodegen, GivesTheSameBytesWithAnyNumberOfJobs) {
  CpuCodegenOptions options;
  options.object = true;
  CpuCode one = compile("x86-64-v4", options);
  options.jobs = 3;
  CpuCode three = compile("x86-64-v4", options);
  EXPECT_TRUE(one.sharedObject == three.sharedObject);
  EXPECT_TRUE(one.object == three.object);
  EXPECT_FALSE(one.object.empty());
}

TEST(CpuCodegen, GivesLlvmIrWithoutReassociation) {
  CpuCodegenOptions options;
  options.llvmIr = true;
  CpuCode code = compile("x86-64-v3", options);
  EXPECT_NE(code.llvmIr.find("define void @matmul("), std::string::npos);
  EXPECT_NE(code.llvmIr.find("llvm.fma.v16f32"), std::string::npos);
  for (const char *flag : {" fast ", " reassoc ", " contract "}) {
    EXPECT_EQ(code.llvmIr.find(flag), std::string::npos) << flag;
  }
}

TEST(CpuCodegen, RefusesAGridOfAnotherKind) {
  std::string t = rows("tokens", 64), w = fixedBuffer(64, "f32"), errors;
  std::string text =
      "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 4>] {\n^bb0(%0: " + t +
      ", %1: " + w + ", %2: " + t +
      "):\n kernel.rms_norm %0, %1, %2 {features = 64 : i64, groups = 1 : i64, epsilon = 1.0e-6 : "
      "f64} : " +
      t + ", " + w + ", " + t + "\n}\n";
  EXPECT_TRUE(mlir::failed(compileText(text, target("x86-64-v3"), {}, errors)));
  EXPECT_NE(errors.find("expected a grid of one cell per row"), std::string::npos) << errors;
}

} // namespace sluicec::cpu
