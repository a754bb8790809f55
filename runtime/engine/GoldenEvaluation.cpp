// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Golden comparison and perplexity over Engine::evaluate.
#include "runtime/engine/GoldenEvaluation.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace sluice {

namespace {

/// What the file records of one prompt.
struct Recorded {
  std::vector<int32_t> ids;     // prompt, then the golden continuation but its last token
  size_t promptTokens = 0;      // T
  std::vector<float> logits;    // [T + G - 1, V]: prompt rows, then rows of the continuation
  std::vector<int64_t> greedy;  // [G]
  std::vector<int64_t> experts; // [L, T, k], or empty
  size_t layers = 0, topK = 0;
};

Result<Recorded> readPrompt(const SafetensorsFile &golden, int64_t index, uint32_t vocab) {
  std::string name = "prompt" + std::to_string(index) + "_";
  auto ids = golden.integers(name + "ids", 1);
  auto logits = golden.floats(name + "logits", 2);
  auto greedy = golden.integers(name + "greedy", 1);
  auto greedyLogits = golden.floats(name + "greedy_logits", 2);
  for (const Status *status :
       {ids ? nullptr : &ids.error(), logits ? nullptr : &logits.error(),
        greedy ? nullptr : &greedy.error(), greedyLogits ? nullptr : &greedyLogits.error()}) {
    if (status) {
      return *status;
    }
  }
  if (ids->empty() || greedy->empty() || logits->size() != ids->size() * vocab ||
      greedyLogits->size() != greedy->size() * vocab) {
    return invalidArgument("golden " + name + "logits: not [tokens, " + std::to_string(vocab) +
                           "]; the file belongs to a model of another vocabulary");
  }
  Recorded r;
  r.promptTokens = ids->size();
  r.greedy = std::move(*greedy);
  ids->insert(ids->end(), r.greedy.begin(), r.greedy.end() - 1);
  for (int64_t id : *ids) {
    if (id < 0 || id >= vocab) {
      return invalidArgument("golden " + name + "ids: token " + std::to_string(id) +
                             " is not in [0, " + std::to_string(vocab) + ")");
    }
    r.ids.push_back(static_cast<int32_t>(id));
  }
  r.logits = std::move(*logits);
  // The first greedy token comes from the prompt's last row, which the prompt's own logits hold as
  // well.
  r.logits.insert(r.logits.end(), greedyLogits->begin() + vocab, greedyLogits->end());
  if (const TensorView *view = golden.find(name + "experts")) {
    auto experts = golden.integers(name + "experts", 3);
    if (!experts || view->shape[1] != static_cast<int64_t>(r.promptTokens)) {
      return experts ? invalidArgument("golden " + name + "experts: expected [layers, tokens, k]")
                     : experts.error();
    }
    r.layers = static_cast<size_t>(view->shape[0]);
    r.topK = static_cast<size_t>(view->shape[2]);
    r.experts = std::move(*experts);
  }
  return r;
}

/// Lowest id among the largest.
size_t argmax(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// Compares rows as they come.
class Comparison {
public:
  Comparison(const std::vector<Recorded> &recorded, const GoldenOptions &options)
      : recorded_(recorded), options_(options), results_(recorded.size()) {
    for (size_t i = 0; i < recorded.size(); ++i) {
      results_[i].greedyTotal = static_cast<int64_t>(recorded[i].greedy.size());
      results_[i].expertsTotal = static_cast<int64_t>(
          recorded[i].layers * (recorded[i].experts.empty() ? 0 : recorded[i].promptTokens));
    }
  }

  void row(size_t prompt, size_t position, std::span<const float> logits) {
    const Recorded &r = recorded_[prompt];
    GoldenPrompt &result = results_[prompt];
    const float *want = r.logits.data() + position * logits.size();
    double worst = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      double error = std::abs(static_cast<double>(logits[i]) - want[i]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    result.maxAbsError = std::max(result.maxAbsError, worst);
    result.rowsWithin += worst <= options_.rowsWithin ? 1 : 0; // a count until finish()
    ++result.rows;
    if (position + 1 >= r.promptTokens) {
      result.greedyMatched +=
          argmax(logits) == static_cast<size_t>(r.greedy[position + 1 - r.promptTokens]) ? 1 : 0;
    }
  }

  void probe(size_t prompt, size_t position, const ProbeView &view) {
    const Recorded &r = recorded_[prompt];
    if (view.name != "router_ids" || !view.isInteger || r.experts.empty() ||
        view.layer >= r.layers || view.rowWidth != r.topK) {
      return;
    }
    for (size_t row = 0; row < view.rows && position + row < r.promptTokens; ++row) {
      const int32_t *got = static_cast<const int32_t *>(view.data) + row * r.topK;
      const int64_t *want =
          r.experts.data() + (view.layer * r.promptTokens + position + row) * r.topK;
      std::set<int64_t> a(got, got + r.topK), b(want, want + r.topK);
      results_[prompt].expertsMatched += a == b ? 1 : 0;
    }
  }

  std::vector<GoldenPrompt> finish() {
    for (GoldenPrompt &r : results_) {
      r.rowsWithin = r.rows > 0 ? r.rowsWithin / static_cast<double>(r.rows) : 0;
    }
    return std::move(results_);
  }

private:
  const std::vector<Recorded> &recorded_;
  const GoldenOptions &options_;
  std::vector<GoldenPrompt> results_;
};

} // namespace

Result<std::vector<GoldenPrompt>> evaluateGolden(Engine &engine, const SafetensorsFile &golden,
                                                 const GoldenOptions &options) {
  std::vector<Recorded> recorded;
  for (int64_t i = 0; golden.find("prompt" + std::to_string(i) + "_ids"); ++i) {
    auto prompt = readPrompt(golden, i, engine.model().vocab);
    if (!prompt) {
      return prompt.error();
    }
    recorded.push_back(std::move(*prompt));
  }
  if (recorded.empty()) {
    return invalidArgument("the golden file has no array 'prompt0_ids'; expected prompt<i>_ids, "
                           "_logits, _greedy, _greedy_logits");
  }
  Comparison comparison(recorded, options);
  std::vector<std::vector<int32_t>> sequences;
  for (const Recorded &r : recorded) {
    sequences.push_back(r.ids);
  }
  EvaluationInput input;
  input.sequences = sequences;
  input.chunkRows = options.chunkRows;
  input.maxTogether = options.batch ? 0 : 1;
  input.probes = true;
  EvaluationSink sink;
  sink.onLogits = [&](size_t s, size_t p, std::span<const float> row) {
    comparison.row(s, p, row);
  };
  sink.onProbe = [&](size_t s, size_t p, const ProbeView &view) { comparison.probe(s, p, view); };
  SLUICE_RETURN_IF_ERROR(engine.evaluate(input, sink));
  return comparison.finish();
}

Result<PerplexityResult>
evaluatePerplexity(Engine &engine, const SafetensorsFile &file,
                   const std::function<void(uint64_t, uint64_t)> &progress) {
  auto ids = file.integers("ids", 2);
  if (!ids) {
    return ids.error();
  }
  auto windows = static_cast<size_t>(file.find("ids")->shape[0]),
       tokens = static_cast<size_t>(file.find("ids")->shape[1]);
  std::vector<std::vector<int32_t>> sequences(windows);
  for (size_t w = 0; w < windows; ++w) {
    for (size_t t = 0; t < tokens; ++t) {
      int64_t id = (*ids)[w * tokens + t];
      if (id < 0 || id >= engine.model().vocab) {
        return invalidArgument("ids[" + std::to_string(w) + "][" + std::to_string(t) + "] is " +
                               std::to_string(id) + ", outside the vocabulary of " +
                               std::to_string(engine.model().vocab));
      }
      sequences[w].push_back(static_cast<int32_t>(id));
    }
  }
  if (windows == 0 || tokens < 2) {
    return invalidArgument("ids holds no window of two tokens or more");
  }
  std::vector<double> nll(windows, 0);
  uint64_t done = 0;
  EvaluationInput input;
  input.sequences = sequences;
  EvaluationSink sink;
  sink.onLogits = [&](size_t w, size_t t, std::span<const float> row) {
    progress(++done, windows * tokens);
    if (t + 1 >= tokens) {
      return;
    }
    double most = *std::max_element(row.begin(), row.end()), sum = 0;
    for (float x : row) {
      sum += std::exp(static_cast<double>(x) - most);
    }
    nll[w] += most + std::log(sum) - row[static_cast<size_t>(sequences[w][t + 1])];
  };
  SLUICE_RETURN_IF_ERROR(engine.evaluate(input, sink));
  PerplexityResult result;
  result.tokens = windows * (tokens - 1);
  for (double x : nll) { // in window order, so that the sum does not depend on how steps were cut
    result.meanNll += x;
  }
  result.meanNll /= static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.meanNll);
  return result;
}

} // namespace sluice
