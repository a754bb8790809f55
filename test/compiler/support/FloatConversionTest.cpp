// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Narrow float formats against LLVM's arbitrary-precision floats.
#include "compiler/support/FloatConversion.h"

#include "llvm/ADT/APFloat.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <cstring>
#include <random>

#include "gtest/gtest.h"

using namespace mlir;

namespace sluicec::support {
namespace {

uint16_t rounded(double value, const llvm::fltSemantics &format) {
  llvm::APFloat f(value);
  bool lost = false;
  f.convert(format, llvm::APFloat::rmNearestTiesToEven, &lost);
  return static_cast<uint16_t>(f.bitcastToAPInt().getZExtValue());
}

/// Values that round, tie, overflow and underflow in 16 bits.
std::vector<double> interestingValues() {
  std::vector<double> values{0.0,
                             -0.0,
                             65504,
                             65519.99,
                             65520,
                             65536,
                             1e300,
                             -1e300,
                             1e-300,
                             INFINITY,
                             -INFINITY,
                             0x1p-24,
                             0x1p-25,
                             0x1.8p-25,
                             0x1p-26,
                             0x1p-14,
                             0x1.ffcp-15,
                             3.3895e38,
                             3.4e38,
                             0x1p-133,
                             0x1p-134,
                             0x1.8p-134,
                             std::numeric_limits<double>::denorm_min()};
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(-140, 130);
  for (int i = 0; i < 200000; ++i) {
    double v = std::ldexp(1.0 + static_cast<double>(random() >> 12) * 0x1p-52,
                          static_cast<int>(exponent(random)));
    values.push_back(i % 2 ? v : -v);
    // Exactly between two neighbours: 12 or 9 bits behind the point, the last one set.
    values.push_back(std::ldexp(static_cast<double>(((1 << 11) | (random() & 0x7FF)) * 2 + 1),
                                static_cast<int>(random() % 40) - 30));
    values.push_back(std::ldexp(static_cast<double>(((1 << 8) | (random() & 0xFF)) * 2 + 1),
                                static_cast<int>(random() % 200) - 145));
  }
  return values;
}

TEST(FloatConversion, RoundsAsApFloat) {
  for (double v : interestingValues()) {
    ASSERT_EQ(toHalf(v), rounded(v, llvm::APFloat::IEEEhalf())) << v;
    ASSERT_EQ(toBfloat16(v), rounded(v, llvm::APFloat::BFloat())) << v;
  }
}

TEST(FloatConversion, EveryHalfAndBfloat16ComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto b = static_cast<uint16_t>(bits);
    float half = fromHalf(b), bfloat = fromBfloat16(b);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(fromHalf(toHalf(half))));
    } else {
      ASSERT_EQ(toHalf(half), b);
      ASSERT_EQ(half,
                llvm::APFloat(llvm::APFloat::IEEEhalf(), llvm::APInt(16, bits)).convertToFloat());
    }
    if (std::isnan(bfloat)) {
      EXPECT_TRUE(std::isnan(fromBfloat16(toBfloat16(bfloat))));
    } else {
      ASSERT_EQ(toBfloat16(bfloat), b);
    }
  }
}

TEST(FloatConversion, ReportsWhatDoesNotFit) {
  MLIRContext context;
  Type f32 = Float32Type::get(&context), f16 = Float16Type::get(&context),
       bf16 = BFloat16Type::get(&context);
  float values[] = {1.0F, 70000.0F, -INFINITY};
  llvm::ArrayRef<char> bytes(reinterpret_cast<const char *>(values), sizeof(values));
  uint16_t out[3];
  llvm::MutableArrayRef<char> to(reinterpret_cast<char *>(out), sizeof(out));
  double overflowed = 0;
  EXPECT_FALSE(convertElements(f32, bytes, f16, to, overflowed));
  EXPECT_EQ(overflowed, 70000.0);
  EXPECT_EQ(out[0], 0x3C00);
  EXPECT_TRUE(
      convertElements(f32, bytes, bf16, to, overflowed)); // an infinity that was one stays one
  EXPECT_EQ(out[2], 0xFF80);
}

TEST(FloatConversion, ReadsIntegers) {
  MLIRContext context;
  int8_t values[] = {-3, 100};
  double out[2];
  decodeElements(IntegerType::get(&context, 8), {reinterpret_cast<const char *>(values), 2},
                 llvm::MutableArrayRef<double>(out));
  EXPECT_EQ(out[0], -3.0);
  EXPECT_EQ(out[1], 100.0);
}

} // namespace
} // namespace sluicec::support
