/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Embeds the runtime in a C program: opens a package, tokenizes a text, prints the continuation as it is made. */
#include "runtime/sluice.h"

#include <stdio.h>
#include <string.h>

static int failed(sluice_status *status) {
  if (status == NULL) {
    return 0;
  }
  fprintf(stderr, "embed: %s\n", sluice_status_message(status));
  sluice_status_destroy(status);
  return 1;
}

/* Steps the engine and prints the text of its one request until it ends. 0 = done. */
static int stream(sluice_engine *engine) {
  int32_t more = 1;
  sluice_event event;
  event.struct_bytes = sizeof(event);
  while (more != 0) {
    if (failed(sluice_engine_step(engine, &more))) {
      return 1;
    }
    for (;;) {
      if (failed(sluice_engine_next_event(engine, &event))) {
        return 1;
      }
      if (event.kind == SLUICE_EVENT_NONE) {
        break;
      }
      fwrite(event.text, 1, event.text_bytes, stdout);
      fflush(stdout);
    }
  }
  puts("");
  return 0;
}

int main(int argc, char **argv) {
  sluice_engine *engine = NULL;
  sluice_request_options request;
  int32_t ids[4096];
  size_t num_ids = 0;
  uint64_t id = 0;
  int result = 1;
  if (argc != 3) {
    fprintf(stderr, "usage: embed PACKAGE TEXT\n");
    return 1;
  }
  if (failed(sluice_engine_open(argv[1], NULL, &engine))) {
    return 1;
  }
  request.struct_bytes = sizeof(request);
  sluice_request_options_init(engine, &request);
  request.max_tokens = 24;
  request.temperature = 0;
  if (!failed(sluice_engine_tokenize(engine, argv[2], strlen(argv[2]), 1, 0, ids, 4096, &num_ids)) && num_ids <= 4096 &&
      !failed(sluice_engine_submit(engine, ids, num_ids, &request, &id))) {
    result = stream(engine);
  }
  sluice_engine_close(engine);
  return result;
}
