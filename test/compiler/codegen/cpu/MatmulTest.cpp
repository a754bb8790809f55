// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// matmul and grouped_matmul against one scalar chain of fused multiply-adds: the same bits on every
// target.
#include <cmath>

#include "KernelHarness.h"

namespace sluicec::cpu {

namespace {

struct MatmulCase {
  int64_t n, k, width = 64, tile = 48;
  std::string element = "f32";
  bool bias = false, residual = false, gated = false;

  int64_t outWidth() const { return gated ? width / 2 : width; }
  int64_t panels() const { return (n + outWidth() - 1) / outWidth(); }
  int64_t weightElements() const { return panels() * k * width; }

  std::string text() const {
    std::string xT = rows("tokens", k), wT = fixedBuffer(weightElements(), element);
    std::string oT = rows("tokens", n), bT = fixedBuffer(gated ? 2 * n : n, "f32");
    std::string args = "%x: " + xT + ", %w: " + wT + ", %o: " + oT, types = xT + ", " + wT;
    std::string clause;
    if (bias) {
      args += ", %b: " + bT;
      clause += " bias %b";
      types += ", " + bT;
    }
    if (residual) {
      args += ", %r: " + oT;
      clause += " residual %r";
      types += ", " + oT;
    }
    types += ", " + oT;
    std::string layout = gated ? "gated_panel" : "panel";
    std::string attrs = "{n = " + number(n) + ", k = " + number(k) + ", layout = #kernel.layout<" +
                        layout + ", " + std::to_string(width) + ">";
    if (gated) {
      attrs += ", gated = #lm.gated<kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = "
               "0x7FF0000000000000 : f64>";
    }
    return "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile " + std::to_string(tile) +
           ">, #kernel.grid_dim<fixed * 0 + " + std::to_string(panels()) + " tile 1>] {\n^bb0(" +
           args + "):\n  kernel.matmul %x, %w, %o" + clause + " " + attrs + "} : " + types +
           "\n}\n";
  }
};

/// What every element is: one chain over k, then bias, (gate,) residual. Gated: only before the
/// gate.
float chain(const float *x, const float *w, int64_t k) {
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    sum = std::fma(x[i], w[i], sum);
  }
  return sum;
}

void checkMatmul(const MatmulCase &c, std::vector<int64_t> rowCounts) {
  int64_t maxRows = 0;
  for (int64_t r : rowCounts) {
    maxRows = std::max(maxRows, r);
  }
  int64_t columns = c.gated ? 2 * c.n : c.n;
  std::vector<float> x = randomFloats(maxRows * c.k, 1), w = randomFloats(columns * c.k, 2);
  std::vector<float> bias = randomFloats(columns, 3), residual = randomFloats(maxRows * c.n, 4);
  encode(w, c.element);
  std::vector<float> packed =
      c.gated ? packGated(w, c.n, c.k, c.width) : packPanels(w, c.n, c.k, c.width);
  std::vector<char> wBytes = encode(packed, c.element), bBytes = bytesOf(bias);
  std::vector<float> first; // of the first target, all rows
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    CompiledKernels kernels(c.text(), target);
    ASSERT_TRUE(kernels.isLoaded());
    for (int64_t count : rowCounts) {
      SCOPED_TRACE(std::to_string(count) + " rows");
      std::vector<char> xBytes = bytesOf(std::vector<float>(x.begin(), x.begin() + count * c.k));
      std::vector<char> rBytes =
          bytesOf(std::vector<float>(residual.begin(), residual.begin() + count * c.n));
      std::vector<char> out = unwritten<float>(count * c.n);
      std::vector<std::vector<char> *> buffers{&xBytes, &wBytes, &out};
      if (c.bias) {
        buffers.push_back(&bBytes);
      }
      if (c.residual) {
        buffers.push_back(&rBytes);
      }
      sluice_step_counts counts{static_cast<int32_t>(count), 1, 1, 1, 1, 0};
      kernels.run("f", counts, buffers, count % 2 ? 1 : 3);
      std::vector<float> actual = valuesOf<float>(out), expected(count * c.n);
      std::vector<double> expectedGated(count * c.n);
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t j = 0; j < c.n; ++j) {
          float v = chain(&x[r * c.k], &w[j * c.k], c.k);
          v = c.bias ? v + bias[j] : v;
          if (c.gated) {
            float up = chain(&x[r * c.k], &w[(c.n + j) * c.k], c.k);
            up = c.bias ? up + bias[c.n + j] : up;
            expectedGated[r * c.n + j] = v / (1 + std::exp(-static_cast<double>(v))) * up;
          }
          expected[r * c.n + j] = c.residual ? v + residual[r * c.n + j] : v;
        }
      }
      if (c.gated) {
        // exp is right to about an ulp, then a division and two products.
        EXPECT_TRUE(isNear(actual, expectedGated, 1e-7, 1e-6));
      } else {
        EXPECT_TRUE(sameBits(actual, expected));
      }
      if (count == maxRows) {
        first = first.empty() ? actual : first;
        EXPECT_TRUE(sameBits(actual, first)) << "targets differ";
      }
    }
  }
}

} // namespace

TEST(Matmul, HasOneChainForAnyNumberOfRows) {
  checkMatmul({128, 300}, {1, 2, 3, 4, 5, 6, 7, 11, 13, 47, 48, 49, 100});
}

TEST(Matmul, ExtendsBf16) { checkMatmul({192, 257, 64, 48, "bf16"}, {1, 2, 5, 6, 12, 13, 48, 61}); }

TEST(Matmul, ExtendsF16) { checkMatmul({64, 130, 64, 48, "f16"}, {1, 3, 12, 20}); }

TEST(Matmul, AddsBiasAndResidualAndStopsAtTheLastColumn) {
  MatmulCase c{83, 64};
  c.bias = c.residual = true;
  checkMatmul(c, {1, 7, 49});
  c.n = 5;
  checkMatmul(c, {1, 2});
}

TEST(Matmul, TakesNarrowPanelsAndOneK) {
  checkMatmul({40, 1, 16, 5}, {1, 9});
  checkMatmul({40, 33, 32, 1, "bf16"}, {1, 4});
}

TEST(Matmul, GatesPanels) {
  MatmulCase c{70, 96};
  c.gated = true;
  checkMatmul(c, {1, 6, 50});
  c.bias = c.residual = false;
  c.bias = true;
  c.element = "bf16";
  checkMatmul(c, {1, 50});
}

namespace {

struct GroupedCase {
  int64_t experts, topK, n, k, tile = 32;
  std::string element = "f32";
  bool perChoice = false, gated = false, bias = false;
  static constexpr int64_t kWidth = 64;

  int64_t outWidth() const { return gated ? kWidth / 2 : kWidth; }
  int64_t panels() const { return (n + outWidth() - 1) / outWidth(); }

  std::string text() const {
    std::string xT = rows("tokens", perChoice ? topK * k : k), oT = rows("tokens", topK * n);
    std::string wT = fixedBuffer(experts * panels() * k * kWidth, element);
    std::string orderT = rows("tokens", topK, "i32"), startsT = fixedBuffer(experts + 1, "i32");
    std::string bT = fixedBuffer(experts * n * (gated ? 2 : 1), "f32");
    std::string attrs = "{experts = " + number(experts) + ", top_k = " + number(topK) +
                        ", n = " + number(n) + ", k = " + number(k) + ", layout = #kernel.layout<" +
                        (gated ? "gated_panel" : "panel") + ", 64>" +
                        (perChoice ? ", per_choice" : "");
    if (gated) {
      attrs += ", gated = #lm.gated<kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = "
               "0x7FF0000000000000 : f64>";
    }
    return "kernel.func @f grid [#kernel.grid_dim<tokens * " + std::to_string(topK) + " + " +
           std::to_string(experts * tile) + " tile " + std::to_string(tile) +
           ">, #kernel.grid_dim<fixed * 0 + " + std::to_string(panels()) +
           " tile 1>] {\n^bb0(%x: " + xT + ", %w: " + wT + ", %order: " + orderT +
           ", %starts: " + startsT + ", %o: " + oT + (bias ? ", %b: " + bT : "") +
           "):\n  kernel.grouped_matmul %x, %w, %order, %starts, %o" + (bias ? " bias %b " : " ") +
           attrs + "} : " + xT + ", " + wT + ", " + (bias ? bT + ", " : "") + orderT + ", " +
           startsT + ", " + oT + "\n}\n";
  }
};

/// ids [tokens, k] -> (order, starts), the plan that expert_plan makes.
std::pair<std::vector<int32_t>, std::vector<int32_t>> planOf(const std::vector<int32_t> &ids,
                                                             int64_t experts) {
  std::vector<int32_t> order, starts{0};
  for (int32_t e = 0; e < experts; ++e) {
    for (size_t c = 0; c < ids.size(); ++c) {
      if (ids[c] == e) {
        order.push_back(static_cast<int32_t>(c));
      }
    }
    starts.push_back(static_cast<int32_t>(order.size()));
  }
  return {order, starts};
}

void checkGrouped(const GroupedCase &c, const std::vector<int32_t> &ids, int64_t cellsPerCall) {
  int64_t choices = static_cast<int64_t>(ids.size()), tokens = choices / c.topK;
  int64_t columns = c.gated ? 2 * c.n : c.n;
  std::vector<float> x = randomFloats((c.perChoice ? choices : tokens) * c.k, 5);
  std::vector<float> w = randomFloats(c.experts * columns * c.k, 6),
                     bias = randomFloats(c.experts * columns, 7);
  encode(w, c.element);
  std::vector<float> packed;
  for (int64_t e = 0; e < c.experts; ++e) {
    std::vector<float> one(w.begin() + e * columns * c.k, w.begin() + (e + 1) * columns * c.k);
    std::vector<float> panels =
        c.gated ? packGated(one, c.n, c.k, 64) : packPanels(one, c.n, c.k, 64);
    packed.insert(packed.end(), panels.begin(), panels.end());
  }
  auto [order, starts] = planOf(ids, c.experts);
  std::vector<char> xBytes = bytesOf(x), wBytes = encode(packed, c.element),
                    orderBytes = bytesOf(order);
  std::vector<char> startBytes = bytesOf(starts), biasBytes = bytesOf(bias);
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    CompiledKernels kernels(c.text(), target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> out = unwritten<float>(choices * c.n);
    std::vector<std::vector<char> *> buffers{&xBytes, &wBytes, &orderBytes, &startBytes, &out};
    if (c.bias) {
      buffers.push_back(&biasBytes);
    }
    kernels.run("f", {static_cast<int32_t>(tokens), 1, 1, 1, 1, 0}, buffers, cellsPerCall);
    std::vector<float> actual = valuesOf<float>(out), expected(choices * c.n);
    std::vector<double> expectedGated(choices * c.n);
    for (int64_t choice = 0; choice < choices; ++choice) {
      int64_t e = ids[choice], row = c.perChoice ? choice : choice / c.topK;
      for (int64_t j = 0; j < c.n; ++j) {
        float v = chain(&x[row * c.k], &w[(e * columns + j) * c.k], c.k);
        v = c.bias ? v + bias[e * columns + j] : v;
        expected[choice * c.n + j] = v;
        if (c.gated) {
          float up = chain(&x[row * c.k], &w[(e * columns + c.n + j) * c.k], c.k);
          up = c.bias ? up + bias[e * columns + c.n + j] : up;
          expectedGated[choice * c.n + j] = v / (1 + std::exp(-static_cast<double>(v))) * up;
        }
      }
    }
    // The gated tolerance is that of Matmul.GatesPanels.
    EXPECT_TRUE(c.gated ? isNear(actual, expectedGated, 1e-7, 1e-6) : sameBits(actual, expected));
  }
}

std::vector<int32_t> randomIds(int64_t tokens, int64_t topK, int64_t experts, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens; ++t) {
    int32_t first = static_cast<int32_t>(generator() % experts);
    for (int64_t j = 0; j < topK; ++j) {
      ids.push_back(static_cast<int32_t>((first + j * j + j) % experts));
    }
  }
  return ids;
}

} // namespace

TEST(GroupedMatmul, GathersTheRowsOfEachExpert) {
  GroupedCase c{7, 2, 96, 130};
  for (int64_t cells : {0, 1, 2, 5}) {
    checkGrouped(c, randomIds(40, 2, 7, 1), cells);
  }
  checkGrouped(c, randomIds(1, 2, 7, 3), 1);
}

TEST(GroupedMatmul, TakesManyRowsOfOneExpert) {
  GroupedCase c{5, 1, 64, 140, 8, "bf16"};
  std::vector<int32_t> ids(45, 3);
  checkGrouped(c, ids, 0);
  ids[44] = 0;
  ids[43] = 4;
  checkGrouped(c, ids, 3);
}

TEST(GroupedMatmul, TakesOneRowPerChoice) {
  GroupedCase c{6, 3, 50, 64};
  c.perChoice = c.bias = true;
  checkGrouped(c, randomIds(30, 3, 6, 2), 4);
}

TEST(GroupedMatmul, Gates) {
  GroupedCase c{6, 2, 40, 64, 32, "f16"};
  c.gated = c.bias = true;
  checkGrouped(c, randomIds(33, 2, 6, 4), 0);
}

} // namespace sluicec::cpu
