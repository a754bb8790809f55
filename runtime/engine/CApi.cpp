// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C API over Engine. The one place of the runtime that catches: out of memory becomes a status.
#include "runtime/engine/Engine.h"
#include "runtime/sluice.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <new>

using namespace sluice;

struct sluice_status {
  Code code;
  std::string message;
};

struct sluice_engine {
  struct Event {
    sluice_event_kind kind;
    RequestId request;
    int32_t token;
    std::string text;
    FinishReason reason;
    Status status;
    uint32_t promptTokens;
    uint32_t generatedTokens;
  };
  std::unique_ptr<Engine> engine;
  std::deque<Event> events;
  Event taken = {}; // what the last sluice_event points to
};

namespace {

static_assert(static_cast<int>(Code::Internal) == SLUICE_INTERNAL &&
              static_cast<int>(Code::Corrupt) == SLUICE_CORRUPT &&
              static_cast<int>(Code::Capacity) == SLUICE_CAPACITY);
static_assert(static_cast<int>(FinishReason::Error) == SLUICE_FINISH_ERROR);

// Given when there is no memory for a status; never freed.
sluice_status *outOfMemoryStatus() {
  static const sluice_status status = {Code::OutOfMemory, "out of memory"}; // short: no allocation
  return const_cast<sluice_status *>(&status);
}

sluice_status *toC(const Status &status) {
  return status ? nullptr : new sluice_status{status.code(), status.message()};
}

// Runs `body`, which returns a Status; nothing is thrown across the C border.
template <typename F> sluice_status *guarded(F &&body) {
  try {
    return toC(body());
  } catch (const std::bad_alloc &) {
    return outOfMemoryStatus();
  } catch (const std::exception &error) { // of the standard library: our fault
    try {
      return toC(internalError(error.what()));
    } catch (const std::bad_alloc &) {
      return outOfMemoryStatus();
    }
  }
}

Status missing(const char *what) { return invalidArgument(std::string(what) + " is null"); }

// Copies what an older caller's structure has over the defaults of this library.
template <typename T> Status takeOptions(const T *from, T &to, size_t least) {
  if (from == nullptr) {
    return Status::ok();
  }
  if (from->struct_bytes < least || from->struct_bytes > sizeof(T)) {
    return invalidArgument("struct_bytes is " + std::to_string(from->struct_bytes) +
                           "; call the _init "
                           "function of the same library version first");
  }
  std::memcpy(&to, from, from->struct_bytes);
  return Status::ok();
}

SamplingParams samplingOf(const sluice_request_options &options) {
  SamplingParams params;
  params.temperature = options.temperature;
  params.topK = options.top_k;
  params.topP = options.top_p;
  params.minP = options.min_p;
  params.repetitionPenalty = options.repetition_penalty;
  params.presencePenalty = options.presence_penalty;
  params.frequencyPenalty = options.frequency_penalty;
  params.seed = options.seed;
  for (size_t i = 0; options.stop_strings != nullptr && i < options.num_stop_strings; ++i) {
    params.stopStrings.emplace_back(options.stop_strings[i] == nullptr ? ""
                                                                       : options.stop_strings[i]);
  }
  if (options.stop_tokens != nullptr) {
    params.stopTokens.assign(options.stop_tokens, options.stop_tokens + options.num_stop_tokens);
  }
  return params;
}

Status submit(sluice_engine *engine, std::span<const int32_t> ids,
              const sluice_request_options *options, uint64_t *request) {
  sluice_request_options all = {};
  sluice_request_options_init(engine, &all);
  SLUICE_RETURN_IF_ERROR(takeOptions(options, all, sizeof(all)));
  RequestSpec spec;
  spec.prompt.assign(ids.begin(), ids.end());
  spec.maxTokens = all.max_tokens;
  spec.sampling = samplingOf(all);
  spec.ignoreEos = all.ignore_eos != 0;
  spec.onToken = [engine](const TokenEvent &event) {
    engine->events.push_back({SLUICE_EVENT_TOKEN, event.request, event.token,
                              std::string(event.text), FinishReason::Stop, Status::ok(), 0, 0});
  };
  spec.onFinish = [engine](const FinishEvent &event) {
    engine->events.push_back({SLUICE_EVENT_FINISH, event.request, event.stopToken,
                              std::string(event.text), event.reason, event.status,
                              event.promptTokens, event.generatedTokens});
  };
  const auto id = engine->engine->submit(std::move(spec));
  if (!id) {
    return id.error();
  }
  *request = *id;
  return Status::ok();
}

Result<const Tokenizer *> tokenizerOf(const sluice_engine *engine) {
  const Tokenizer *tokenizer = engine->engine->tokenizer();
  if (tokenizer == nullptr) {
    return engine->engine->tokenizerStatus() ? unsupported("the package holds no tokenizer")
                                             : engine->engine->tokenizerStatus();
  }
  return tokenizer;
}

} // namespace

extern "C" {

sluice_code sluice_status_code(const sluice_status *status) {
  return status == nullptr ? SLUICE_OK : static_cast<sluice_code>(status->code);
}

const char *sluice_status_message(const sluice_status *status) {
  return status == nullptr ? "" : status->message.c_str();
}

void sluice_status_destroy(sluice_status *status) {
  if (status != outOfMemoryStatus()) {
    delete status;
  }
}

void sluice_engine_options_init(sluice_engine_options *options) {
  const EngineOptions defaults;
  *options = {};
  options->struct_bytes = sizeof(*options);
  options->max_tokens_per_step = defaults.maxTokensPerStep;
  options->max_seqs = defaults.maxSeqs;
  options->verify_weights = 1;
}

sluice_status *sluice_engine_open(const char *path, const sluice_engine_options *options,
                                  sluice_engine **engine_out) {
  return guarded([&]() -> Status {
    if (path == nullptr || engine_out == nullptr) {
      return missing("path or engine_out");
    }
    *engine_out = nullptr;
    sluice_engine_options all = {};
    sluice_engine_options_init(&all);
    SLUICE_RETURN_IF_ERROR(takeOptions(options, all, sizeof(all)));
    EngineOptions to;
    to.threads = all.threads;
    to.maxTokensPerStep = all.max_tokens_per_step;
    to.maxSeqs = all.max_seqs;
    to.contextLimit = all.context_limit;
    to.kvBytes = all.kv_bytes;
    to.verify = all.verify_weights != 0 ? Verify::All : Verify::Code;
    to.prefault = all.prefault != 0;
    auto engine = Engine::open(path, to);
    if (!engine) {
      return engine.error();
    }
    auto owner = std::make_unique<sluice_engine>();
    owner->engine = std::move(*engine);
    *engine_out = owner.release();
    return Status::ok();
  });
}

void sluice_engine_close(sluice_engine *engine) { delete engine; }

uint32_t sluice_engine_vocab(const sluice_engine *engine) { return engine->engine->model().vocab; }

uint64_t sluice_engine_context_limit(const sluice_engine *engine) {
  return engine->engine->contextLimit();
}

void sluice_request_options_init(const sluice_engine *engine, sluice_request_options *options) {
  const SamplingParams &defaults = engine->engine->model().defaults;
  *options = {};
  options->struct_bytes = sizeof(*options);
  options->temperature = defaults.temperature;
  options->top_k = defaults.topK;
  options->top_p = defaults.topP;
  options->min_p = defaults.minP;
  options->repetition_penalty = defaults.repetitionPenalty;
  options->presence_penalty = defaults.presencePenalty;
  options->frequency_penalty = defaults.frequencyPenalty;
}

sluice_status *sluice_engine_submit(sluice_engine *engine, const int32_t *ids, size_t num_ids,
                                    const sluice_request_options *options, uint64_t *request_out) {
  return guarded([&]() -> Status {
    if (engine == nullptr || request_out == nullptr || (ids == nullptr && num_ids != 0)) {
      return missing("engine, ids or request_out");
    }
    return submit(engine, {ids, num_ids}, options, request_out);
  });
}

sluice_status *sluice_engine_cancel(sluice_engine *engine, uint64_t request) {
  return guarded(
      [&] { return engine == nullptr ? missing("engine") : engine->engine->cancel(request); });
}

sluice_status *sluice_engine_step(sluice_engine *engine, int32_t *more_out) {
  return guarded([&]() -> Status {
    if (engine == nullptr || more_out == nullptr) {
      return missing("engine or more_out");
    }
    const auto more = engine->engine->step();
    *more_out = more && *more ? 1 : 0;
    return more ? Status::ok() : more.error();
  });
}

sluice_status *sluice_engine_next_event(sluice_engine *engine, sluice_event *event_out) {
  return guarded([&]() -> Status {
    if (engine == nullptr || event_out == nullptr ||
        event_out->struct_bytes != sizeof(sluice_event)) {
      return invalidArgument(
          "engine or event_out is null, or struct_bytes is not sizeof(sluice_event)");
    }
    *event_out = {};
    event_out->struct_bytes = sizeof(sluice_event);
    if (engine->events.empty()) {
      return Status::ok();
    }
    engine->taken = std::move(engine->events.front());
    engine->events.pop_front();
    const sluice_engine::Event &event = engine->taken;
    event_out->kind = event.kind;
    event_out->request = event.request;
    event_out->token = event.token;
    event_out->text = event.text.c_str();
    event_out->text_bytes = event.text.size();
    event_out->reason = static_cast<sluice_finish_reason>(event.reason);
    event_out->error_code = static_cast<sluice_code>(event.status.code());
    event_out->error_message = event.status.message().c_str();
    event_out->prompt_tokens = event.promptTokens;
    event_out->generated_tokens = event.generatedTokens;
    return Status::ok();
  });
}

sluice_status *sluice_engine_tokenize(const sluice_engine *engine, const char *text,
                                      size_t text_bytes, int32_t add_special, int32_t parse_special,
                                      int32_t *ids, size_t capacity, size_t *num_ids_out) {
  return guarded([&]() -> Status {
    if (engine == nullptr || num_ids_out == nullptr || (text == nullptr && text_bytes != 0) ||
        (ids == nullptr && capacity != 0)) {
      return missing("engine, text, ids or num_ids_out");
    }
    const auto tokenizer = tokenizerOf(engine);
    if (!tokenizer) {
      return tokenizer.error();
    }
    EncodeOptions options;
    options.addSpecial = add_special != 0;
    options.parseSpecial = parse_special != 0;
    const auto encoded = (*tokenizer)->encode({text, text_bytes}, options);
    if (!encoded) {
      return encoded.error();
    }
    *num_ids_out = encoded->size();
    std::copy_n(encoded->begin(), std::min(capacity, encoded->size()), ids);
    return Status::ok();
  });
}

sluice_status *sluice_engine_detokenize(const sluice_engine *engine, const int32_t *ids,
                                        size_t num_ids, int32_t skip_special, char *text,
                                        size_t capacity, size_t *text_bytes_out) {
  return guarded([&]() -> Status {
    if (engine == nullptr || text_bytes_out == nullptr || (ids == nullptr && num_ids != 0) ||
        (text == nullptr && capacity != 0)) {
      return missing("engine, ids, text or text_bytes_out");
    }
    const auto tokenizer = tokenizerOf(engine);
    if (!tokenizer) {
      return tokenizer.error();
    }
    const std::string decoded = (*tokenizer)->decode({ids, num_ids}, skip_special != 0);
    *text_bytes_out = decoded.size();
    std::copy_n(decoded.data(), std::min(capacity, decoded.size()), text);
    if (decoded.size() < capacity) {
      text[decoded.size()] = 0;
    }
    return Status::ok();
  });
}

sluice_status *sluice_engine_evaluate(sluice_engine *engine, const int32_t *ids, size_t num_ids,
                                      uint32_t chunk_rows, float *logits) {
  return guarded([&]() -> Status {
    if (engine == nullptr || ids == nullptr || logits == nullptr) {
      return missing("engine, ids or logits");
    }
    const std::vector<std::vector<int32_t>> sequences = {{ids, ids + num_ids}};
    EvaluationInput input;
    input.sequences = sequences;
    input.chunkRows = chunk_rows;
    EvaluationSink sink;
    sink.onLogits = [&](size_t, size_t position, std::span<const float> row) {
      std::copy(row.begin(), row.end(), logits + position * row.size());
    };
    return engine->engine->evaluate(input, sink);
  });
}

} // extern "C"
