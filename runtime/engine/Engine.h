// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engine: owns a loaded model, its cache and all requests, and moves them on step by step. The
// last room before the command line, the server and the C API. One thread at a time may use it;
// EngineLoop gives it a thread of its own.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/Evaluation.h"
#include "runtime/engine/Request.h"
#include "runtime/package/PackageReader.h"
#include "runtime/program/StepRunner.h"
#include "runtime/tokenizer/ChatTemplate.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct EngineOptions {
  uint32_t threads = 0;            ///< 0 = one per core this process may use
  uint32_t maxTokensPerStep = 512; ///< rows of one step
  uint32_t maxSeqs = 64;           ///< sequences of one step
  uint32_t maxQueued = 4096;       ///< waiting requests; more get Capacity
  uint64_t contextLimit = 0; ///< tokens of one sequence; 0 = the model's (4096 if it states none)
  uint64_t kvBytes = 0;      ///< memory of all block pools; 0 = a quarter of the machine's at most
  uint64_t kvBlocks = 0;     ///< blocks of a pool without window; overrides kvBytes
  Verify verify = Verify::All;
  bool prefault = false; ///< reads all weights in before open() returns
  /// CPU features (LLVM names) to treat as missing, beside those of $SLUICE_MASK_CPU_FEATURES
  /// (comma separated). For tests of the error and of slower code variants.
  std::vector<std::string> maskedCpuFeatures;
};

/// Facts about the model that stay when the package is gone.
struct ModelFacts {
  std::string name;
  uint32_t vocab = 0;
  uint64_t context = 0; ///< 0 = none stated
  int32_t bosId = -1;
  int32_t padId = -1;
  bool addBos = false; ///< a prompt begins with bosId
  std::vector<int32_t> eosIds;
  SamplingParams defaults; ///< of the package's generation config; greedy when it says so
};

struct EngineStats {
  uint64_t steps = 0;
  uint64_t prefillTokens = 0; ///< rows of prompts, also computed again after a preemption
  uint64_t decodeTokens = 0;  ///< rows of generated tokens
  uint64_t prefillMicros = 0; ///< a step that holds both is divided by rows
  uint64_t decodeMicros = 0;
  uint64_t sampleMicros = 0;
  uint64_t preemptions = 0;
  uint64_t finished = 0;
};

class Engine {
public:
  /// Opens a package: verify, map, choose code for this CPU, allocate. Errors of
  /// PackageReader::open, chooseCode, Program::create and the tokenizer, each one line that names
  /// the file.
  static Result<std::unique_ptr<Engine>> open(const std::string &path,
                                              const EngineOptions &options = {});
  /// An engine over any runner (tests). `tokenizer` may be missing: then ids only, no text.
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<StepRunner> runner,
                                                ModelFacts facts,
                                                std::optional<Tokenizer> tokenizer,
                                                const EngineOptions &options);
  ~Engine();

  /// Queues a request. InvalidArgument: it can never run (empty prompt, id out of range, too long,
  /// bad sampling params); Capacity: the queue is full.
  Result<RequestId> submit(RequestSpec spec);
  /// Ends a request before the next step; its onFinish comes from within the next step(). NotFound:
  /// no such request, or it has ended.
  Status cancel(RequestId request);
  /// Plans and runs one step. true: there is more to do. A bad request ends by its onFinish, never
  /// here; an error here means that the engine can't go on.
  Result<bool> step();
  /// step() until nothing is left.
  Status runAll();
  bool idle() const; ///< nothing queued, nothing running

  /// Logits and probes of given tokens, without sampling; see Evaluation.h. Uses free cache blocks:
  /// Capacity when too few are free.
  Status evaluate(const EvaluationInput &input, const EvaluationSink &sink);

  const ModelFacts &model() const;
  const StepFacts &stepFacts() const;
  const Tokenizer *tokenizer() const;       ///< null when the package has none
  const ChatTemplate *chatTemplate() const; ///< null when the package has none
  /// Why tokenizer() or chatTemplate() is null: ok = the package has none, else what is wrong with
  /// it.
  const Status &tokenizerStatus() const;
  const Status &chatTemplateStatus() const;
  /// Prompt and answer together, in tokens: the least of model, options and pool.
  uint64_t contextLimit() const;
  uint32_t numThreads() const;
  uint64_t kvBytes() const; ///< of all block pools
  const EngineStats &stats() const;
  /// The package; null for create().
  const PackageReader *package() const;

  /// Checks what must hold between steps: every block is free or owned by one sequence, tables and
  /// lengths agree, counts within limits. Internal with the first fault. For tests; O(blocks).
  Status checkInvariants() const;

private:
  friend class EngineLoop; // posts requests from other threads
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  Status checkSpec(const RequestSpec &spec) const; // reads immutable parts only
  void enqueue(RequestId id, RequestSpec spec);
  void endAll(FinishReason reason, const Status &status);
  std::unique_ptr<State> state_;
};

} // namespace sluice
