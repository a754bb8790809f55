// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens an engine and answers what it is asked between steps.
#include "runtime/engine/Engine.h"

#include "runtime/engine/CacheSizing.h"
#include "runtime/engine/EngineState.h"
#include "runtime/package/CpuFeatures.h"
#include "runtime/program/Program.h"

#include <algorithm>
#include <cstdlib>

namespace sluice {
namespace {

constexpr uint64_t kDefaultContext = 4096; // of a model that states none
constexpr uint64_t kMaxContext = uint64_t{1} << 30;
constexpr int32_t kMaxLogprobs = 1024;
constexpr const char *kStepProgram = "step";
constexpr const char *kMaskVariable = "SLUICE_MASK_CPU_FEATURES";

ModelFacts factsOf(const manifest::Manifest &manifest) {
  const manifest::Model &model = *manifest.model();
  ModelFacts facts;
  facts.name = model.name() == nullptr ? "" : model.name()->str();
  facts.vocab = model.vocab();
  facts.context = model.context();
  facts.bosId = model.bos_id();
  facts.padId = model.pad_id();
  facts.addBos = model.add_bos() && facts.bosId >= 0;
  if (model.eos_ids() != nullptr) {
    facts.eosIds.assign(model.eos_ids()->begin(), model.eos_ids()->end());
  }
  std::erase(facts.eosIds, -1);
  facts.defaults.temperature = 0; // as generation configs without do_sample mean it
  if (const manifest::Generation *generation = manifest.generation(); generation != nullptr) {
    if (generation->do_sample()) {
      facts.defaults.temperature = generation->temperature() >= 0 ? generation->temperature() : 1;
    }
    facts.defaults.topP = generation->top_p() >= 0 ? generation->top_p() : 1;
    facts.defaults.topK = std::max(0, generation->top_k());
    if (generation->repetition_penalty() >= 0) {
      facts.defaults.repetitionPenalty = generation->repetition_penalty();
    }
  }
  return facts;
}

struct Sizing {
  StepCapacity capacity;
  CacheSizes cache;
};

// The step's capacity and the pools, from options, model and machine.
Result<Sizing> sizeStep(const manifest::Program &program, const ModelFacts &facts,
                        const EngineOptions &options) {
  Sizing sizing;
  sizing.capacity.tokens = std::max(1U, options.maxTokensPerStep);
  sizing.capacity.seqs = std::clamp(options.maxSeqs, 1U, sizing.capacity.tokens);
  // Logits of all rows can be asked for (evaluate); memory that no step writes costs nothing.
  sizing.capacity.logitRows = sizing.capacity.tokens;
  CacheWish wish;
  wish.blockTokens = program.kv_block_tokens();
  wish.seqs = sizing.capacity.seqs;
  wish.tokensPerStep = sizing.capacity.tokens;
  wish.contextLimit = facts.context == 0 ? kDefaultContext : facts.context;
  if (options.contextLimit != 0) {
    // a model that states no limit has none
    wish.contextLimit =
        facts.context == 0 ? options.contextLimit : std::min(options.contextLimit, facts.context);
  }
  wish.contextLimit = std::min(wish.contextLimit, kMaxContext);
  wish.kvBytes = options.kvBytes != 0 ? options.kvBytes : machineMemoryBytes() / 4;
  wish.kvBlocks = options.kvBlocks;
  for (const manifest::CacheGroup *group : *program.groups()) {
    wish.groups.push_back({group->window(), group->block_bytes(), 0});
  }
  auto cache = sizeCache(wish);
  if (!cache) {
    return cache.error();
  }
  sizing.cache = std::move(*cache);
  sizing.capacity.maxKv = static_cast<uint32_t>(sizing.cache.contextLimit);
  return sizing;
}

// Tokenizer and chat template of the package. A bad one is no reason not to open: ids still work.
template <typename T> void take(Result<T> from, std::optional<T> &value, Status &status) {
  if (from) {
    value.emplace(std::move(*from));
  } else {
    status = from.error();
  }
}

Status withPath(const std::string &path, const Status &status) {
  return {status.code(), path + ": " + status.message()};
}

} // namespace

Engine::State::State(std::unique_ptr<StepRunner> stepRunner, ModelFacts modelFacts,
                     const EngineOptions &engineOptions)
    : options(engineOptions), facts(std::move(modelFacts)), runner(std::move(stepRunner)),
      workspace(static_cast<int32_t>(facts.vocab)), builder(runner->facts().groups.size()) {
  const StepFacts &step = runner->facts();
  contextLimit = step.capacity.maxKv;
  maxSeqs = std::min({step.capacity.seqs, step.capacity.tokens, step.capacity.logitRows});
  pools.shape.blockTokens = step.blockTokens;
  for (const CacheGroupFacts &group : step.groups) {
    pools.shape.windows.push_back(group.window);
    pools.pools.emplace_back(group.numBlocks);
  }
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const std::string &path,
                                             const EngineOptions &options) {
  auto package = PackageReader::open(path, {options.verify, options.prefault, options.threads});
  if (!package) {
    return package.error();
  }
  CpuFeatures features = CpuFeatures::host();
  features.mask(options.maskedCpuFeatures);
  if (const char *masked = std::getenv(kMaskVariable); masked != nullptr) {
    features.maskList(masked);
  }
  const auto code = chooseCode(package->manifest(), features);
  if (!code) {
    return withPath(path, code.error());
  }
  const manifest::Program *program = package->program(kStepProgram);
  if (program == nullptr) {
    return unsupported(path + ": the package holds no program 'step'; compile a language model");
  }
  ModelFacts facts = factsOf(package->manifest());
  const auto sizing = sizeStep(*program, facts, options);
  if (!sizing) {
    return withPath(path, sizing.error());
  }
  auto device = std::make_unique<CpuDevice>(options.threads);
  auto runner = Program::create(*package, kStepProgram, *device,
                                {sizing->capacity, sizing->cache.numBlocks, *code});
  if (!runner) {
    return withPath(path, runner.error());
  }
  auto engine = create(std::move(*runner), std::move(facts), std::nullopt, options);
  if (!engine) {
    return withPath(path, engine.error());
  }
  State &state = *(*engine)->state_;
  if (const auto json = package->text(manifest::SectionKind::Tokenizer)) {
    take(Tokenizer::fromJson(*json), state.tokenizer, state.tokenizerStatus);
  }
  if (const auto text = package->text(manifest::SectionKind::ChatTemplate)) {
    take(ChatTemplate::parse(*text), state.chatTemplate, state.chatTemplateStatus);
  }
  state.device = std::move(device);
  state.package.emplace(std::move(*package)); // what it handed out stays valid
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<StepRunner> runner, ModelFacts facts,
                                               std::optional<Tokenizer> tokenizer,
                                               const EngineOptions &options) {
  const StepFacts &step = runner->facts();
  if (step.vocab == 0 || step.vocab != facts.vocab || step.blockTokens == 0 ||
      step.capacity.tokens == 0 || step.capacity.seqs == 0 || step.capacity.logitRows == 0 ||
      step.capacity.maxKv == 0) {
    return invalidArgument(
        "the program's vocabulary, block size or capacity is 0 or not the model's");
  }
  auto state = std::make_unique<State>(std::move(runner), std::move(facts), options);
  state->tokenizer = std::move(tokenizer);
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Status Engine::checkSpec(const RequestSpec &spec) const {
  const State &s = *state_;
  if (spec.prompt.empty()) {
    return invalidArgument("the prompt has no tokens; at least one is needed");
  }
  for (size_t i = 0; i < spec.prompt.size(); ++i) {
    if (spec.prompt[i] < 0 || static_cast<uint32_t>(spec.prompt[i]) >= s.facts.vocab) {
      return invalidArgument("prompt token " + std::to_string(i) + " is " +
                             std::to_string(spec.prompt[i]) + ", outside the vocabulary [0, " +
                             std::to_string(s.facts.vocab) + ")");
    }
  }
  if (spec.prompt.size() >= s.contextLimit) {
    return invalidArgument("the prompt has " + std::to_string(spec.prompt.size()) +
                           " tokens; with at least one token of answer the limit is " +
                           std::to_string(s.contextLimit) +
                           "; shorten it, or raise context limit or cache memory");
  }
  if (spec.logprobs < -1 || spec.logprobs > kMaxLogprobs) {
    return invalidArgument("logprobs is " + std::to_string(spec.logprobs) + "; expected -1 ... " +
                           std::to_string(kMaxLogprobs));
  }
  return spec.sampling.validate(static_cast<int32_t>(s.facts.vocab));
}

void Engine::enqueue(RequestId id, RequestSpec spec) {
  State &s = *state_;
  if (!spec.ignoreEos) {
    spec.sampling.stopTokens.insert(spec.sampling.stopTokens.end(), s.facts.eosIds.begin(),
                                    s.facts.eosIds.end());
  }
  auto request =
      std::make_unique<RequestState>(id, std::move(spec), s.pools, s.workspace, s.contextLimit);
  s.live.emplace(id, request.get());
  s.waiting.push_back(std::move(request));
}

Result<RequestId> Engine::submit(RequestSpec spec) {
  SLUICE_RETURN_IF_ERROR(checkSpec(spec));
  if (state_->waiting.size() >= state_->options.maxQueued) {
    return capacityReached("the queue holds " + std::to_string(state_->waiting.size()) +
                           " requests, its limit; try later");
  }
  const RequestId id = state_->nextId.fetch_add(1);
  enqueue(id, std::move(spec));
  return id;
}

Status Engine::cancel(RequestId request) {
  const auto found = state_->live.find(request);
  if (found == state_->live.end() || found->second->ended()) {
    return notFound("request " + std::to_string(request) + " does not exist or has ended");
  }
  found->second->wantCancel();
  state_->cancelsPending = true;
  return Status::ok();
}

void Engine::endAll(FinishReason reason, const Status &status) {
  for (const auto &[id, request] : state_->live) {
    request->end(reason, status);
  }
  state_->removeEnded();
}

Result<bool> Engine::step() {
  if (Status status = state_->step(); !status) {
    endAll(FinishReason::Error, status);
    return status;
  }
  return !idle();
}

Status Engine::runAll() {
  while (!idle()) {
    if (const auto more = step(); !more) {
      return more.error();
    }
  }
  return Status::ok();
}

bool Engine::idle() const { return state_->running.empty() && state_->waiting.empty(); }
const ModelFacts &Engine::model() const { return state_->facts; }
const StepFacts &Engine::stepFacts() const { return state_->runner->facts(); }
const Tokenizer *Engine::tokenizer() const {
  return state_->tokenizer ? &*state_->tokenizer : nullptr;
}
const ChatTemplate *Engine::chatTemplate() const {
  return state_->chatTemplate ? &*state_->chatTemplate : nullptr;
}
const Status &Engine::tokenizerStatus() const { return state_->tokenizerStatus; }
const Status &Engine::chatTemplateStatus() const { return state_->chatTemplateStatus; }
uint64_t Engine::contextLimit() const { return state_->contextLimit; }
uint32_t Engine::numThreads() const {
  return state_->device == nullptr ? 1 : state_->device->numThreads();
}
uint64_t Engine::kvBytes() const {
  uint64_t bytes = 0;
  for (const CacheGroupFacts &group : state_->runner->facts().groups) {
    bytes += group.blockBytes * group.numBlocks;
  }
  return bytes;
}
const EngineStats &Engine::stats() const { return state_->stats; }
const PackageReader *Engine::package() const {
  return state_->package ? &*state_->package : nullptr;
}

} // namespace sluice
