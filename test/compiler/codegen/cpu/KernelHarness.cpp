// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles, loads and runs kernels for the tests of codegen/cpu.
#include "KernelHarness.h"

#include "dialects/kernel/KernelDialect.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Parser/Parser.h"

#include <bit>
#include <cmath>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace sluicec::cpu {

namespace {

constexpr size_t kPage = 4096;
constexpr char kGuard = 0x5A;

size_t roundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

void fillGrids(mlir::ModuleOp module,
               std::map<std::string, std::vector<std::vector<int64_t>>> &grids) {
  for (auto func : module.getOps<kernel::FuncOp>()) {
    auto &dims = grids[func.getSymName().str()];
    for (mlir::Attribute a : func.getGrid()) {
      auto d = mlir::cast<kernel::GridDimAttr>(a);
      dims.push_back(
          {static_cast<int64_t>(d.getUnit()), d.getPerUnit(), d.getFixed(), d.getTile()});
    }
  }
}

int64_t countOf(const sluice_step_counts &counts, int64_t unit) {
  switch (static_cast<kernel::Unit>(unit)) {
  case kernel::Unit::Tokens:
    return counts.tokens;
  case kernel::Unit::Seqs:
    return counts.seqs;
  case kernel::Unit::LogitRows:
    return counts.logit_rows;
  default:
    return 0;
  }
}

mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text, mlir::MLIRContext &context) {
  context.loadDialect<kernel::KernelDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>();
  return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
}

} // namespace

GuardedMemory::GuardedMemory(size_t size) : bytes(size) {
  size_t inner = roundUp(std::max<size_t>(size, 1), kPage);
  mapBytes = inner + 2 * kPage;
  void *mapped = mmap(nullptr, mapBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  map = static_cast<char *>(mapped);
  EXPECT_EQ(mprotect(map + kPage, inner, PROT_READ | PROT_WRITE), 0);
  begin = map + kPage + inner - roundUp(size, 64);
  gap = roundUp(size, 64) - size;
  std::memset(begin + size, kGuard, gap);
}

GuardedMemory::~GuardedMemory() { munmap(map, mapBytes); }

bool GuardedMemory::untouchedBehind() const {
  for (size_t i = 0; i < gap; ++i) {
    if (begin[bytes + i] != kGuard) {
      return false;
    }
  }
  return true;
}

mlir::FailureOr<CpuCode> compileText(const std::string &text, const CpuTarget &target,
                                     const CpuCodegenOptions &options, std::string &errors) {
  mlir::MLIRContext context;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    errors += d.str() + "\n";
    return mlir::success();
  });
  auto module = parse(text, context);
  if (!module) {
    return mlir::failure();
  }
  return generateCpuCode(*module, target, options);
}

CompiledKernels::CompiledKernels(const std::string &text, const std::string &targetName) {
  llvm::Expected<CpuTarget> target = CpuTarget::parse(targetName);
  if (!target) {
    ADD_FAILURE() << llvm::toString(target.takeError());
    return;
  }
  mlir::MLIRContext context;
  auto module = parse(text, context);
  if (!module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return;
  }
  fillGrids(*module, grids);
  mlir::FailureOr<CpuCode> result = generateCpuCode(*module, *target, {});
  if (mlir::failed(result)) {
    ADD_FAILURE() << "does not compile:\n" << text;
    return;
  }
  compiled = std::move(*result);
  llvm::SmallString<128> path;
  int file = -1;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("kernels", "so", file, path));
  llvm::raw_fd_ostream(file, /*shouldClose=*/true)
      .write(compiled.sharedObject.data(), compiled.sharedObject.size());
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  llvm::sys::fs::remove(path);
}

CompiledKernels::~CompiledKernels() {
  if (handle) {
    dlclose(handle);
  }
}

void CompiledKernels::run(const std::string &symbol, const sluice_step_counts &counts,
                          std::vector<std::vector<char> *> buffers, int64_t cellsPerCall) {
  ASSERT_NE(handle, nullptr);
  auto kernel = reinterpret_cast<sluice_kernel>(dlsym(handle, symbol.c_str()));
  ASSERT_NE(kernel, nullptr) << symbol;
  uint64_t scratchBytes = 0;
  for (const CpuFunction &function : compiled.functions) {
    scratchBytes = function.symbol == symbol ? function.scratchBytes : scratchBytes;
  }
  GuardedMemory scratch(scratchBytes);
  std::memset(scratch.data(), 0xCD, scratchBytes);
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void *> addresses;
  for (std::vector<char> *buffer : buffers) {
    memory.push_back(std::make_unique<GuardedMemory>(buffer->size()));
    std::memcpy(memory.back()->data(), buffer->data(), buffer->size());
    addresses.push_back(memory.back()->data());
  }
  int64_t cells = 1;
  for (const std::vector<int64_t> &d : grids[symbol]) {
    cells *= (countOf(counts, d[0]) * d[1] + d[2] + d[3] - 1) / d[3];
  }
  int64_t step = cellsPerCall > 0 ? cellsPerCall : std::max<int64_t>(cells, 1);
  for (int64_t begin = 0; begin < cells; begin += step) {
    kernel(&counts, addresses.data(), begin, std::min(cells, begin + step), scratch.data());
  }
  EXPECT_TRUE(scratch.untouchedBehind()) << symbol << " writes behind its scratch memory";
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::memcpy(buffers[i]->data(), memory[i]->data(), buffers[i]->size());
    EXPECT_TRUE(memory[i]->untouchedBehind()) << symbol << " writes behind buffer " << i;
  }
}

std::string real(double v) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%016llX : f64", std::bit_cast<unsigned long long>(v));
  return text;
}

std::string rowKernel(const std::string &symbol, const std::string &unit,
                      const std::vector<std::string> &types, const std::string &body) {
  std::string text =
      "kernel.func @" + symbol + " grid [#kernel.grid_dim<" + unit + " * 1 + 0 tile 1>] {\n^bb0(";
  for (size_t i = 0; i < types.size(); ++i) {
    text += (i ? ", %" : "%") + std::to_string(i) + ": " + types[i];
  }
  return text + "):\n  " + body + "\n}\n";
}

std::vector<std::string> runnableTargets() {
  std::vector<std::string> names;
  llvm::Expected<CpuTarget> native = CpuTarget::parse("native");
  if (!native) {
    ADD_FAILURE() << llvm::toString(native.takeError());
    return names;
  }
  if (!native->isX86()) {
    return {"native"};
  }
  names.push_back("x86-64-v3");
  if (native->vectorBits == 512) {
    names.push_back("x86-64-v4");
  }
  return names;
}

std::vector<float> randomFloats(size_t count, unsigned seed, float scale) {
  std::mt19937 generator(seed);
  std::vector<float> v(count);
  for (float &x : v) {
    x = (static_cast<float>(generator() >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return v;
}

uint16_t toBf16(float v) {
  uint32_t u = std::bit_cast<uint32_t>(v);
  if (std::isnan(v)) {
    return static_cast<uint16_t>((u >> 16) | 0x40);
  }
  uint32_t low = u & 0xFFFF, high = u >> 16;
  return static_cast<uint16_t>(high + (low > 0x8000 || (low == 0x8000 && (high & 1)) ? 1 : 0));
}

float fromBf16(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }

float fromF16(uint16_t v) {
  int exponent = (v >> 10) & 31, mantissa = v & 1023;
  double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                     : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(v & 0x8000 ? -magnitude : magnitude);
}

uint16_t toF16(float v) {
  uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (std::isnan(v)) {
    return static_cast<uint16_t>(sign | 0x7E00);
  }
  double a = std::fabs(static_cast<double>(v));
  int exponent = a > 0 ? std::max(std::ilogb(a), -14) : -14;
  double steps = std::nearbyint(std::ldexp(a, 10 - exponent)); // 1024 .. 2048 where normal
  uint32_t bits = a >= 65520
                      ? 0x7C00u
                      : static_cast<uint32_t>(steps) + (static_cast<uint32_t>(exponent + 14) << 10);
  return static_cast<uint16_t>(sign | std::min(bits, 0x7C00u));
}

std::vector<char> encode(std::vector<float> &v, const std::string &element) {
  if (element == "f32") {
    return bytesOf(v);
  }
  std::vector<uint16_t> words;
  for (float &x : v) {
    words.push_back(element == "bf16" ? toBf16(x) : toF16(x));
    x = element == "bf16" ? fromBf16(words.back()) : fromF16(words.back());
  }
  return bytesOf(words);
}

std::vector<float> packPanels(const std::vector<float> &weight, int64_t n, int64_t k,
                              int64_t width) {
  int64_t panels = (n + width - 1) / width;
  std::vector<float> packed(panels * k * width, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      packed[(i / width * k + j) * width + i % width] = weight[i * k + j];
    }
  }
  return packed;
}

std::vector<float> packGated(const std::vector<float> &weight, int64_t n, int64_t k,
                             int64_t width) {
  int64_t half = width / 2, panels = (n + half - 1) / half;
  std::vector<float> packed(panels * k * width, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      int64_t line = (i / half * k + j) * width + i % half;
      packed[line] = weight[i * k + j];
      packed[line + half] = weight[(n + i) * k + j];
    }
  }
  return packed;
}

::testing::AssertionResult isNear(const std::vector<float> &actual,
                                  const std::vector<double> &expected, double absolute,
                                  double relative) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " and " << expected.size() << " elements";
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    double error = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    if (!(error <= absolute + relative * std::fabs(expected[i]))) {
      return ::testing::AssertionFailure() << "element " << i << " is " << actual[i]
                                           << ", expected " << expected[i] << ", off by " << error;
    }
  }
  return ::testing::AssertionSuccess();
}

} // namespace sluicec::cpu
