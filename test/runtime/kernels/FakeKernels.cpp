// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the fake model as compiled code would export them: built into a shared object that
// tests put into packages. ABI: runtime/device/KernelAbi.h.
#include "runtime/device/KernelAbi.h"
#include "test/runtime/FakeModel.h"

using namespace sluice::fake;

namespace {

template <typename T> T *at(void *const *buffers, int index) {
  return static_cast<T *>(buffers[index]);
}

} // namespace

extern "C" {

// seq_start [seqs + 1], kv_length [seqs] -> row_seq [tokens], row_index [tokens]; cell = sequence
void fake_rows(const sluice_step_counts *, void *const *buffers, int64_t begin, int64_t end,
               void *) {
  const auto *seqStart = at<const int32_t>(buffers, 0);
  const auto *kvLength = at<const int32_t>(buffers, 1);
  for (int64_t s = begin; s < end; ++s) {
    const int32_t first = kvLength[s] - (seqStart[s + 1] - seqStart[s]);
    for (int32_t r = seqStart[s]; r < seqStart[s + 1]; ++r) {
      at<int32_t>(buffers, 2)[r] = static_cast<int32_t>(s);
      at<int32_t>(buffers, 3)[r] = first + r - seqStart[s];
    }
  }
}

// ids, row_seq, row_index [tokens], table [seqs, max_blocks] -> cache [blocks, kBlockInts]; cell =
// row
void fake_append(const sluice_step_counts *counts, void *const *buffers, int64_t begin, int64_t end,
                 void *) {
  for (int64_t r = begin; r < end; ++r) {
    const int32_t index = at<const int32_t>(buffers, 2)[r];
    const int64_t slot = index / static_cast<int32_t>(kBlockTokens);
    const int64_t seq = at<const int32_t>(buffers, 1)[r];
    const int64_t block = at<const int32_t>(buffers, 3)[seq * counts->max_blocks + slot];
    int32_t *cell = at<int32_t>(buffers, 4) + block * kBlockInts +
                    (index % static_cast<int32_t>(kBlockTokens)) * 2;
    cell[0] = at<const int32_t>(buffers, 0)[r];
    cell[1] = index;
  }
}

// row_seq, row_index [tokens], table, cache, salt and window (weights, one i32 each) -> hash
// [tokens]; cell = row. The hash goes through the scratch, so that a shared one would be seen.
void fake_attend(const sluice_step_counts *counts, void *const *buffers, int64_t begin, int64_t end,
                 void *scratch) {
  auto *hash = static_cast<volatile uint32_t *>(scratch);
  const auto salt = static_cast<uint32_t>(*at<const int32_t>(buffers, 4));
  const int32_t window = *at<const int32_t>(buffers, 5);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t seq = at<const int32_t>(buffers, 0)[r];
    const int32_t index = at<const int32_t>(buffers, 1)[r];
    const int32_t first = window == 0 || index + 1 < window ? 0 : index + 1 - window;
    *hash = kSeed;
    for (int32_t i = first; i <= index; ++i) {
      const int32_t slot = i / static_cast<int32_t>(kBlockTokens);
      const int64_t block = at<const int32_t>(buffers, 2)[seq * counts->max_blocks + slot];
      if (block < 0) {
        *hash = kPoison;
        break;
      }
      const int32_t *cell = at<const int32_t>(buffers, 3) + block * kBlockInts +
                            (i % static_cast<int32_t>(kBlockTokens)) * 2;
      if (cell[1] != i) {
        *hash = kPoison;
        break;
      }
      *hash = mix(*hash, cell[0], i, salt);
    }
    at<uint32_t>(buffers, 6)[r] = *hash;
  }
}

// hash0, hash1 [tokens], rows [logit_rows] -> logits [logit_rows, kVocab] f32; cell = (row,
// vocabulary half)
void fake_logits(const sluice_step_counts *, void *const *buffers, int64_t begin, int64_t end,
                 void *) {
  constexpr int64_t kHalf = kVocab / 2;
  for (int64_t cell = begin; cell < end; ++cell) {
    const int64_t r = cell / 2;
    const int32_t row = at<const int32_t>(buffers, 2)[r];
    for (int64_t v = cell % 2 * kHalf; v < (cell % 2 + 1) * kHalf; ++v) {
      at<float>(buffers, 3)[r * kVocab + v] =
          logit(at<const uint32_t>(buffers, 0)[row], at<const uint32_t>(buffers, 1)[row],
                static_cast<uint32_t>(v));
    }
  }
}

// -> marks [tokens, 2] i32: (which variant, row); cell = row
void fake_mark(const sluice_step_counts *, void *const *buffers, int64_t begin, int64_t end,
               void *) {
  for (int64_t r = begin; r < end; ++r) {
    at<int32_t>(buffers, 0)[r * 2] = 1;
    at<int32_t>(buffers, 0)[r * 2 + 1] = static_cast<int32_t>(r);
  }
}

void fake_mark_few(const sluice_step_counts *, void *const *buffers, int64_t begin, int64_t end,
                   void *) {
  for (int64_t r = begin; r < end; ++r) {
    at<int32_t>(buffers, 0)[r * 2] = 2;
    at<int32_t>(buffers, 0)[r * 2 + 1] = static_cast<int32_t>(r);
  }
}

} // extern "C"
