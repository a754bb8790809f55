// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// route, expert_plan and combine against scalar references.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "KernelHarness.h"

namespace sluicec::cpu {

namespace {

const float kNan = std::nanf("");
constexpr float kInf = std::numeric_limits<float>::infinity();

struct RouteCase {
  int64_t experts, topK;
  std::string score = "softmax_all";
  bool normalize = false, correction = false;
  double scale = 1;

  std::string text() const {
    std::string l = rows("tokens", experts), w = rows("tokens", topK),
                i = rows("tokens", topK, "i32");
    std::string c = fixedBuffer(experts, "f32");
    std::vector<std::string> types{l, w, i};
    if (correction) {
      types.push_back(c);
    }
    return rowKernel("f", "tokens", types,
                     std::string("kernel.route %0, %1, %2") + (correction ? " correction %3" : "") +
                         " {experts = " + number(experts) + ", top_k = " + number(topK) +
                         ", score = #lm<score " + score + ">" + (normalize ? ", normalize" : "") +
                         ", scale = " + real(scale) + "} : " + l + ", " +
                         (correction ? c + ", " : "") + w + ", " + i);
  }
};

struct Routed {
  std::vector<double> weights;
  std::vector<int32_t> ids;
};

/// lm.route of one row in f64; `scores` of the choice are rounded to f32 as the kernel has them.
Routed reference(const RouteCase &c, const std::vector<float> &logits,
                 const std::vector<float> &correction) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (c.score == "softmax_all") {
    double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
    for (double &s : scores) {
      s = std::exp(s - largest);
      sum += s;
    }
    for (double &s : scores) {
      s /= sum;
    }
  } else if (c.score == "sigmoid") {
    for (double &s : scores) {
      s = 1 / (1 + std::exp(-s));
    }
  }
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    double x = scores[a] + (c.correction ? correction[a] : 0),
           y = scores[b] + (c.correction ? correction[b] : 0);
    return std::isnan(y) ? !std::isnan(x) : x > y;
  });
  Routed r;
  r.ids.assign(order.begin(), order.begin() + c.topK);
  double largest = -INFINITY, sum = 0;
  for (int32_t id : r.ids) {
    largest = std::max(largest, scores[id]);
  }
  for (int32_t id : r.ids) {
    r.weights.push_back(c.score == "softmax_selected" ? std::exp(scores[id] - largest)
                                                      : scores[id]);
    sum += r.weights.back();
  }
  for (double &w : r.weights) {
    w = (c.normalize || c.score == "softmax_selected" ? w / sum : w) * c.scale;
  }
  return r;
}

Routed run(const RouteCase &c, const std::string &target, const std::vector<float> &logits,
           const std::vector<float> &correction) {
  size_t tokens = logits.size() / c.experts;
  CompiledKernels kernels(c.text(), target);
  std::vector<char> l = bytesOf(logits), w = unwritten<float>(tokens * c.topK),
                    i = unwritten<int32_t>(tokens * c.topK);
  std::vector<char> corr = bytesOf(correction);
  std::vector<std::vector<char> *> buffers{&l, &w, &i};
  if (c.correction) {
    buffers.push_back(&corr);
  }
  kernels.run("f", {static_cast<int32_t>(tokens), 1, 1, 1, 1, 0}, buffers, 2);
  std::vector<float> weights = valuesOf<float>(w);
  return {std::vector<double>(weights.begin(), weights.end()), valuesOf<int32_t>(i)};
}

} // namespace

TEST(Route, ChoosesTheLargestScores) {
  for (RouteCase c : {RouteCase{8, 2}, RouteCase{8, 2, "softmax_selected"},
                      RouteCase{128, 8, "softmax_all", true},
                      RouteCase{61, 6, "sigmoid", true, true, 2.5}, RouteCase{3, 3, "sigmoid"},
                      RouteCase{1000, 64}, RouteCase{16, 1, "softmax_selected", false, true}}) {
    SCOPED_TRACE(testing::Message() << c.experts << " " << c.score);
    std::vector<float> logits = randomFloats(5 * c.experts, 3, 6),
                       correction = randomFloats(c.experts, 4, 0.5f);
    Routed expected;
    for (int64_t t = 0; t < 5; ++t) {
      Routed one = reference(
          c, {logits.begin() + t * c.experts, logits.begin() + (t + 1) * c.experts}, correction);
      expected.ids.insert(expected.ids.end(), one.ids.begin(), one.ids.end());
      expected.weights.insert(expected.weights.end(), one.weights.begin(), one.weights.end());
    }
    std::vector<double> first;
    for (const std::string &target : runnableTargets()) {
      SCOPED_TRACE(target);
      Routed actual = run(c, target, logits, correction);
      EXPECT_TRUE(sameBits(actual.ids, expected.ids));
      // exp is right to an ulp, sums of up to 1000 terms and divisions follow.
      EXPECT_TRUE(
          isNear({actual.weights.begin(), actual.weights.end()}, expected.weights, 1e-9, 3e-6));
      first = first.empty() ? actual.weights : first;
      EXPECT_TRUE(sameBits(actual.weights, first)) << "targets differ";
    }
  }
}

TEST(Route, PutsEqualScoresByIdAndNanLast) {
  RouteCase c{20, 4, "softmax_selected"};
  std::vector<float> logits(80, 1.0f);
  logits[17] = 2;                            // row 0: 17, then the lowest ids
  std::fill(&logits[20], &logits[40], kNan); // row 1: NaN everywhere
  std::fill(&logits[40], &logits[60], kNan); // row 2: numbers before NaN, -inf too
  logits[59] = -kInf;
  logits[45] = -3;
  logits[60] = -0.0f; // row 3: -0 equals 0
  std::fill(&logits[61], &logits[80], 0.0f);
  for (const std::string &target : runnableTargets()) {
    Routed r = run(c, target, logits, {});
    EXPECT_TRUE(sameBits(r.ids, {17, 0, 1, 2, 0, 1, 2, 3, 5, 19, 0, 1, 0, 1, 2, 3}));
    EXPECT_EQ(r.weights[12], 0.25);
  }
}

TEST(ExpertPlan, SortsStably) {
  for (int64_t experts : {5, 512}) {
    int64_t topK = 3, tokens = 400;
    std::string i = rows("tokens", topK, "i32"), s = fixedBuffer(experts + 1, "i32");
    std::string text =
        "kernel.func @f grid [#kernel.grid_dim<fixed * 0 + 1 tile 1>] {\n^bb0(%0: " + i +
        ", %1: " + i + ", %2: " + s +
        "):\n  kernel.expert_plan %0, %1, %2 {experts = " + number(experts) +
        ", top_k = 3 : i64} : " + i + ", " + i + ", " + s + "\n}\n";
    std::mt19937 generator(9);
    std::vector<int32_t> ids(tokens * topK);
    for (int32_t &id : ids) {
      id = static_cast<int32_t>(generator() % experts);
    }
    std::vector<int32_t> order, starts{0};
    for (int32_t e = 0; e < experts; ++e) {
      for (size_t c = 0; c < ids.size(); ++c) {
        if (ids[c] == e) {
          order.push_back(static_cast<int32_t>(c));
        }
      }
      starts.push_back(static_cast<int32_t>(order.size()));
    }
    for (const std::string &target : runnableTargets()) {
      CompiledKernels kernels(text, target);
      ASSERT_TRUE(kernels.isLoaded());
      std::vector<char> in = bytesOf(ids), o = unwritten<int32_t>(ids.size()),
                        st = unwritten<int32_t>(experts + 1);
      kernels.run("f", {static_cast<int32_t>(tokens), 1, 1, 1, 1, 0}, {&in, &o, &st});
      EXPECT_TRUE(sameBits(valuesOf<int32_t>(o), order));
      EXPECT_TRUE(sameBits(valuesOf<int32_t>(st), starts));
    }
  }
}

TEST(Combine, SumsInTheRoutersOrder) {
  int64_t features = 70, topK = 4;
  std::string y = rows("tokens", topK * features), w = rows("tokens", topK),
              o = rows("tokens", features);
  std::string text = rowKernel(
      "f", "tokens", {y, w, o, o},
      "kernel.combine %0, %1, %2 residual %3 {top_k = 4 : i64, features = 70 : i64} : " + y + ", " +
          w + ", " + o + ", " + o);
  std::vector<float> values = randomFloats(3 * topK * features, 1),
                     weights = randomFloats(3 * topK, 2);
  std::vector<float> residual = randomFloats(3 * features, 3), expected;
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < features; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < topK; ++j) {
        sum = std::fma(values[(t * topK + j) * features + i], weights[t * topK + j], sum);
      }
      expected.push_back(sum + residual[t * features + i]);
    }
  }
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> yB = bytesOf(values), wB = bytesOf(weights),
                      out = unwritten<float>(expected.size()), r = bytesOf(residual);
    kernels.run("f", {3, 1, 1, 1, 1, 0}, {&yB, &wB, &out, &r});
    EXPECT_TRUE(sameBits(valuesOf<float>(out), expected));
  }
}

} // namespace sluicec::cpu
