// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures passes and costs for the report.
#include "compiler/pipeline/Report.h"

#include "dialects/kernel/KernelDialect.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Pass/Pass.h"

#include <chrono>

using namespace mlir;

namespace sluicec {

ModelCost costOf(ModuleOp module) {
  ModelCost cost;
  llvm::DenseSet<std::pair<Type, int64_t>> cached;
  module.walk([&](Operation *op) {
    ++cost.operations;
    if (auto costed = dyn_cast<lm::CostOpInterface>(op)) {
      cost.flopsPerToken += costed.flops(1, kReportKvLength);
      cost.weightBytesPerToken += costed.weightBytes(1);
    }
    if (isa<kernel::LaunchOp>(op)) {
      ++cost.launches;
    }
    if (auto append = dyn_cast<lm::CacheAppendOp>(op)) {
      auto t = append.getCache().getType();
      cost.kvBytesPerToken +=
          static_cast<double>(t.getKvHeads() * (t.getKeyHead() + t.getValueHead()) *
                              t.getElement().getIntOrFloatBitWidth()) /
          8;
    }
  });
  return cost;
}

class PassRecorder : public PassInstrumentation {
public:
  explicit PassRecorder(Report &report) : report(report) {}
  void runBeforePass(Pass *, Operation *) override { start = std::chrono::steady_clock::now(); }
  void runAfterPass(Pass *pass, Operation *op) override {
    // A pass on functions counts for the whole module: there is one function in it.
    auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
    if (!module || pass->getArgument().empty()) {
      return;
    }
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.passes.push_back({pass->getArgument().str(), seconds, costOf(module)});
  }

private:
  Report &report;
  std::chrono::steady_clock::time_point start;
};

std::unique_ptr<PassInstrumentation> Report::instrumentation() {
  return std::make_unique<PassRecorder>(*this);
}

llvm::json::Value Report::toJson() const {
  llvm::json::Array passList, stageList;
  for (const PassRecord &p : passes) {
    passList.push_back(llvm::json::Object{{"pass", p.name},
                                          {"seconds", p.seconds},
                                          {"flops_per_token", p.after.flopsPerToken},
                                          {"weight_bytes_per_token", p.after.weightBytesPerToken},
                                          {"kv_bytes_per_token", p.after.kvBytesPerToken},
                                          {"operations", p.after.operations},
                                          {"launches", p.after.launches}});
  }
  for (const StageRecord &s : stages) {
    stageList.push_back(llvm::json::Object{{"stage", s.name}, {"seconds", s.seconds}});
  }
  return llvm::json::Object{{"passes", std::move(passList)},
                            {"stages", std::move(stageList)},
                            {"kv_length", kReportKvLength},
                            {"facts", llvm::json::Object(facts)}};
}

} // namespace sluicec
