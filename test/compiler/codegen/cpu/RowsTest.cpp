// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Row-wise templates (embedding, norms, rope, gates, moves) against scalar references.
#include <cmath>
#include <functional>

#include "KernelHarness.h"

namespace sluicec::cpu {

namespace {

const char *const kGateKinds[] = {"silu", "gelu_tanh", "gelu_erf", "relu"};

/// Runs `text`'s kernel @f on every target and hands the output buffer's values to `check`.
template <typename T>
void onTargets(const std::string &text, sluice_step_counts counts,
               std::vector<std::vector<char>> inputs, size_t outputCount,
               const std::function<void(const std::vector<T> &)> &check) {
  std::vector<T> first;
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> out = unwritten<T>(outputCount);
    std::vector<std::vector<char> *> buffers;
    for (std::vector<char> &input : inputs) {
      buffers.push_back(&input);
    }
    buffers.push_back(&out);
    kernels.run("f", counts, buffers, 2);
    std::vector<T> actual = valuesOf<T>(out);
    check(actual);
    first = first.empty() ? actual : first;
    EXPECT_TRUE(sameBits(actual, first)) << "targets differ";
  }
}

sluice_step_counts tokens(int32_t n) { return {n, 1, 1, 1, 1, 0}; }

} // namespace

TEST(Embedding, CopiesRows) {
  for (const char *element : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(element);
    int64_t features = 83;
    std::vector<std::string> types{rows("tokens", 1, "i32"), fixedBuffer(9 * features, element),
                                   rows("tokens", features)};
    std::string text = rowKernel("f", "tokens", types,
                                 "kernel.embedding %0, %1, %2 {features = 83 : i64} : " + types[0] +
                                     ", " + types[1] + ", " + types[2]);
    std::vector<float> table = randomFloats(9 * features, 1), expected;
    std::vector<char> tableBytes = encode(table, element);
    std::vector<int32_t> ids{3, 0, 8, 3, 1};
    for (int32_t id : ids) {
      expected.insert(expected.end(), table.begin() + id * features,
                      table.begin() + (id + 1) * features);
    }
    onTargets<float>(
        text, tokens(5), {bytesOf(ids), tableBytes}, expected.size(),
        [&](const std::vector<float> &actual) { EXPECT_TRUE(sameBits(actual, expected)); });
  }
}

TEST(RmsNorm, WholeRowsAndGroups) {
  struct Case {
    int64_t features, groups;
  };
  for (Case c : {Case{300, 1}, Case{64, 1}, Case{5, 1}, Case{192, 4}, Case{120, 3}}) {
    SCOPED_TRACE(c.features);
    int64_t group = c.features / c.groups;
    std::string t = rows("tokens", c.features), w = fixedBuffer(group, "f32");
    std::string text = rowKernel("f", "tokens", {t, w, t},
                                 "kernel.rms_norm %0, %1, %2 {features = " + number(c.features) +
                                     ", groups = " + number(c.groups) +
                                     ", epsilon = 1.0e-5 : f64} : " + t + ", " + w + ", " + t);
    std::vector<float> x = randomFloats(3 * c.features, 1, 3), weight = randomFloats(group, 2);
    std::vector<double> expected(x.size());
    for (size_t start = 0; start < x.size(); start += group) {
      double squares = 0;
      for (int64_t i = 0; i < group; ++i) {
        squares += static_cast<double>(x[start + i]) * x[start + i];
      }
      for (int64_t i = 0; i < group; ++i) {
        expected[start + i] = x[start + i] / std::sqrt(squares / group + 1e-5) * weight[i];
      }
    }
    // A sum of at most 300 squares in f32, a root, a division, two products: a few units of 6e-8.
    onTargets<float>(text, tokens(3), {bytesOf(x), bytesOf(weight)}, x.size(),
                     [&](const std::vector<float> &actual) {
                       EXPECT_TRUE(isNear(actual, expected, 1e-8, 1e-6));
                     });
  }
}

TEST(RmsNorm, AddsTheResidualAndGivesTheSum) {
  std::string t = rows("tokens", 90), w = fixedBuffer(90, "f32");
  std::string text = rowKernel("f", "tokens", {t, w, t, t, t},
                               "kernel.rms_norm %0, %1, %2 residual %3 sum %4 {features = 90 : "
                               "i64, groups = 1 : i64, epsilon = 1.0e-6 : f64} : " +
                                   t + ", " + w + ", " + t + ", " + t + ", " + t);
  std::vector<float> x = randomFloats(270, 1), weight = randomFloats(90, 2),
                     residual = randomFloats(270, 3), sum;
  std::vector<double> expected(270);
  for (size_t i = 0; i < x.size(); ++i) {
    sum.push_back(x[i] + residual[i]);
  }
  for (int64_t r = 0; r < 3; ++r) {
    double squares = 0;
    for (int64_t i = 0; i < 90; ++i) {
      squares += static_cast<double>(sum[r * 90 + i]) * sum[r * 90 + i];
    }
    for (int64_t i = 0; i < 90; ++i) {
      expected[r * 90 + i] = sum[r * 90 + i] / std::sqrt(squares / 90 + 1e-6) * weight[i];
    }
  }
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> xB = bytesOf(x), wB = bytesOf(weight), rB = bytesOf(residual);
    std::vector<char> out = unwritten<float>(270), sumB = unwritten<float>(270);
    kernels.run("f", tokens(3), {&xB, &wB, &out, &rB, &sumB});
    EXPECT_TRUE(sameBits(valuesOf<float>(sumB), sum));
    EXPECT_TRUE(isNear(valuesOf<float>(out), expected, 1e-8, 1e-6)); // as above
  }
}

TEST(LayerNorm, SubtractsTheMean) {
  for (int64_t n : {77, 256}) {
    std::string t = rows("tokens", n), w = fixedBuffer(n, "f32");
    std::string text =
        rowKernel("f", "tokens", {t, w, w, t},
                  "kernel.layer_norm %0, %1, %3 bias %2 {features = " + number(n) +
                      ", epsilon = 1.0e-5 : f64} : " + t + ", " + w + ", " + w + ", " + t);
    std::vector<float> x = randomFloats(2 * n, 1, 2), weight = randomFloats(n, 2),
                       bias = randomFloats(n, 3);
    for (float &v : x) {
      v += 10; // a mean far from 0
    }
    std::vector<double> expected(x.size());
    for (int64_t r = 0; r < 2; ++r) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < n; ++i) {
        mean += x[r * n + i] / static_cast<double>(n);
      }
      for (int64_t i = 0; i < n; ++i) {
        variance += std::pow(x[r * n + i] - mean, 2) / static_cast<double>(n);
      }
      for (int64_t i = 0; i < n; ++i) {
        expected[r * n + i] =
            (x[r * n + i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
      }
    }
    // The mean of values near 10 is right to 1e-6, so are the differences.
    onTargets<float>(
        text, tokens(2), {bytesOf(x), bytesOf(weight), bytesOf(bias)}, x.size(),
        [&](const std::vector<float> &actual) { EXPECT_TRUE(isNear(actual, expected, 3e-6)); });
  }
}

TEST(RopeTable, IsExactForLargePositions) {
  std::string frequencies;
  std::vector<double> values;
  for (int64_t j = 0; j < 36; ++j) {
    values.push_back(std::pow(500000.0, -static_cast<double>(j) / 36));
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17e", values.back());
    frequencies += (j ? ", " : "") + std::string(digits);
  }
  std::string p = rows("tokens", 1, "i32"), t = rows("tokens", 36);
  std::string text =
      rowKernel("f", "tokens", {p, t, t},
                "kernel.rope_table %0, %1, %2 {frequencies = array<f64: " + frequencies +
                    ">, scale = 0.5 : f64} : " + p + ", " + t + ", " + t);
  std::vector<int32_t> positions{0, 1, 2, 17, 4095, 131071, 1000003, 16777215};
  std::vector<double> cosines, sines;
  for (int32_t position : positions) {
    for (double frequency : values) {
      float angle = static_cast<float>(position) * static_cast<float>(frequency);
      cosines.push_back(0.5 * std::cos(static_cast<double>(angle)));
      sines.push_back(0.5 * std::sin(static_cast<double>(angle)));
    }
  }
  std::vector<float> first;
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> pB = bytesOf(positions), c = unwritten<float>(cosines.size()),
                      s = unwritten<float>(sines.size());
    kernels.run("f", tokens(8), {&pB, &c, &s}, 3);
    // One rounding to f32 of values below 0.5.
    EXPECT_TRUE(isNear(valuesOf<float>(c), cosines, 3.1e-8));
    EXPECT_TRUE(isNear(valuesOf<float>(s), sines, 3.1e-8));
    first = first.empty() ? valuesOf<float>(s) : first;
    EXPECT_TRUE(sameBits(valuesOf<float>(s), first)) << "targets differ";
  }
}

TEST(Rope, RotatesHalvesAndInterleavedPairs) {
  struct Case {
    int64_t heads, head, pairs;
    bool interleaved;
  };
  for (Case c : {Case{3, 64, 32, false}, Case{2, 80, 20, false}, Case{3, 64, 32, true},
                 Case{2, 50, 20, true}, Case{2, 10, 5, true}, Case{1, 7, 3, false}}) {
    SCOPED_TRACE(testing::Message() << c.head << " " << c.pairs << " " << c.interleaved);
    int64_t features = c.heads * c.head;
    std::string t = rows("tokens", features), a = rows("tokens", c.pairs);
    std::string text = rowKernel("f", "tokens", {t, a, a, t},
                                 "kernel.rope %0, %1, %2, %3 {heads = " + number(c.heads) +
                                     ", head = " + number(c.head) + ", pairs = " + number(c.pairs) +
                                     (c.interleaved ? ", interleaved" : "") + "} : " + t + ", " +
                                     a + ", " + a + ", " + t);
    std::vector<float> x = randomFloats(4 * features, 1), cosine = randomFloats(4 * c.pairs, 2),
                       sine = randomFloats(4 * c.pairs, 3);
    std::vector<float> expected = x;
    for (int64_t r = 0; r < 4; ++r) {
      for (int64_t h = 0; h < c.heads; ++h) {
        for (int64_t j = 0; j < c.pairs; ++j) {
          int64_t start = r * features + h * c.head;
          int64_t i0 = start + (c.interleaved ? 2 * j : j),
                  i1 = start + (c.interleaved ? 2 * j + 1 : j + c.pairs);
          float cs = cosine[r * c.pairs + j], sn = sine[r * c.pairs + j];
          volatile float ac = x[i0] * cs, bs = x[i1] * sn, bc = x[i1] * cs, as = x[i0] * sn;
          expected[i0] = ac - bs;
          expected[i1] = bc + as;
        }
      }
    }
    onTargets<float>(
        text, tokens(4), {bytesOf(x), bytesOf(cosine), bytesOf(sine)}, x.size(),
        [&](const std::vector<float> &actual) { EXPECT_TRUE(sameBits(actual, expected)); });
  }
}

TEST(RepeatHeads, RepeatsEachInARow) {
  std::string in = rows("tokens", 60), out = rows("tokens", 180);
  std::string text = rowKernel(
      "f", "tokens", {in, out},
      "kernel.repeat_heads %0, %1 {heads = 3 : i64, head = 20 : i64, repeats = 3 : i64} : " + in +
          ", " + out);
  std::vector<float> x = randomFloats(120, 1), expected;
  for (int64_t h = 0; h < 6; ++h) {
    for (int64_t r = 0; r < 3; ++r) {
      expected.insert(expected.end(), x.begin() + h * 20, x.begin() + (h + 1) * 20);
    }
  }
  onTargets<float>(
      text, tokens(2), {bytesOf(x)}, expected.size(),
      [&](const std::vector<float> &actual) { EXPECT_TRUE(sameBits(actual, expected)); });
}

TEST(GatedActivation, HasAllKindsAndLimits) {
  for (const char *kind : kGateKinds) {
    for (bool clamped : {false, true}) {
      SCOPED_TRACE(testing::Message() << kind << " " << clamped);
      double alpha = clamped ? 1.702 : 1, beta = clamped ? 1 : 0, limit = clamped ? 7 : INFINITY;
      std::string t = rows("tokens", 101);
      std::string text =
          rowKernel("f", "tokens", {t, t, t},
                    "kernel.gated_activation %0, %1, %2 {features = 101 : i64, activation = "
                    "#lm.gated<kind = " +
                        std::string(kind) + ", alpha = " + real(alpha) + ", beta = " + real(beta) +
                        ", limit = " + real(limit) + ">} : " + t + ", " + t + ", " + t);
      std::vector<float> gate = randomFloats(202, 1, 12), up = randomFloats(202, 2, 12);
      std::vector<double> expected;
      for (size_t i = 0; i < gate.size(); ++i) {
        double g = std::min<double>(gate[i], limit),
               u = std::max(std::min<double>(up[i], limit), -limit);
        std::string name = kind;
        double v = name == "silu" ? g / (1 + std::exp(-alpha * g))
                   : name == "gelu_tanh"
                       ? g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)))
                   : name == "gelu_erf" ? g / 2 * (1 + std::erf(g / std::sqrt(2.0)))
                                        : std::max(g, 0.0);
        expected.push_back(v * (u + beta));
      }
      // GELU's 1 + tanh cancels for negative gates: an absolute error of 6e-8, times |g u| / 2
      // <= 78.
      onTargets<float>(text, tokens(2), {bytesOf(gate), bytesOf(up)}, 202,
                       [&](const std::vector<float> &actual) {
                         EXPECT_TRUE(isNear(actual, expected, 1e-5, 2e-6));
                       });
    }
  }
}

TEST(LogitRows, GathersRows) {
  std::string x = rows("tokens", 40), r = rows("logit_rows", 1, "i32"), o = rows("logit_rows", 40);
  std::string text =
      rowKernel("f", "logit_rows", {x, r, o},
                "kernel.logit_rows %0, %1, %2 {features = 40 : i64} : " + x + ", " + r + ", " + o);
  std::vector<float> values = randomFloats(200, 1), expected;
  std::vector<int32_t> chosen{4, 0, 4};
  for (int32_t row : chosen) {
    expected.insert(expected.end(), values.begin() + row * 40, values.begin() + (row + 1) * 40);
  }
  onTargets<float>(
      text, {5, 1, 3, 1, 1, 0}, {bytesOf(values), bytesOf(chosen)}, 120,
      [&](const std::vector<float> &actual) { EXPECT_TRUE(sameBits(actual, expected)); });
}

TEST(RowIndex, CountsFromTheCache) {
  std::string start = "!kernel.buffer<seqs * 1 + 1 x i32>", kv = rows("seqs", 1, "i32"),
              o = rows("tokens", 1, "i32");
  std::string text =
      rowKernel("f", "seqs", {start, kv, o, o},
                "kernel.row_index %0, %1, %2, %3 : " + start + ", " + kv + ", " + o + ", " + o);
  std::vector<int32_t> starts{0, 3, 4, 9}, lengths{3, 20, 105};
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> s = bytesOf(starts), l = bytesOf(lengths), seq = unwritten<int32_t>(9),
                      index = unwritten<int32_t>(9);
    kernels.run("f", {9, 3, 1, 105, 8, 0}, {&s, &l, &seq, &index}, 1);
    EXPECT_TRUE(sameBits(valuesOf<int32_t>(seq), {0, 0, 0, 1, 2, 2, 2, 2, 2}));
    EXPECT_TRUE(sameBits(valuesOf<int32_t>(index), {0, 1, 2, 19, 100, 101, 102, 103, 104}));
  }
}

} // namespace sluicec::cpu
