// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice eval`: prints and judges what GoldenEvaluation finds.
#include "runtime/engine/GoldenEvaluation.h"
#include "tools/Commands.h"
#include "tools/ProgressBar.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

namespace sluice {

struct EvalOptions {
  PackageOption package;
  std::string golden, tokens, rowsWithin;
  bool batch = false, json = false;
  double tolerance = 1e-3; // f32 models: onnxruntime reaches 6e-5 on logits of deviation 2.4;
                           // reordered sums stay below this
  uint32_t chunkRows = 0;
};

/// "D:SHARE"; false when it is not that.
static bool parseRowsWithin(const std::string &text, double &d, double &share) {
  char *end = nullptr;
  d = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != ':') {
    return false;
  }
  const char *second = end + 1;
  share = std::strtod(second, &end);
  return end != second && *end == '\0' && d > 0 && share > 0 && share <= 1;
}

static int printGolden(const EvalOptions &o, const std::vector<GoldenPrompt> &prompts, double share,
                       double seconds) {
  nlohmann::json out;
  bool pass = true;
  uint64_t rows = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const GoldenPrompt &p = prompts[i];
    // Given in rows: half-precision models may turn over greedy tokens. Given as tolerance: all
    // greedy tokens are equal.
    pass = pass &&
           (o.rowsWithin.empty() ? p.maxAbsError <= o.tolerance && p.greedyMatched == p.greedyTotal
                                 : true);
    rows += static_cast<uint64_t>(p.rows);
    out["prompts"].push_back({{"max_abs_error", p.maxAbsError},
                              {"rows_within", p.rowsWithin},
                              {"rows", p.rows},
                              {"greedy_matched", p.greedyMatched},
                              {"greedy_total", p.greedyTotal},
                              {"experts_matched", p.expertsMatched},
                              {"experts_total", p.expertsTotal}});
    if (!o.json) {
      std::cout << "prompt " << i << ": max_abs_error " << p.maxAbsError << ", rows_within "
                << p.rowsWithin << " of " << p.rows << ", greedy " << p.greedyMatched << "/"
                << p.greedyTotal << ", experts " << p.expertsMatched << "/" << p.expertsTotal
                << "\n";
    }
  }
  if (!o.rowsWithin.empty()) {
    double within = 0;
    for (const GoldenPrompt &p : prompts) {
      within += p.rowsWithin * static_cast<double>(p.rows);
    }
    pass = within >= share * static_cast<double>(rows) - 1e-9;
  }
  out["tokens"] = rows;
  out["seconds"] = seconds;
  out["pass"] = pass;
  std::cout << (o.json ? out.dump() : std::string(pass ? "pass" : "beyond tolerance")) << "\n";
  return pass ? kExitDone : kExitTolerance;
}

static int eval(const EvalOptions &o) {
  GoldenOptions golden;
  golden.batch = o.batch;
  golden.chunkRows = o.chunkRows;
  double share = 1;
  if (!o.rowsWithin.empty() && !parseRowsWithin(o.rowsWithin, golden.rowsWithin, share)) {
    return reportError(invalidArgument("--rows-within is '" + o.rowsWithin +
                                       "'; expected D:SHARE, for example 0.25:0.95"));
  }
  auto file = SafetensorsFile::read(o.golden.empty() ? o.tokens : o.golden);
  if (!file) {
    return reportError(file.error());
  }
  auto engine = Engine::open(o.package.path, o.package.engineOptions());
  if (!engine) {
    return reportError(engine.error());
  }
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (!o.golden.empty()) {
    auto prompts = evaluateGolden(**engine, *file, golden);
    return prompts ? printGolden(o, *prompts, share, seconds()) : reportError(prompts.error());
  }
  ProgressBar bar("eval", "tokens");
  auto result = evaluatePerplexity(**engine, *file,
                                   [&](uint64_t done, uint64_t all) { bar.update(done, all); });
  if (!result) {
    return reportError(result.error());
  }
  nlohmann::json out = {{"mean_nll", result->meanNll},
                        {"perplexity", result->perplexity},
                        {"tokens", result->tokens},
                        {"seconds", seconds()},
                        {"pass", true}};
  if (o.json) {
    std::cout << out.dump() << "\n";
  } else {
    std::cout << "perplexity " << result->perplexity << " (mean_nll " << result->meanNll
              << ") over " << result->tokens << " tokens in " << out["seconds"].get<double>()
              << " s\n";
  }
  return kExitDone;
}

std::function<int()> addEvalCommand(CLI::App &app) {
  auto o = std::make_shared<EvalOptions>();
  o->package.addTo(app);
  auto *what = app.add_option_group("what", "What to hold the model against");
  what->add_option("--golden", o->golden, "Recorded logits (.safetensors)");
  what->add_option("--tokens", o->tokens, "Array ids [windows, tokens] (.safetensors): perplexity");
  what->require_option(1);
  app.add_flag("--batch", o->batch, "All prompts in one ragged batch");
  auto *tolerance =
      app.add_option("--tolerance", o->tolerance, "Largest absolute logit error allowed")
          ->capture_default_str();
  app.add_option("--rows-within", o->rowsWithin,
                 "D:SHARE: this share of all rows has no logit off by more than D")
      ->excludes(tolerance);
  app.add_option("--chunk", o->chunkRows, "Rows of a sequence per step (default: as many as fit)");
  app.add_flag("--json", o->json, "One JSON object on standard output");
  return [o] { return eval(*o); };
}

} // namespace sluice
