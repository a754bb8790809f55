// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cache_append and attention over a paged, shuffled, partly stale cache against dense attention in
// f64.
#include <cmath>

#include "KernelHarness.h"

namespace sluicec::cpu {

namespace {

struct AttentionCase {
  int64_t heads, kvHeads, keyHead, valueHead;
  std::string element = "f32";
  int64_t window = 0, maskWindow = 0;
  double softCap = 0;
  bool sinks = false;
  int64_t blockTokens = 16, span = 64, chunk = 128;
  int64_t layers = 2, layer = 1;
  double scale = 0.2;
  int64_t tile = 1;

  std::string cacheType() const {
    return "!lm.cache<window = " + std::to_string(window) + ", element = " + element +
           ", kvHeads = " + std::to_string(kvHeads) + ", keyHead = " + std::to_string(keyHead) +
           ", valueHead = " + std::to_string(valueHead) + ", layers = " + std::to_string(layers) +
           ">";
  }
  int64_t blockElements() const { return layers * kvHeads * (keyHead + valueHead) * blockTokens; }

  std::string text() const {
    std::string k = rows("tokens", kvHeads * keyHead), v = rows("tokens", kvHeads * valueHead);
    std::string i = rows("tokens", 1, "i32"), table = rows("table", 1, "i32");
    std::string cache = rows("blocks", blockElements(), element),
                q = rows("tokens", heads * keyHead);
    std::string o = rows("tokens", heads * valueHead), s = fixedBuffer(heads, "f32");
    std::string common = "layout = " + cacheType() + ", block_tokens = " + number(blockTokens) +
                         ", layer = " + number(layer);
    std::string append =
        rowKernel("append", "tokens", {k, v, i, i, table, cache},
                  "kernel.cache_append %0, %1, %2, %3, %4, %5 {" + common + "} : " + k + ", " + v +
                      ", " + i + ", " + i + ", " + table + ", " + cache);
    std::string args = "%q: " + q + ", %rs: " + i + ", %ri: " + i + ", %t: " + table +
                       ", %c: " + cache + ", %o: " + o;
    std::string types = q + ", " + i + ", " + i + ", " + table + ", " + cache;
    if (sinks) {
      args += ", %s: " + s;
      types += ", " + s;
    }
    return append + "kernel.func @attention grid [#kernel.grid_dim<tokens * 1 + 0 tile " +
           std::to_string(tile) + ">, #kernel.grid_dim<fixed * 0 + " + std::to_string(kvHeads) +
           " tile 1>] {\n^bb0(" + args + "):\n  kernel.attention %q, %rs, %ri, %t, %c, %o " +
           (sinks ? "sinks %s " : "") + "{" + common + ", heads = " + number(heads) +
           ", scale = " + real(scale) + ", window = " + number(window) +
           ", mask_window = " + number(maskWindow) + ", soft_cap = " + real(softCap) +
           ", span = " + number(span) + ", chunk = " + number(chunk) + "} : " + types + ", " + o +
           "\n}\n";
  }
};

/// Sequences of these cache lengths; the last `rows` entries of each are this step's rows.
struct Batch {
  std::vector<int32_t> lengths, newRows;
};

/// Everything that a step reads, with the cache filled entry by entry through cache_append.
class PagedStep {
public:
  PagedStep(const AttentionCase &c, const Batch &batch, bool dropBlocks) : c(c) {
    int32_t longest = *std::max_element(batch.lengths.begin(), batch.lengths.end());
    counts = {0,
              static_cast<int32_t>(batch.lengths.size()),
              1,
              longest,
              static_cast<int32_t>((longest + c.blockTokens - 1) / c.blockTokens),
              0};
    fillTable(batch);
    for (size_t s = 0; s < batch.lengths.size(); ++s) {
      keys.push_back(randomFloats(batch.lengths[s] * c.kvHeads * c.keyHead, 100 + s));
      values.push_back(randomFloats(batch.lengths[s] * c.kvHeads * c.valueHead, 200 + s));
      for (int32_t r = batch.lengths[s] - batch.newRows[s]; r < batch.lengths[s]; ++r) {
        rowSeq.push_back(static_cast<int32_t>(s));
        rowIndex.push_back(r);
      }
    }
    counts.tokens = static_cast<int32_t>(rowSeq.size());
    query = randomFloats(rowSeq.size() * c.heads * c.keyHead, 7, 2);
    sinkValues = randomFloats(c.heads, 8, 2);
    if (dropBlocks) {
      dropUnseen(batch);
    }
  }

  AttentionCase c;
  sluice_step_counts counts;
  std::vector<std::vector<float>> keys, values; // per sequence [length, kv heads * head], as given
  std::vector<int32_t> table, keptTable, rowSeq, rowIndex;
  std::vector<float> query, sinkValues;
  int32_t poolBlocks = 0;

  /// Stale memory: bytes that are NaN in every element type.
  std::vector<char> emptyPool() const {
    size_t width = c.element == "f32" ? 4 : 2;
    return std::vector<char>(poolBlocks * c.blockElements() * width, static_cast<char>(0xFF));
  }

  std::vector<char> appendAll(CompiledKernels &kernels) {
    std::vector<char> pool = emptyPool(), tableBytes = bytesOf(table);
    for (size_t s = 0; s < keys.size(); ++s) {
      int32_t length = static_cast<int32_t>(values[s].size() / (c.kvHeads * c.valueHead));
      std::vector<int32_t> seq(length, static_cast<int32_t>(s)), index(length);
      for (int32_t i = 0; i < length; ++i) {
        index[i] = i;
      }
      std::vector<char> k = bytesOf(keys[s]), v = bytesOf(values[s]), sB = bytesOf(seq),
                        iB = bytesOf(index);
      sluice_step_counts all = counts;
      all.tokens = length;
      kernels.run("append", all, {&k, &v, &sB, &iB, &tableBytes, &pool}, 5);
    }
    return pool;
  }

  std::vector<float> attend(CompiledKernels &kernels, std::vector<char> pool,
                            const std::vector<int32_t> &blocks) {
    std::vector<char> q = bytesOf(query), s = bytesOf(rowSeq), i = bytesOf(rowIndex),
                      t = bytesOf(blocks);
    std::vector<char> sinkBytes = bytesOf(sinkValues),
                      out = unwritten<float>(rowSeq.size() * c.heads * c.valueHead);
    std::vector<std::vector<char> *> buffers{&q, &s, &i, &t, &pool, &out};
    if (c.sinks) {
      buffers.push_back(&sinkBytes);
    }
    kernels.run("attention", counts, buffers, 3);
    return valuesOf<float>(out);
  }

  /// Dense softmax attention in f64 over the rounded keys and values.
  std::vector<double> reference() const {
    std::vector<double> out;
    for (size_t r = 0; r < rowSeq.size(); ++r) {
      for (int64_t h = 0; h < c.heads; ++h) {
        referenceHead(static_cast<int64_t>(r), h, out);
      }
    }
    return out;
  }

private:
  void fillTable(const Batch &batch) {
    table.assign(batch.lengths.size() * counts.max_blocks, -1);
    // Blocks in an order that is neither ascending nor by sequence.
    for (int32_t b = counts.max_blocks - 1; b >= 0; --b) {
      for (size_t s = 0; s < batch.lengths.size(); ++s) {
        if (b * c.blockTokens < batch.lengths[s]) {
          table[s * counts.max_blocks + b] = poolBlocks++;
        }
      }
    }
    keptTable = table;
  }

  /// Blocks that no row of the step sees leave the table, as a windowed cache drops them.
  void dropUnseen(const Batch &batch) {
    for (size_t s = 0; s < batch.lengths.size(); ++s) {
      int64_t firstSeen = std::max<int64_t>(0, batch.lengths[s] - batch.newRows[s] + 1 - c.window);
      for (int64_t b = 0; (b + 1) * c.blockTokens <= firstSeen; ++b) {
        keptTable[s * counts.max_blocks + b] = -1;
      }
    }
  }

  void referenceHead(int64_t r, int64_t h, std::vector<double> &out) const {
    int64_t g = h / (c.heads / c.kvHeads), last = rowIndex[r],
            window = std::max(c.window, c.maskWindow);
    int64_t first = window ? std::max<int64_t>(0, last + 1 - window) : 0;
    std::vector<float> k = keys[rowSeq[r]], v = values[rowSeq[r]];
    encode(k, c.element);
    encode(v, c.element);
    std::vector<double> scores;
    double largest = c.sinks ? sinkValues[h] : -INFINITY;
    for (int64_t t = first; t <= last; ++t) {
      double dot = 0;
      for (int64_t d = 0; d < c.keyHead; ++d) {
        dot += static_cast<double>(query[(r * c.heads + h) * c.keyHead + d]) *
               k[(t * c.kvHeads + g) * c.keyHead + d];
      }
      dot *= c.scale;
      scores.push_back(c.softCap > 0 ? c.softCap * std::tanh(dot / c.softCap) : dot);
      largest = std::max(largest, scores.back());
    }
    double sum = c.sinks ? std::exp(sinkValues[h] - largest) : 0;
    std::vector<double> o(c.valueHead, 0.0);
    for (int64_t t = first; t <= last; ++t) {
      double w = std::exp(scores[t - first] - largest);
      sum += w;
      for (int64_t d = 0; d < c.valueHead; ++d) {
        o[d] += w * v[(t * c.kvHeads + g) * c.valueHead + d];
      }
    }
    for (double x : o) {
      out.push_back(x / sum);
    }
  }
};

void checkAttention(const AttentionCase &c, const Batch &batch) {
  PagedStep step(c, batch, c.window > 0);
  std::vector<double> expected = step.reference();
  std::vector<float> first;
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    CompiledKernels kernels(c.text(), target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> pool = step.appendAll(kernels);
    std::vector<float> actual = step.attend(kernels, pool, step.keptTable);
    // Scores of up to 6 are right to 1e-6, so are weights; values are below 1.
    EXPECT_TRUE(isNear(actual, expected, 3e-6));
    first = first.empty() ? actual : first;
    EXPECT_TRUE(sameBits(actual, first)) << "targets differ";
  }
}

const Batch kMixed{{1, 16, 17, 70, 200, 333}, {1, 3, 1, 70, 5, 2}};

} // namespace

TEST(CacheAppend, RoundsAndTransposes) {
  for (const char *element : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(element);
    AttentionCase c{2, 2, 20, 24, element};
    PagedStep step(c, {{37, 5}, {1, 1}}, false);
    step.values[0][3] = std::nanf("");
    step.values[0][4] = 1e30f; // inf in f16
    step.values[0][5] = 1e-6f; // subnormal in f16
    std::vector<float> k, v;
    for (const std::string &target : runnableTargets()) {
      CompiledKernels kernels(c.text(), target);
      ASSERT_TRUE(kernels.isLoaded());
      std::vector<char> pool = step.appendAll(kernels), expected = step.emptyPool();
      size_t width = c.element == "f32" ? 4 : 2;
      for (int64_t s = 0; s < 2; ++s) {
        k = step.keys[s], v = step.values[s];
        std::vector<char> kB = encode(k, element), vB = encode(v, element);
        for (int64_t t = 0; t < (s ? 5 : 37); ++t) {
          for (int64_t g = 0; g < 2; ++g) {
            int64_t head = step.table[s * step.counts.max_blocks + t / 16] * c.blockElements() +
                           (2 + g) * 44 * 16;
            for (int64_t d = 0; d < 20; ++d) {
              std::memcpy(&expected[(head + d * 16 + t % 16) * width],
                          &kB[((t * 2 + g) * 20 + d) * width], width);
            }
            std::memcpy(&expected[(head + 20 * 16 + t % 16 * 24) * width],
                        &vB[(t * 2 + g) * 24 * width], 24 * width);
          }
        }
      }
      // NaN payloads may differ: compare what they mean.
      if (c.element == "f32") {
        EXPECT_TRUE(sameBits(pool, expected));
      } else {
        std::vector<uint16_t> a = valuesOf<uint16_t>(pool), e = valuesOf<uint16_t>(expected);
        for (size_t i = 0; i < a.size(); ++i) {
          float x = c.element == "f16" ? fromF16(a[i]) : fromBf16(a[i]),
                y = c.element == "f16" ? fromF16(e[i]) : fromBf16(e[i]);
          ASSERT_TRUE(a[i] == e[i] || (std::isnan(x) && std::isnan(y)))
              << i << ": " << x << " and " << y;
        }
      }
    }
  }
}

TEST(Attention, GroupedHeads) {
  checkAttention({8, 2, 64, 64}, kMixed);
  checkAttention({7, 1, 32, 32}, kMixed);
}
TEST(Attention, OneHeadEachOfOddSizes) {
  checkAttention({3, 3, 20, 40}, kMixed);
  checkAttention({2, 1, 16, 10}, kMixed);
}
TEST(Attention, ShortCacheElements) {
  checkAttention({4, 2, 32, 48, "bf16"}, kMixed);
  checkAttention({4, 2, 32, 33, "f16"}, kMixed);
}
TEST(Attention, Window) {
  for (int64_t window : {1, 50, 100}) {
    AttentionCase c{4, 2, 32, 32};
    c.window = window;
    checkAttention(c, kMixed);
  }
}
TEST(Attention, SinksAndSoftCap) {
  AttentionCase c{4, 2, 32, 32};
  c.sinks = true;
  c.softCap = 3;
  checkAttention(c, kMixed);
}
TEST(Attention, LargeBlocks) {
  AttentionCase c{4, 2, 32, 32};
  c.blockTokens = 32;
  checkAttention(c, kMixed);
  c.blockTokens = 128;
  checkAttention(c, kMixed);
}

TEST(Attention, WindowAndMaskHaveTheSameBits) {
  AttentionCase skipping{4, 2, 32, 32}, masking = skipping;
  skipping.window = masking.maskWindow = 40;
  PagedStep a(skipping, kMixed, true), b(masking, kMixed, false);
  for (const std::string &target : runnableTargets()) {
    CompiledKernels ka(skipping.text(), target), kb(masking.text(), target);
    ASSERT_TRUE(ka.isLoaded() && kb.isLoaded());
    EXPECT_TRUE(sameBits(a.attend(ka, a.appendAll(ka), a.keptTable),
                         b.attend(kb, b.appendAll(kb), b.table)));
  }
}

TEST(Attention, TilesOfRowsHaveTheSameBits) {
  for (AttentionCase c : {AttentionCase{4, 2, 32, 32, "bf16"}, AttentionCase{3, 1, 20, 24},
                          AttentionCase{2, 2, 16, 16}}) {
    for (int64_t window : {0, 40}) {
      SCOPED_TRACE(testing::Message() << c.heads << " heads, window " << window);
      c.window = window;
      AttentionCase tiled = c;
      tiled.tile = 7;
      PagedStep step(c, kMixed, window > 0);
      for (const std::string &target : runnableTargets()) {
        CompiledKernels one(c.text(), target), seven(tiled.text(), target);
        ASSERT_TRUE(one.isLoaded() && seven.isLoaded());
        std::vector<char> pool = step.appendAll(one);
        EXPECT_TRUE(sameBits(step.attend(seven, pool, step.keptTable),
                             step.attend(one, pool, step.keptTable)));
      }
    }
  }
}

TEST(Attention, RowsDoNotDependOnCompany) {
  AttentionCase c{4, 2, 32, 32, "bf16"};
  PagedStep together(c, {{150, 90}, {100, 1}}, false), alone(c, {{150}, {1}}, false);
  int64_t row = 4 * 32;
  alone.query.assign(together.query.begin() + 99 * row, together.query.begin() + 100 * row);
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(c.text(), target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<float> all = together.attend(kernels, together.appendAll(kernels), together.table);
    std::vector<float> one = alone.attend(kernels, alone.appendAll(kernels), alone.table);
    EXPECT_TRUE(sameBits(one, {all.begin() + 99 * row, all.begin() + 100 * row}));
  }
}

TEST(Attention, RefusesBlocksThatAreNoMultipleOf16) {
  AttentionCase c{4, 2, 32, 32};
  c.blockTokens = 8;
  llvm::Expected<CpuTarget> target = CpuTarget::parse("x86-64-v3");
  ASSERT_TRUE(static_cast<bool>(target));
  std::string errors;
  EXPECT_TRUE(mlir::failed(compileText(c.text(), *target, {}, errors)));
  EXPECT_NE(errors.find("expected multiples of 16"), std::string::npos) << errors;
}

} // namespace sluicec::cpu
