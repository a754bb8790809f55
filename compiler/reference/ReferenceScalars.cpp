// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// arith and math operations on one number.
#include "compiler/reference/Frame.h"
#include "compiler/support/FloatConversion.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <algorithm>
#include <cmath>

namespace sluicec::reference {

using namespace mlir;

namespace {

template <typename Real> Scalar<Real> ofReal(Real v) { return {v, 0}; }
template <typename Real> Scalar<Real> ofInteger(int64_t v) { return {Real(0), v}; }

/// `v` as a two's complement number of the type's width; i1 is 0 or 1.
int64_t wrapped(int64_t v, Type type) {
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (bits == 1) {
    return v & 1;
  }
  return bits >= 64 ? v
                    : static_cast<int64_t>(static_cast<uint64_t>(v) << (64 - bits)) >> (64 - bits);
}

uint64_t asUnsigned(int64_t v, Type type) {
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  return bits >= 64 ? static_cast<uint64_t>(v)
                    : static_cast<uint64_t>(v) & ((uint64_t(1) << bits) - 1);
}

template <typename Real> bool compare(arith::CmpFPredicate predicate, Real a, Real b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  case arith::CmpFPredicate::UNE:
    return unordered || a != b;
  }
  return false;
}

bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b, Type type) {
  uint64_t x = asUnsigned(a, type), y = asUnsigned(b, type);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return x < y;
  case arith::CmpIPredicate::ule:
    return x <= y;
  case arith::CmpIPredicate::ugt:
    return x > y;
  case arith::CmpIPredicate::uge:
    return x >= y;
  }
  return false;
}

template <typename Real> Real maximum(Real a, Real b) {
  return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
}
template <typename Real> Real minimum(Real a, Real b) {
  return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
}

/// Float results; nothing for other operations.
template <typename Real> std::optional<Real> evaluateReal(Operation *op, ArrayRef<Scalar<Real>> v) {
  Real a = v.empty() ? Real(0) : v[0].real, b = v.size() > 1 ? v[1].real : Real(0);
  using Result = std::optional<Real>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::AddFOp) { return a + b; })
      .Case([&](arith::SubFOp) { return a - b; })
      .Case([&](arith::MulFOp) { return a * b; })
      .Case([&](arith::DivFOp) { return a / b; })
      .Case([&](arith::RemFOp) { return std::fmod(a, b); })
      .Case([&](arith::NegFOp) { return -a; })
      .Case([&](arith::MaximumFOp) { return maximum(a, b); })
      .Case([&](arith::MinimumFOp) { return minimum(a, b); })
      .Case([&](arith::MaxNumFOp) { return std::fmax(a, b); })
      .Case([&](arith::MinNumFOp) { return std::fmin(a, b); })
      .template Case<arith::TruncFOp, arith::ExtFOp>([&](auto) { return a; })
      .Case([&](arith::SIToFPOp) { return static_cast<Real>(v[0].integer); })
      .Case([&](arith::UIToFPOp o) {
        return static_cast<Real>(asUnsigned(v[0].integer, getElementTypeOrSelf(o.getIn())));
      })
      .Case([&](math::AbsFOp) { return std::abs(a); })
      .Case([&](math::CeilOp) { return std::ceil(a); })
      .Case([&](math::FloorOp) { return std::floor(a); })
      .Case([&](math::RoundOp) { return std::round(a); })
      .Case([&](math::RoundEvenOp) { return std::nearbyint(a); })
      .Case([&](math::TruncOp) { return std::trunc(a); })
      .Case([&](math::ExpOp) { return std::exp(a); })
      .Case([&](math::Exp2Op) { return std::exp2(a); })
      .Case([&](math::ExpM1Op) { return std::expm1(a); })
      .Case([&](math::LogOp) { return std::log(a); })
      .Case([&](math::Log2Op) { return std::log2(a); })
      .Case([&](math::Log1pOp) { return std::log1p(a); })
      .Case([&](math::SqrtOp) { return std::sqrt(a); })
      .Case([&](math::RsqrtOp) { return 1 / std::sqrt(a); })
      .Case([&](math::SinOp) { return std::sin(a); })
      .Case([&](math::CosOp) { return std::cos(a); })
      .Case([&](math::TanOp) { return std::tan(a); })
      .Case([&](math::AtanOp) { return std::atan(a); })
      .Case([&](math::SinhOp) { return std::sinh(a); })
      .Case([&](math::CoshOp) { return std::cosh(a); })
      .Case([&](math::TanhOp) { return std::tanh(a); })
      .Case([&](math::ErfOp) { return std::erf(a); })
      .Case([&](math::PowFOp) { return std::pow(a, b); })
      .Case([&](math::FPowIOp) { return std::pow(a, static_cast<Real>(v[1].integer)); })
      .Case([&](math::CopySignOp) { return std::copysign(a, b); })
      .Case([&](math::FmaOp) { return std::fma(a, b, v[2].real); })
      .Default([](Operation *) { return Result(); });
}

/// Integer results; nothing for other operations and for divisions by zero.
template <typename Real>
std::optional<int64_t> evaluateInteger(Operation *op, ArrayRef<Scalar<Real>> v) {
  int64_t a = v.empty() ? 0 : v[0].integer, b = v.size() > 1 ? v[1].integer : 0;
  Type type = op->getNumOperands() > 0 ? getElementTypeOrSelf(op->getOperand(0).getType()) : Type();
  using Result = std::optional<int64_t>;
  bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
                     arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  if (divides && (b == 0 || (b == -1 && a == INT64_MIN))) {
    return std::nullopt;
  }
  auto floorDiv = [](int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  // Sums and products wrap, so they are taken without sign.
  auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::AddIOp) { return static_cast<int64_t>(x + y); })
      .Case([&](arith::SubIOp) { return static_cast<int64_t>(x - y); })
      .Case([&](arith::MulIOp) { return static_cast<int64_t>(x * y); })
      .Case([&](arith::DivSIOp) { return a / b; })
      .Case([&](arith::RemSIOp) { return a % b; })
      .Case([&](arith::DivUIOp) {
        return static_cast<int64_t>(asUnsigned(a, type) / asUnsigned(b, type));
      })
      .Case([&](arith::RemUIOp) {
        return static_cast<int64_t>(asUnsigned(a, type) % asUnsigned(b, type));
      })
      .Case([&](arith::FloorDivSIOp) { return floorDiv(a, b); })
      .Case([&](arith::CeilDivSIOp) { return -floorDiv(-a, b); })
      .Case([&](arith::MaxSIOp) { return std::max(a, b); })
      .Case([&](arith::MinSIOp) { return std::min(a, b); })
      .Case([&](arith::MaxUIOp) { return asUnsigned(a, type) > asUnsigned(b, type) ? a : b; })
      .Case([&](arith::MinUIOp) { return asUnsigned(a, type) < asUnsigned(b, type) ? a : b; })
      .Case([&](arith::AndIOp) { return a & b; })
      .Case([&](arith::OrIOp) { return a | b; })
      .Case([&](arith::XOrIOp) { return a ^ b; })
      .Case([&](arith::ShLIOp) { return static_cast<int64_t>(x << (y & 63)); })
      .Case([&](arith::ShRSIOp) { return a >> (y & 63); })
      .Case([&](arith::ShRUIOp) { return static_cast<int64_t>(asUnsigned(a, type) >> (y & 63)); })
      .Case([&](math::AbsIOp) { return std::abs(a); })
      .Case([&](arith::CmpIOp o) { return compare(o.getPredicate(), a, b, type); })
      .Case([&](arith::CmpFOp o) { return compare<Real>(o.getPredicate(), v[0].real, v[1].real); })
      .template Case<arith::ExtSIOp>([&](auto) { return type.isInteger(1) ? -a : a; })
      .template Case<arith::ExtUIOp, arith::IndexCastUIOp>(
          [&](auto) { return static_cast<int64_t>(asUnsigned(a, type)); })
      .template Case<arith::TruncIOp, arith::IndexCastOp>([&](auto) { return a; })
      .template Case<arith::FPToSIOp, arith::FPToUIOp>(
          [&](auto) { return static_cast<int64_t>(v[0].real); })
      .Default([](Operation *) { return Result(); });
}

} // namespace

template <typename Real>
std::optional<Scalar<Real>> evaluateScalar(Operation *op, ArrayRef<Scalar<Real>> operands) {
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<arith::SelectOp>(op)) {
    return operands[0].integer != 0 ? operands[1] : operands[2];
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto real = dyn_cast<FloatAttr>(constant.getValue())) {
      return ofReal(static_cast<Real>(real.getValueAsDouble()));
    }
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue())) {
      return ofInteger<Real>(wrapped(integer.getValue().getSExtValue(), type));
    }
    return std::nullopt;
  }
  if (isa<FloatType>(type)) {
    std::optional<Real> value = evaluateReal<Real>(op, operands);
    if (!value) {
      return std::nullopt;
    }
    bool narrow = type.isF16() || type.isBF16();
    return ofReal(narrow ? static_cast<Real>(support::roundToElement(*value, type)) : *value);
  }
  std::optional<int64_t> value = evaluateInteger<Real>(op, operands);
  return value ? std::optional(ofInteger<Real>(wrapped(*value, type))) : std::nullopt;
}
template std::optional<Scalar<double>> evaluateScalar(Operation *, ArrayRef<Scalar<double>>);
template std::optional<Scalar<float>> evaluateScalar(Operation *, ArrayRef<Scalar<float>>);

} // namespace sluicec::reference
