// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Polynomials of codegen/cpu against f64, and the elementwise template that carries them.
#include <cmath>
#include <functional>

#include "KernelHarness.h"

namespace sluicec::cpu {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

std::string elementwise(const std::string &inputTypes, const std::string &inputs,
                        const std::string &outType, int64_t features, const std::string &region) {
  return "kernel.elementwise (" + inputs + ") -> %o {features = " + number(features) +
         "} : " + inputTypes + " -> " + outType + " {\n" + region + "\n}";
}

/// One function of one f32 input, over rows of 33 features.
std::string unaryText(const std::string &op) {
  std::string t = rows("tokens", 33);
  return "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {\n^bb0(%x: " + t +
         ", %o: " + t + "):\n" +
         elementwise(t, "%x", t, 33,
                     "^bb0(%a: f32):\n %r = " + op + " %a : f32\n kernel.yield %r : f32") +
         "\n}\n";
}

/// Values that cover each binade, both signs, and the edges.
std::vector<float> sweep(float limit) {
  std::vector<float> v{0.0f,   -0.0f, kInf,  -kInf, kNan,   1.0f,    -1.0f,
                       0.625f, 4.0f,  88.7f, 89.0f, -87.5f, -103.9f, -104.5f};
  std::vector<float> uniform = randomFloats(30000, 11, limit),
                     small = randomFloats(30000, 12, 1.5f);
  v.insert(v.end(), uniform.begin(), uniform.end());
  v.insert(v.end(), small.begin(), small.end());
  for (float x = 1e-30f; x < limit; x *= 1.37f) {
    v.insert(v.end(), {x, -x});
  }
  while (v.size() % 33 != 0) {
    v.push_back(0.5f);
  }
  return v;
}

/// The distance in units of the last place of an f32 near `expected`.
double ulps(float actual, double expected) {
  if (std::isnan(expected) || std::isnan(actual)) {
    return std::isnan(expected) && std::isnan(actual) ? 0 : 1e30;
  }
  float rounded = static_cast<float>(expected);
  if (std::isinf(rounded) || std::isinf(actual)) {
    return rounded == actual ? 0 : 1e30;
  }
  double step = std::ldexp(1.0, std::max(std::ilogb(rounded == 0 ? 1e-45f : rounded), -126) - 23);
  return std::fabs(actual - expected) / step;
}

void checkUnary(const std::string &op, float limit, double maxUlps,
                const std::function<double(double)> &exact) {
  std::vector<float> x = sweep(limit), first;
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    CompiledKernels kernels(unaryText(op), target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> in = bytesOf(x), out = unwritten<float>(x.size());
    kernels.run("f", {static_cast<int32_t>(x.size() / 33), 1, 1, 1, 1, 0}, {&in, &out});
    std::vector<float> actual = valuesOf<float>(out);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double error = ulps(actual[i], exact(x[i]));
      worst = std::max(worst, error);
      ASSERT_LE(error, maxUlps) << op << "(" << x[i] << ") = " << actual[i] << ", expected "
                                << exact(x[i]);
    }
    testing::Test::RecordProperty("worst_ulps", std::to_string(worst));
    first = first.empty() ? actual : first;
    EXPECT_TRUE(sameBits(actual, first)) << "targets differ";
  }
}

} // namespace

TEST(VectorMath, Exp) {
  checkUnary("math.exp", 110, 1.1, [](double x) { return std::exp(x); });
}
TEST(VectorMath, Tanh) {
  checkUnary("math.tanh", 12, 2, [](double x) { return std::tanh(x); });
}
TEST(VectorMath, Erf) {
  checkUnary("math.erf", 6, 2, [](double x) { return std::erf(x); });
}
// Functions that MLIR expands: no library call may be left, and they are usable.
TEST(VectorMath, LogByExpansion) {
  checkUnary("math.log", 1e6f, 4, [](double x) { return x < 0 ? NAN : std::log(x); });
}
TEST(VectorMath, RsqrtByExpansion) {
  checkUnary("math.rsqrt", 1e6f, 2, [](double x) { return x < 0 ? NAN : 1 / std::sqrt(x); });
}
TEST(VectorMath, SineAndCosine) {
  // Absolute 1e-7, which near 1 is two units: f64 inside, one rounding at the end.
  std::vector<float> x = randomFloats(33 * 100, 3, 1e5f);
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(unaryText("math.sin"), target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> in = bytesOf(x), out = unwritten<float>(x.size());
    kernels.run("f", {100, 1, 1, 1, 1, 0}, {&in, &out});
    std::vector<double> expected;
    for (float v : x) {
      expected.push_back(std::sin(static_cast<double>(v)));
    }
    EXPECT_TRUE(isNear(valuesOf<float>(out), expected, 1e-7));
  }
}

TEST(Elementwise, ReadsRowsSharedRowsAndScalars) {
  // out = (x * w + s) of rows x [T, 37], one row w [37], one scalar s [1].
  std::string t = rows("logit_rows", 37), w = fixedBuffer(37, "f32"), s = fixedBuffer(1, "f32");
  std::string text =
      "kernel.func @f grid [#kernel.grid_dim<logit_rows * 1 + 0 tile 1>] {\n^bb0(%x: " + t +
      ", %w: " + w + ", %s: " + s + ", %o: " + t + "):\n" +
      elementwise(t + ", " + w + ", " + s, "%x, %w, %s", t, 37,
                  "^bb0(%a: f32, %b: f32, %c: f32):\n %p = arith.mulf %a, %b fastmath<fast> : f32\n"
                  " %r = arith.addf %p, %c fastmath<fast> : f32\n kernel.yield %r : f32") +
      "\n}\n";
  std::vector<float> x = randomFloats(5 * 37, 1), weight = randomFloats(37, 2), scalar{0.3f};
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> xB = bytesOf(x), wB = bytesOf(weight), sB = bytesOf(scalar),
                      out = unwritten<float>(x.size());
    kernels.run("f", {9, 1, 5, 1, 1, 0}, {&xB, &wB, &sB, &out}, 2);
    std::vector<float> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      volatile float product =
          x[i] * weight[i % 37]; // two roundings, whatever the flags of the graph say
      expected.push_back(product + scalar[0]);
    }
    EXPECT_TRUE(sameBits(valuesOf<float>(out), expected));
  }
}

TEST(Elementwise, ConvertsTypesAndComparesIntegers) {
  // out bf16 = select(i > 2, x * 1.5 in bf16, f32(i)), x bf16 [T, 20], i i32 [T, 20].
  std::string x = rows("tokens", 20, "bf16"), i = rows("tokens", 20, "i32");
  std::string text =
      "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {\n^bb0(%x: " + x +
      ", %i: " + i + ", %o: " + x + "):\n" +
      elementwise(x + ", " + i, "%x, %i", x, 20,
                  "^bb0(%a: bf16, %b: i32):\n %c2 = arith.constant 2 : i32\n %c = arith.constant "
                  "1.5 : bf16\n"
                  " %m = arith.mulf %a, %c : bf16\n %g = arith.cmpi sgt, %b, %c2 : i32\n"
                  " %f = arith.sitofp %b : i32 to f32\n %h = arith.truncf %f : f32 to bf16\n"
                  " %r = arith.select %g, %m, %h : bf16\n kernel.yield %r : bf16") +
      "\n}\n";
  std::vector<float> values = randomFloats(60, 4, 100);
  std::vector<char> xB = encode(values, "bf16");
  std::vector<int32_t> ids;
  std::vector<uint16_t> expected;
  for (int32_t j = 0; j < 60; ++j) {
    ids.push_back(j % 7 * (j % 2 ? 1 : -70001));
    expected.push_back(ids.back() > 2 ? toBf16(values[j] * 1.5f)
                                      : toBf16(static_cast<float>(ids.back())));
  }
  for (const std::string &target : runnableTargets()) {
    CompiledKernels kernels(text, target);
    ASSERT_TRUE(kernels.isLoaded());
    std::vector<char> iB = bytesOf(ids), out = unwritten<uint16_t>(60);
    kernels.run("f", {3, 1, 1, 1, 1, 0}, {&xB, &iB, &out});
    EXPECT_TRUE(sameBits(valuesOf<uint16_t>(out), expected));
  }
}

TEST(Elementwise, RefusesWhatWouldCallALibrary) {
  std::string errors;
  llvm::Expected<CpuTarget> target = CpuTarget::parse("x86-64-v3");
  ASSERT_TRUE(static_cast<bool>(target));
  std::string t = rows("tokens", 33);
  std::string text =
      "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>] {\n^bb0(%x: " + t +
      ", %o: " + t + "):\n" +
      elementwise(t, "%x", t, 33,
                  "^bb0(%a: f32):\n %r = arith.remf %a, %a : f32\n kernel.yield %r : f32") +
      "\n}\n";
  EXPECT_TRUE(mlir::failed(compileText(text, *target, {}, errors)));
  EXPECT_NE(errors.find("'arith.remf' has no CPU code"), std::string::npos) << errors;
}

} // namespace sluicec::cpu
