// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last stage: kernel module, machine code, weights and side files become one .sluice file
// (runtime/package/PackageFormat.h and package.fbs say how it looks).
#pragma once

#include "compiler/support/WeightStore.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluicec::package {

/// Machine code of all kernels for one target.
struct CodeVariant {
  std::string target;                ///< "native", "x86-64-v3", ...: for people
  std::string arch;                  ///< "x86_64" or "aarch64"
  std::string cpu;                   ///< LLVM's cpu name
  std::vector<std::string> features; ///< what the machine must have, in LLVM's names
  llvm::ArrayRef<char> sharedObject; ///< ELF; alive during writePackage
  std::vector<std::pair<std::string, uint64_t>> scratchBytes; ///< per kernel symbol, per worker
};

/// Facts that the graph does not tell. Token ids outside the vocabulary are left out, with a
/// warning in the package.
struct ModelFacts {
  std::string name; ///< model_type of config.json, for people
  int64_t bosId = -1;
  int64_t padId = -1;
  bool addBos = false; ///< prompts begin with bosId
  std::vector<int64_t> eosIds;
};

/// Sampling defaults of generation_config.json; absent ones keep the engine's.
struct GenerationDefaults {
  std::optional<double> temperature, topP, repetitionPenalty;
  std::optional<int64_t> topK;
  bool doSample = false;
};

struct Provenance {
  std::string compiler; ///< version
  std::string source;   ///< file name of the model
  std::string producer; ///< producer of the ONNX file
  std::string options;  ///< command line options, one per line
};

/// Text sections; empty ones are left out.
struct PackageTexts {
  llvm::StringRef tokenizer;       ///< tokenizer.json
  llvm::StringRef tokenizerConfig; ///< tokenizer_config.json
  llvm::StringRef chatTemplate;    ///< Jinja text
};

struct PackageInputs {
  mlir::ModuleOp kernelModule; ///< verified by verify-kernel; attribute lm.model
  llvm::ArrayRef<CodeVariant> code;
  const support::WeightStore *weights = nullptr; ///< where recipes find their tensors
  ModelFacts facts;
  GenerationDefaults generation;
  PackageTexts texts;
  Provenance provenance;
  std::vector<std::string> warnings; ///< of the compiler, shown by `sluice inspect`
};

struct PackageOptions {
  int jobs = 1; ///< threads; the bytes do not depend on it
  /// Called now and then with bytes written and to write; from one thread at a time.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

/// What was written.
struct PackageSummary {
  uint64_t fileBytes = 0;
  uint64_t weightBytes = 0; ///< of the weights section
  uint64_t parameters = 0;
  uint64_t activeParameters = 0; ///< used for one token
};

/// Writes the package to a new file beside `path` and renames it when all is on disk, so that
/// `path` holds the old file or the whole new one. Weights are computed in pieces of 4 MiB: memory
/// does not grow with the model. Errors: a weight or code that does not fit the module, a path that
/// can't be written, a full disk; each one line that names the path.
llvm::Expected<PackageSummary> writePackage(llvm::StringRef path, const PackageInputs &inputs,
                                            const PackageOptions &options);

} // namespace sluicec::package
