/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The binary interface between compiled kernels and the runtime (design.md 4). Plain C: the code generator emits calls to it,
   runtime/device makes them. Changing anything here raises kFormatVersion. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Actual counts of the running step; kernels read them here. Byte offsets: 0, 4, 8, 12, 16, 20. */
typedef struct sluice_step_counts {
  int32_t tokens;     /* rows of the step */
  int32_t seqs;       /* sequences of the step */
  int32_t logit_rows; /* rows whose logits are wanted */
  int32_t max_kv;     /* longest cache after the step, in tokens */
  int32_t max_blocks; /* row length of each block table */
  int32_t reserved;
} sluice_step_counts;

/* A kernel runs its cells [cell_begin, cell_end) of the grid (last dimension fastest). `buffers` are the addresses of the
   launch's buffers in order, each aligned to at least 64 bytes; `scratch` is the worker's own memory of the size that the
   function's manifest entry states, aligned to 64. A kernel allocates nothing, calls nothing and returns normally. */
typedef void (*sluice_kernel)(const sluice_step_counts *counts, void *const *buffers, int64_t cell_begin, int64_t cell_end,
                              void *scratch);

#ifdef __cplusplus
}
#endif
