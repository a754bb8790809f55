// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Float formats by integer arithmetic: the same bits on every machine.
#include "compiler/support/FloatConversion.h"

#include "compiler/support/WeightStore.h"

#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace sluicec::support {

/// A double as a number of 1 + `exponentBits` + `fractionBits` <= 16 bits with gradual underflow.
static uint16_t roundTo16(double value, unsigned exponentBits, unsigned fractionBits) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  auto sign = static_cast<uint16_t>((bits >> 63) << (exponentBits + fractionBits));
  int exponent = static_cast<int>((bits >> 52) & 0x7FF);
  uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
  unsigned maxExponent = (1U << exponentBits) - 1;
  int bias = (1 << (exponentBits - 1)) - 1;
  if (exponent == 0x7FF) {
    uint64_t quiet =
        fraction ? (uint64_t(1) << (fractionBits - 1)) | (fraction >> (52 - fractionBits)) : 0;
    return static_cast<uint16_t>(sign | (maxExponent << fractionBits) | quiet);
  }
  int target = exponent - 1023 + bias; // biased exponent in the narrow format
  unsigned drop = 52 - fractionBits;
  uint64_t significand = fraction;
  if (target <= 0) { // subnormal there: the hidden bit becomes part of the fraction
    if (target < -static_cast<int>(fractionBits) || exponent == 0) {
      return sign; // below half of the smallest number (subnormal doubles are far below)
    }
    significand |= uint64_t(1) << 52;
    drop += static_cast<unsigned>(1 - target);
    target = 0;
  }
  uint64_t kept = significand >> drop, rest = significand & ((uint64_t(1) << drop) - 1);
  uint64_t half = uint64_t(1) << (drop - 1);
  kept += rest > half || (rest == half && (kept & 1));
  // A carry out of the fraction is a carry into the exponent.
  uint64_t magnitude = (static_cast<uint64_t>(target) << fractionBits) + kept;
  magnitude = std::min<uint64_t>(magnitude, uint64_t(maxExponent) << fractionBits);
  return static_cast<uint16_t>(sign | magnitude);
}

uint16_t toHalf(double value) { return roundTo16(value, 5, 10); }
uint16_t toBfloat16(double value) { return roundTo16(value, 8, 7); }

float fromHalf(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1F,
           fraction = bits & 0x3FF;
  if (exponent == 0) {
    float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign ? -magnitude : magnitude;
  }
  uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

float fromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

double roundToElement(double value, Type type) {
  if (type.isF16()) {
    return fromHalf(toHalf(value));
  }
  if (type.isBF16()) {
    return fromBfloat16(toBfloat16(value));
  }
  return type.isF32() ? static_cast<double>(static_cast<float>(value)) : value;
}

template <typename T> static T load(const char *from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

/// Calls visit(i, element as double) for all elements; the format is told apart once, outside of
/// the loop.
template <typename Visit>
static void forEachElement(Type type, ArrayRef<char> bytes, size_t count, Visit visit) {
  const char *data = bytes.data();
  auto loop = [&](auto element) {
    for (size_t i = 0; i < count; ++i) {
      visit(i, element(i));
    }
  };
  if (type.isF32()) {
    loop([=](size_t i) { return static_cast<double>(load<float>(data, i)); });
  } else if (type.isBF16()) {
    loop([=](size_t i) { return static_cast<double>(fromBfloat16(load<uint16_t>(data, i))); });
  } else if (type.isF16()) {
    loop([=](size_t i) { return static_cast<double>(fromHalf(load<uint16_t>(data, i))); });
  } else if (type.isF64()) {
    loop([=](size_t i) { return load<double>(data, i); });
  } else {
    loop([=](size_t i) { return decodeElement(type, bytes, static_cast<int64_t>(i)); });
  }
}

void decodeElements(Type type, ArrayRef<char> bytes, MutableArrayRef<double> out) {
  forEachElement(type, bytes, out.size(), [&](size_t i, double v) { out[i] = v; });
}

void decodeElements(Type type, ArrayRef<char> bytes, MutableArrayRef<float> out) {
  forEachElement(type, bytes, out.size(),
                 [&](size_t i, double v) { out[i] = static_cast<float>(v); });
}

bool convertElements(Type from, ArrayRef<char> bytes, Type to, MutableArrayRef<char> out,
                     double &overflowed) {
  assert((to.isF64() || to.isF32() || to.isF16() || to.isBF16()) &&
         "a type that weights are stored in");
  size_t width = to.getIntOrFloatBitWidth() / 8, count = out.size() / width;
  bool fits = true;
  auto store = [&](auto narrow, auto infinite) {
    forEachElement(from, bytes, count, [&](size_t i, double v) {
      auto element = narrow(v);
      if (infinite(element) && std::isfinite(v) && fits) {
        fits = false;
        overflowed = v;
      }
      std::memcpy(out.data() + i * sizeof(element), &element, sizeof(element));
    });
  };
  if (to.isF16()) {
    store(toHalf, [](uint16_t e) { return (e & 0x7FFF) == 0x7C00; });
  } else if (to.isBF16()) {
    store(toBfloat16, [](uint16_t e) { return (e & 0x7FFF) == 0x7F80; });
  } else if (to.isF32()) {
    store([](double v) { return static_cast<float>(v); }, [](float e) { return std::isinf(e); });
  } else {
    store([](double v) { return v; }, [](double) { return false; });
  }
  return fits;
}

} // namespace sluicec::support
