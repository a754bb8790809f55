// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only options struct of the compiler: the command line fills it, the pipeline hands its parts
// to the stages. Standard C++ alone, so that tools need no MLIR.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluicec {

/// What compile() writes.
enum class Emit { Package, OnnxIr, LmIr, KernelIr, LlvmIr, Object };

/// Stages in order; StopAfter ends behind one and writes its IR.
enum class Stage { None, Import, Raise, Optimize, Lower };

struct CompileOptions {
  std::string model;  ///< folder with model.onnx, an .onnx file, or .mlir text of any level (then
                      ///< `weightsFrom`)
  std::string output; ///< file to write; "-" is standard output (IR only)
  std::string target = "cpu:native"; ///< cpu:native, cpu:x86-64-v3, cpu:x86-64-v4, cpu:aarch64
  std::string weights = "keep";      ///< keep, f32, f16, bf16
  std::string kv = "keep";           ///< element type of the cache: keep, f32, f16, bf16
  int jobs = 0;                      ///< threads; 0 = as many as the machine has
  Emit emit = Emit::Package;
  Stage stopAfter = Stage::None;
  std::vector<std::string> disabledPasses; ///< by option name; required passes are refused
  bool trustConfig = false; ///< where graph and config.json disagree on a window, take config.json
  std::string externalDataRoot; ///< folder that external data may lie in besides the model's own
  std::string report;           ///< JSON file; empty = none
  std::string weightsFrom;      ///< model whose weights and side files an .mlir input refers to
  int kvBlockTokens = 16;       ///< tokens of a cache block
  std::function<void(uint64_t done, uint64_t total)>
      progress;            ///< hears bytes of the package written and in all; may be empty
  std::string commandLine; ///< as given, for the package's provenance
};

/// Compiles. Diagnostics go to standard error, each one line with the ONNX node. Returns the exit
/// code of sluicec: 0 done, 1 the input is wrong, 2 our fault.
int compile(const CompileOptions &options);

} // namespace sluicec
