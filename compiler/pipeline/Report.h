// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler did, as data: per pass its time and what the model costs behind it, sizes of
// the result. The pipeline fills it; --report writes it as JSON.
#pragma once

#include "llvm/Support/JSON.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassInstrumentation.h"

#include <memory>
#include <string>
#include <vector>

namespace sluicec {

/// Cost of one step as the lm operations state it (CostOpInterface).
struct ModelCost {
  double flopsPerToken = 0;       ///< decoding one token behind `kReportKvLength` cached ones
  double weightBytesPerToken = 0; ///< read for it
  double kvBytesPerToken = 0;     ///< written into all cache groups
  int64_t operations = 0;         ///< of any kind
  int64_t launches = 0;           ///< kernel.launch
};

/// Cache length at which attention is costed.
inline constexpr int64_t kReportKvLength = 1024;

ModelCost costOf(mlir::ModuleOp module);

class Report {
public:
  struct PassRecord {
    std::string name;
    double seconds = 0;
    ModelCost after;
  };
  struct StageRecord {
    std::string name;
    double seconds = 0;
  };

  void addStage(std::string name, double seconds) { stages.push_back({std::move(name), seconds}); }
  void setFact(llvm::StringRef key, llvm::json::Value value) { facts[key] = std::move(value); }
  /// Records each pass on modules of the managers that it is added to; lives as long as the manager
  /// and must not outlive this.
  std::unique_ptr<mlir::PassInstrumentation> instrumentation();
  llvm::json::Value toJson() const;

private:
  friend class PassRecorder;
  std::vector<PassRecord> passes;
  std::vector<StageRecord> stages;
  llvm::json::Object facts;
};

} // namespace sluicec
