// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// exp, tanh, erf, sigmoid, gates, cos and sin for CPU templates.
#include "compiler/codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace sluicec::cpu {

namespace {

/// c[0] + x (c[1] + x (c[2] + ...)), fused.
Value polynomial(KernelBuilder &b, Value x, ArrayRef<double> c) {
  Value sum = b.like(x, c.back());
  for (double next : llvm::reverse(c.drop_back())) {
    sum = b.fma(sum, x, b.like(x, next));
  }
  return sum;
}

Value roundEven(KernelBuilder &b, Value x) { return math::RoundEvenOp::create(b, x); }
Value absolute(KernelBuilder &b, Value x) { return math::AbsFOp::create(b, x); }
Value withSignOf(KernelBuilder &b, Value magnitude, Value sign) {
  return math::CopySignOp::create(b, magnitude, sign);
}

/// 2^n for an integer n in [-126, 127].
Value powerOfTwo(KernelBuilder &b, Value n) {
  Value word = arith::ShLIOp::create(b, b.add(n, 127), b.like(n, 23));
  return b.bitcast(word, b.f32());
}

} // namespace

Value emitExp(KernelBuilder &b, Value x) {
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts, the first short enough that n times it is
  // exact.
  constexpr double kLn2High = 0.693145751953125, kLn2Low = 1.42860682030941723212e-6;
  Value clamped = b.minFloat(b.like(x, 89.0), x);
  clamped = b.select(b.compare(arith::CmpFPredicate::OLT, x, b.like(x, -104.0)), b.like(x, -104.0),
                     clamped);
  Value isNan = b.compare(arith::CmpFPredicate::UNO, x, x);
  Value n = roundEven(b, b.mul(clamped, b.like(x, 1.44269504088896340736)));
  Value r = b.fma(n, b.like(x, -kLn2High), clamped);
  r = b.fma(n, b.like(x, -kLn2Low), r);
  Value q = polynomial(b, r,
                       {0.4999999403953552, 0.1666651964187622, 0.04166839271783829,
                        0.008368780836462975, 0.0013814467238262296});
  Value p = b.add(b.fma(b.mul(r, r), q, r), b.like(x, 1.0));
  // 2^n in two factors: n reaches -150 and 128.
  Value whole = arith::FPToSIOp::create(b, b.withElement(x.getType(), b.i32()), n);
  Value first = arith::ShRSIOp::create(b, whole, b.like(whole, 1));
  Value second = b.sub(whole, first);
  Value result = b.mul(b.mul(p, powerOfTwo(b, first)), powerOfTwo(b, second));
  return b.select(isNan, x, result);
}

Value emitTanh(KernelBuilder &b, Value x) {
  Value z = b.mul(x, x);
  Value q = polynomial(b, z,
                       {-0.3333328068256378, 0.1333143562078476, -0.053739115595817566,
                        0.020637044683098793, -0.005702611058950424});
  Value small = b.fma(b.mul(x, z), q, x);
  Value magnitude = absolute(b, x);
  Value e = emitExp(b, b.add(magnitude, magnitude));
  Value large = b.sub(b.like(x, 1.0), b.div(b.like(x, 2.0), b.add(e, b.like(x, 1.0))));
  Value isSmall = b.compare(arith::CmpFPredicate::OLT, magnitude, b.like(x, 0.625));
  return b.select(isSmall, small, withSignOf(b, large, x));
}

Value emitErf(KernelBuilder &b, Value x) {
  Value z = b.mul(x, x);
  // erf(x) / x - 1: adding x at the end rounds once.
  Value q = polynomial(b, z,
                       {0.12837916612625122, -0.3761262595653534, 0.1128358468413353,
                        -0.026853807270526886, 0.005188317969441414, -0.0008010099991224706,
                        7.85352531238459e-05});
  Value small = b.fma(x, q, x);
  // 1 - erfc(t), the logarithm of erfc being the polynomial; beyond 4 erf rounds to 1.
  Value magnitude = absolute(b, x);
  Value t = b.minFloat(magnitude, b.like(x, 4.0));
  Value logErfc = polynomial(b, t,
                             {0.00018803706916514784, -1.1295783519744873, -0.6332198977470398,
                              -0.1084185540676117, 0.025208240374922752, -0.004204556345939636,
                              0.0004413353162817657, -2.1686762920580804e-05});
  Value large = b.sub(b.like(x, 1.0), emitExp(b, logErfc));
  Value isSmall = b.compare(arith::CmpFPredicate::OLT, magnitude, b.like(x, 1.0));
  return b.select(isSmall, small, withSignOf(b, large, x));
}

Value emitSigmoid(KernelBuilder &b, Value x) {
  return b.div(b.like(x, 1.0), b.add(emitExp(b, b.neg(x)), b.like(x, 1.0)));
}

namespace {

Value emitActivation(KernelBuilder &b, lm::GatedActivationAttr activation, Value g) {
  switch (activation.getKind()) {
  case lm::ActivationKind::Silu: {
    double alpha = activation.getAlpha().getValueAsDouble();
    Value scaled = alpha == 1.0 ? g : b.mul(g, b.like(g, alpha));
    return b.mul(g, emitSigmoid(b, scaled));
  }
  case lm::ActivationKind::GeluTanh: {
    // 0.5 g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))), Hendrycks & Gimpel 2016.
    Value inner = b.mul(g, b.fma(b.mul(g, g), b.like(g, 0.044715), b.like(g, 1.0)));
    Value t = emitTanh(b, b.mul(inner, b.like(g, 0.79788456080286535588)));
    return b.mul(b.mul(g, b.like(g, 0.5)), b.add(t, b.like(g, 1.0)));
  }
  case lm::ActivationKind::GeluErf: {
    Value t = emitErf(b, b.mul(g, b.like(g, 0.70710678118654752440)));
    return b.mul(b.mul(g, b.like(g, 0.5)), b.add(t, b.like(g, 1.0)));
  }
  case lm::ActivationKind::Relu:
    // A NaN stays: only what is below 0 is replaced.
    return b.select(b.compare(arith::CmpFPredicate::OLT, g, b.like(g, 0.0)), b.like(g, 0.0), g);
  }
  llvm_unreachable("an activation kind");
}

} // namespace

Value emitGated(KernelBuilder &b, lm::GatedActivationAttr activation, Value gate, Value up) {
  double limit = activation.getLimit().getValueAsDouble();
  double beta = activation.getBeta().getValueAsDouble();
  if (!std::isinf(limit)) {
    // The value under test comes first, so that a NaN passes through.
    auto atMost = [&](Value v, double bound) {
      return b.select(b.compare(arith::CmpFPredicate::OGT, v, b.like(v, bound)), b.like(v, bound),
                      v);
    };
    gate = atMost(gate, limit);
    up = atMost(up, limit);
    up = b.select(b.compare(arith::CmpFPredicate::OLT, up, b.like(up, -limit)), b.like(up, -limit),
                  up);
  }
  if (beta != 0.0) {
    up = b.add(up, b.like(up, beta));
  }
  return b.mul(emitActivation(b, activation, gate), up);
}

std::pair<Value, Value> emitCosSin(KernelBuilder &b, Value angle) {
  // angle = k pi/2 + r with pi/2 in two f64 parts: for k < 2^24 the error stays near 1e-16.
  constexpr double kTwoOverPi = 0.63661977236758134308;
  constexpr double kHalfPiHigh = 1.57079632679489655800, kHalfPiLow = 6.12323399573676603587e-17;
  Value x = arith::ExtFOp::create(b, b.withElement(angle.getType(), b.f64()), angle);
  Value k = roundEven(b, b.mul(x, b.like(x, kTwoOverPi)));
  Value r = b.fma(k, b.like(x, -kHalfPiHigh), x);
  r = b.fma(k, b.like(x, -kHalfPiLow), r);
  Value z = b.mul(r, r);
  // Taylor series: the next terms are below 1e-12 for |r| <= pi / 4.
  Value sinSum = polynomial(
      b, z, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0});
  Value sine = b.fma(b.mul(r, z), sinSum, r);
  Value cosine = polynomial(
      b, z, {1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600});
  auto narrow = [&](Value v) {
    return Value(arith::TruncFOp::create(b, b.withElement(v.getType(), b.f32()), v));
  };
  Value sinR = narrow(sine), cosR = narrow(cosine);
  // Quadrant k mod 4: odd ones swap; sine is negative in 2 and 3, cosine in 1 and 2.
  Value whole = arith::FPToSIOp::create(b, b.withElement(x.getType(), b.i32()), k);
  Value zero = b.like(whole, 0);
  auto bitSet = [&](Value v, double bit) {
    return b.compare(arith::CmpIPredicate::ne, b.both(v, b.like(v, bit)), zero);
  };
  Value odd = bitSet(whole, 1);
  Value sinV = b.select(odd, cosR, sinR), cosV = b.select(odd, sinR, cosR);
  sinV = b.select(bitSet(whole, 2), b.neg(sinV), sinV);
  cosV = b.select(bitSet(b.add(whole, 1), 2), b.neg(cosV), cosV);
  return {cosV, sinV};
}

} // namespace sluicec::cpu
