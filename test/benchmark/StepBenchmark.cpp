// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures prefill and decode of one package, and the share of the memory bandwidth that decoding
// reaches. One JSON line. The result is checked first where golden logits are given; medians of
// several runs after a warm-up. Called by run.py.
#include "runtime/engine/GoldenEvaluation.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/mman.h>
#include <thread>

using namespace sluice;

static double secondsOf(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// GB/s that `threads` threads read from `bytes` of memory (2 MiB pages where the system gives
/// them), best of five passes.
static double readBandwidth(unsigned threads, size_t bytes) {
  auto *memory = static_cast<uint64_t *>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) {
    return 0;
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  double best = 0;
  std::vector<uint64_t> sums(threads * 8); // one cache line each
  for (int pass = 0; pass < 5; ++pass) {
    double seconds = secondsOf([&] {
      std::vector<std::thread> workers;
      size_t words = bytes / 8 / threads;
      for (unsigned t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
          uint64_t s[8] = {};
          for (const uint64_t *p = memory + t * words, *end = p + words / 8 * 8; p != end; p += 8) {
            for (int i = 0; i < 8; ++i) {
              s[i] += p[i];
            }
          }
          sums[t * 8] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
        });
      }
      for (std::thread &w : workers) {
        w.join();
      }
    });
    best = std::max(best, static_cast<double>(bytes) / seconds / 1e9);
  }
  munmap(memory, bytes);
  return sums[0] == 0 ? 0 : best; // uses the sums, so that the reads stay
}

struct Rate {
  double median = 0, low = 0, high = 0;
};

static Rate rateOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

/// One request: tokens/s of its prompt and of its answer.
static std::pair<double, double> measure(Engine &engine, uint32_t prompt, uint32_t answer,
                                         uint32_t seed) {
  std::mt19937 random(seed);
  RequestSpec spec;
  spec.prompt.resize(prompt);
  for (int32_t &id : spec.prompt) {
    id = static_cast<int32_t>(random() % engine.model().vocab);
  }
  spec.maxTokens = answer;
  spec.sampling.temperature = 0;
  spec.ignoreEos = true;
  std::pair<double, double> rates;
  spec.onFinish = [&](const FinishEvent &e) {
    rates = {e.promptTokens * 1e6 / static_cast<double>(std::max<uint64_t>(e.prefillMicros, 1)),
             (e.generatedTokens - 1) * 1e6 /
                 static_cast<double>(std::max<uint64_t>(e.decodeMicros, 1))};
  };
  if (!engine.submit(std::move(spec)) || !engine.runAll()) {
    return {};
  }
  return rates;
}

/// Bytes of weights that decoding one token reads: matrices once, of experts the chosen share, of
/// the embedding one row.
static double bytesPerToken(const PackageReader &package) {
  const auto &m = package.manifest();
  double total = 0;
  for (const auto *w : *m.weights()) {
    bool experts = w->shape()->size() == 3 && m.model()->experts() > 0 &&
                   w->shape()->Get(0) == m.model()->experts();
    bool embedding = w->layout()->str() == "plain" && w->shape()->size() == 2;
    if (!embedding) {
      total += static_cast<double>(w->bytes()) *
               (experts ? static_cast<double>(m.model()->experts_per_token()) / m.model()->experts()
                        : 1);
    }
  }
  return total;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: step_benchmark PACKAGE [GOLDEN.safetensors [RUNS [THREADS]]]\n";
    return 1;
  }
  EngineOptions options;
  options.prefault = true;
  options.threads = argc > 4 ? static_cast<uint32_t>(std::atoi(argv[4])) : 0;
  auto engine = Engine::open(argv[1], options);
  if (!engine) {
    std::cerr << engine.error().message() << "\n";
    return 1;
  }
  nlohmann::json out;
  if (argc > 2 && argv[2][0] != '\0') {
    auto golden = SafetensorsFile::read(argv[2]);
    auto prompts = golden ? evaluateGolden(**engine, *golden, {})
                          : Result<std::vector<GoldenPrompt>>(golden.error());
    if (!prompts) {
      std::cerr << prompts.error().message() << "\n";
      return 1;
    }
    double worst = 0;
    for (const GoldenPrompt &p : *prompts) {
      worst = std::max(worst, p.maxAbsError);
    }
    out["golden_max_abs_error"] = worst;
  }
  int runs = argc > 3 ? std::atoi(argv[3]) : 5;
  std::vector<double> prefill, decode;
  for (int run = -1; run < runs; ++run) { // the first warms up
    double p = measure(**engine, 512, 1, 100 + static_cast<uint32_t>(run)).first;
    double d = measure(**engine, 128, 65, 200 + static_cast<uint32_t>(run)).second;
    if (run >= 0) {
      prefill.push_back(p);
      decode.push_back(d);
    }
  }
  double bytes = bytesPerToken(*(*engine)->package());
  double bandwidth = readBandwidth((*engine)->numThreads(), size_t{1} << 30);
  Rate p = rateOf(prefill), d = rateOf(decode);
  out["package"] = argv[1];
  out["threads"] = (*engine)->numThreads();
  out["prefill_512"] = {{"median", p.median}, {"min", p.low}, {"max", p.high}};
  out["decode_128"] = {{"median", d.median}, {"min", d.low}, {"max", d.high}};
  out["weight_bytes_per_token"] = bytes;
  out["read_gbps"] = bandwidth;
  out["decode_bandwidth_share"] = bandwidth > 0 ? bytes * d.median / 1e9 / bandwidth : 0;
  std::cout << out.dump() << "\n";
  return 0;
}
