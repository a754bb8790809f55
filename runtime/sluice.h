/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The C API of the Sluice runtime: opens a package, runs requests, hands out events. Implemented by
   runtime/engine/CApi.cpp; for embedding in any language. Plain C.

   Every call that can fail returns a sluice_status *: null = ok; else free it with
   sluice_status_destroy. No global state. One thread at a time may use one engine; different
   engines are independent. Structures begin with their size, set by their _init function: newer
   libraries take older callers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sluice_status sluice_status;
typedef struct sluice_engine sluice_engine;

/* As sluice::Code of runtime/base/Status.h, which says when each is given. */
typedef enum sluice_code {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1,
  SLUICE_NOT_FOUND = 2,
  SLUICE_OUT_OF_MEMORY = 3,
  SLUICE_CAPACITY = 4,
  SLUICE_CANCELLED = 5,
  SLUICE_DEADLINE = 6,
  SLUICE_CORRUPT = 7,
  SLUICE_UNSUPPORTED = 8,
  SLUICE_INTERNAL = 9
} sluice_code;

/* SLUICE_OK for null. */
sluice_code sluice_status_code(const sluice_status *status);
/* One line; valid until destroy. "" for null. */
const char *sluice_status_message(const sluice_status *status);
/* Null is fine. */
void sluice_status_destroy(sluice_status *status);

typedef struct sluice_engine_options {
  size_t struct_bytes;
  uint32_t threads;             /* 0 = one per core */
  uint32_t max_tokens_per_step; /* rows of one step */
  uint32_t max_seqs;            /* sequences of one step */
  uint64_t context_limit;       /* tokens of one sequence; 0 = the model's */
  uint64_t kv_bytes;            /* cache memory; 0 = a quarter of the machine's at most */
  int32_t verify_weights;       /* 0 = trust the weights' bytes: faster start */
  int32_t prefault;             /* 1 = read all weights in at once */
} sluice_engine_options;

void sluice_engine_options_init(sluice_engine_options *options);
/* `options` may be null: defaults. */
sluice_status *sluice_engine_open(const char *path, const sluice_engine_options *options,
                                  sluice_engine **engine_out);
/* Ends all requests. Null is fine. */
void sluice_engine_close(sluice_engine *engine);

/* Facts of the model. */
uint32_t sluice_engine_vocab(const sluice_engine *engine);
uint64_t sluice_engine_context_limit(const sluice_engine *engine);

typedef struct sluice_request_options {
  size_t struct_bytes;
  uint32_t max_tokens;      /* 0 = up to the context limit */
  float temperature;        /* 0 = greedy */
  int32_t top_k;            /* 0 = off */
  float top_p;              /* 1 = off */
  float min_p;              /* 0 = off */
  float repetition_penalty; /* 1 = off */
  float presence_penalty;   /* 0 = off */
  float frequency_penalty;  /* 0 = off */
  uint64_t seed;
  int32_t ignore_eos;              /* 1 = the model's end tokens do not end it */
  const char *const *stop_strings; /* UTF-8, copied; may be null */
  size_t num_stop_strings;
  const int32_t *stop_tokens; /* copied; may be null */
  size_t num_stop_tokens;
} sluice_request_options;

/* The defaults of the model's generation config. */
void sluice_request_options_init(const sluice_engine *engine, sluice_request_options *options);
/* Queues a request for the prompt ids [num_ids] (copied). `options` may be null: defaults. */
sluice_status *sluice_engine_submit(sluice_engine *engine, const int32_t *ids, size_t num_ids,
                                    const sluice_request_options *options, uint64_t *request_out);
/* SLUICE_NOT_FOUND when it has ended. Its finish event comes with the next step. */
sluice_status *sluice_engine_cancel(sluice_engine *engine, uint64_t request);
/* Runs one step. *more_out: 1 while requests are left. */
sluice_status *sluice_engine_step(sluice_engine *engine, int32_t *more_out);

typedef enum sluice_event_kind {
  SLUICE_EVENT_NONE = 0,
  SLUICE_EVENT_TOKEN = 1,
  SLUICE_EVENT_FINISH = 2
} sluice_event_kind;

typedef enum sluice_finish_reason {
  SLUICE_FINISH_STOP = 0,
  SLUICE_FINISH_LENGTH = 1,
  SLUICE_FINISH_CANCELLED = 2,
  SLUICE_FINISH_ERROR = 3
} sluice_finish_reason;

typedef struct sluice_event {
  size_t struct_bytes; /* set by the caller */
  sluice_event_kind kind;
  uint64_t request;
  int32_t token;    /* TOKEN */
  const char *text; /* UTF-8, zero-terminated, whole characters; valid until the next call of
                       next_event, step or close */
  size_t text_bytes;
  sluice_finish_reason reason; /* FINISH */
  sluice_code error_code;      /* FINISH with SLUICE_FINISH_ERROR */
  const char *error_message;   /* as text */
  uint32_t prompt_tokens;      /* FINISH */
  uint32_t generated_tokens;   /* FINISH */
} sluice_event;

/* The oldest event not yet taken; kind NONE when there is none. */
sluice_status *sluice_engine_next_event(sluice_engine *engine, sluice_event *event_out);

/* Text to ids. Writes at most `capacity` ids, *num_ids_out is how many there are; call again with
   more room when it is larger. add_special: adds what the tokenizer puts around a text;
   parse_special: special tokens written out in the text become their ids. SLUICE_UNSUPPORTED: no
   tokenizer. */
sluice_status *sluice_engine_tokenize(const sluice_engine *engine, const char *text,
                                      size_t text_bytes, int32_t add_special, int32_t parse_special,
                                      int32_t *ids, size_t capacity, size_t *num_ids_out);
/* Ids to UTF-8, zero-terminated when capacity allows. *text_bytes_out is the length without the
 * zero. */
sluice_status *sluice_engine_detokenize(const sluice_engine *engine, const int32_t *ids,
                                        size_t num_ids, int32_t skip_special, char *text,
                                        size_t capacity, size_t *text_bytes_out);

/* Logits of all given tokens: logits [num_ids, vocab] f32. chunk_rows: rows per step, 0 = as many
   as fit. No sampling. */
sluice_status *sluice_engine_evaluate(sluice_engine *engine, const int32_t *ids, size_t num_ids,
                                      uint32_t chunk_rows, float *logits);

#ifdef __cplusplus
}
#endif
