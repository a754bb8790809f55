// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles kernels written as text, loads the shared object and runs it on guarded memory. For the
// tests of codegen/cpu.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "runtime/device/KernelAbi.h"

#include "mlir/IR/MLIRContext.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace sluicec::cpu {

/// Memory of exactly `bytes`, aligned to 64, with inaccessible pages before and behind it; what
/// lies between the end and the page is checked for writes.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  void *data() const { return begin; }
  bool untouchedBehind() const;

private:
  char *map = nullptr, *begin = nullptr;
  size_t mapBytes = 0, bytes = 0, gap = 0;
};

/// Kernels of one module, compiled for one target and loaded.
class CompiledKernels {
public:
  /// `text` is MLIR with kernel.func operations. A failure is recorded as a test failure.
  CompiledKernels(const std::string &text, const std::string &targetName);
  ~CompiledKernels();
  CompiledKernels(const CompiledKernels &) = delete;

  bool isLoaded() const { return handle != nullptr; }
  const CpuCode &code() const { return compiled; }

  /// Runs all cells of `symbol`, `cellsPerCall` at a time (0: all in one call). Buffers are copied
  /// into guarded memory and back. `buffers` are the bytes of each argument.
  void run(const std::string &symbol, const sluice_step_counts &counts,
           std::vector<std::vector<char> *> buffers, int64_t cellsPerCall = 0);

private:
  CpuCode compiled;
  std::map<std::string, std::vector<std::vector<int64_t>>> grids; // unit, perUnit, fixed, tile
  void *handle = nullptr;
};

// ---- Text of kernels ----

/// Type of a buffer of `perRow` elements per row.
inline std::string rows(const std::string &unit, int64_t perRow,
                        const std::string &element = "f32") {
  return "!kernel.buffer<" + unit + " * " + std::to_string(perRow) + " + 0 x " + element + ">";
}
inline std::string fixedBuffer(int64_t count, const std::string &element) {
  return "!kernel.buffer<fixed * 0 + " + std::to_string(count) + " x " + element + ">";
}
inline std::string number(int64_t v) { return std::to_string(v) + " : i64"; }
std::string real(double v);

/// A kernel of one cell per row of `unit`. `types` are those of the block arguments %0, %1, ...
std::string rowKernel(const std::string &symbol, const std::string &unit,
                      const std::vector<std::string> &types, const std::string &body);

/// Targets whose code this machine can run.
std::vector<std::string> runnableTargets();

/// Parses and compiles; the diagnostics of a failure go to `errors`.
mlir::FailureOr<CpuCode> compileText(const std::string &text, const CpuTarget &target,
                                     const CpuCodegenOptions &options, std::string &errors);

template <typename T> std::vector<char> bytesOf(const std::vector<T> &v) {
  std::vector<char> bytes(v.size() * sizeof(T));
  std::memcpy(bytes.data(), v.data(), bytes.size());
  return bytes;
}
template <typename T> std::vector<T> valuesOf(const std::vector<char> &bytes) {
  std::vector<T> v(bytes.size() / sizeof(T));
  std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
  return v;
}
/// `count` elements of T, all 0xCD bytes: what a kernel must overwrite.
template <typename T> std::vector<char> unwritten(size_t count) {
  return std::vector<char>(count * sizeof(T), static_cast<char>(0xCD));
}

/// Uniform in [-scale, scale].
std::vector<float> randomFloats(size_t count, unsigned seed, float scale = 1.0f);

// Conversions, rounded to nearest even; written without hardware or compiler support on purpose.
uint16_t toBf16(float v);
float fromBf16(uint16_t v);
uint16_t toF16(float v);
float fromF16(uint16_t v);

/// Stores `v` as element type f32, f16 or bf16, and replaces it by what was stored.
std::vector<char> encode(std::vector<float> &v, const std::string &element);

/// [n, k] row-major to panels of `width` columns: [ceil(n / width), k, width], missing columns 0
/// (kernel.layout).
std::vector<float> packPanels(const std::vector<float> &weight, int64_t n, int64_t k,
                              int64_t width);
/// [2n, k] to panels of width / 2 gate and width / 2 up columns.
std::vector<float> packGated(const std::vector<float> &weight, int64_t n, int64_t k, int64_t width);

/// Bit equality, NaN included.
template <typename T>
::testing::AssertionResult sameBits(const std::vector<T> &a, const std::vector<T> &b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// |a - b| <= absolute + relative * |b| everywhere.
::testing::AssertionResult isNear(const std::vector<float> &actual,
                                  const std::vector<double> &expected, double absolute,
                                  double relative = 0);

} // namespace sluicec::cpu
