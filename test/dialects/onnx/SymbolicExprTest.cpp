// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbolic integers: canonical forms, arithmetic, division, what is known about signs, hostile
// text.
#include "dialects/onnx/SymbolicExpr.h"

#include <gtest/gtest.h>

using sluicec::onnx::SymbolicExpr;

namespace {

SymbolicExpr e(const std::string &text) { return SymbolicExpr::parse(text); }

TEST(SymbolicExpr, CanonicalForm) {
  EXPECT_EQ(e("s70 + s17").str(), "s17 + s70");
  EXPECT_EQ(e("s70*2*s26").str(), "2*s26*s70");
  EXPECT_EQ(e("1 + past").str(), "past + 1");
  EXPECT_EQ(e("a - a").str(), "0");
  EXPECT_EQ(e("-a + 2").str(), "-a + 2");
  EXPECT_EQ(e("(a + b)*(a - b)").str(), "a*a - b*b");
  EXPECT_EQ(e(" 16 ").asConstant(), 16);
  EXPECT_EQ(e("batch_size * sequence_length").str(), "batch_size*sequence_length");
  EXPECT_EQ(e("min(1, b*s)").str(), "min(1, b*s)");
  EXPECT_EQ(e("2*nonzero(/layers.0/NonZero#17)").str(), "2*nonzero(/layers.0/NonZero#17)");
}

TEST(SymbolicExpr, WhatIsNoPolynomialIsOneName) {
  EXPECT_EQ(e("floor(s0/2) / 3").str(), "floor(s0/2) / 3");
  EXPECT_EQ(e("a b").str(), "a b");
  EXPECT_EQ(e("2x").str(), "2x");
  EXPECT_EQ(e("a**2").str(), "a**2");
  EXPECT_TRUE(e("").isUnknown());
  EXPECT_TRUE(e("99999999999999999999").asConstant() == std::nullopt);
}

// Parsing what str() wrote gives the same expression.
TEST(SymbolicExpr, RoundTrip) {
  for (const char *text : {"2*s26*s70 + s1 - 3", "-a", "max(a, b)*c - 1", "floordiv(a + 1, 2)", "0",
                           "-7", "min(max(a, 1), b) + c"}) {
    EXPECT_EQ(e(e(text).str()), e(text)) << text;
  }
}

TEST(SymbolicExpr, UnknownAbsorbs) {
  SymbolicExpr unknown;
  EXPECT_TRUE((unknown + e("a")).isUnknown());
  EXPECT_TRUE((e("a") * unknown).isUnknown());
  EXPECT_FALSE(unknown == unknown);
  EXPECT_EQ(unknown.str(), "");
}

TEST(SymbolicExpr, OverflowIsUnknown) {
  SymbolicExpr big = SymbolicExpr::constant(INT64_MAX);
  EXPECT_TRUE((big + SymbolicExpr::constant(1)).isUnknown());
  EXPECT_TRUE((big * SymbolicExpr::constant(2)).isUnknown());
  EXPECT_EQ(SymbolicExpr::constant(INT64_MIN).str(), "-9223372036854775808");
  SymbolicExpr sum = e("a");
  for (int i = 0; i < 100; ++i) {
    sum = sum * e("a + b");
  }
  EXPECT_TRUE(sum.isUnknown()); // bounded, not slow
}

TEST(SymbolicExpr, ExactDivision) {
  EXPECT_EQ(e("2*a*b").exactDiv(e("2*a")), e("b"));
  EXPECT_EQ(e("a*b + a*c").exactDiv(e("b + c")), e("a"));
  EXPECT_EQ(e("64*a").exactDiv(e("16")), e("4*a"));
  EXPECT_TRUE(e("a + 1").exactDiv(e("2")).isUnknown());
  EXPECT_TRUE(e("a").exactDiv(e("b")).isUnknown());
  EXPECT_TRUE(e("a").exactDiv(e("0")).isUnknown());
  EXPECT_EQ(e("0").exactDiv(e("a")), e("0"));
}

TEST(SymbolicExpr, FloorDivision) {
  EXPECT_EQ(SymbolicExpr::floorDiv(e("7"), 2), e("3"));
  EXPECT_EQ(SymbolicExpr::floorDiv(e("-7"), 2), e("-4"));
  EXPECT_EQ(SymbolicExpr::floorDiv(e("4*a"), 2), e("2*a"));
  EXPECT_EQ(SymbolicExpr::floorDiv(e("a + 1"), 2).str(), "floordiv(a + 1, 2)");
}

TEST(SymbolicExpr, Bounds) {
  EXPECT_TRUE(e("a + 1").isAtLeast(1));
  EXPECT_TRUE(e("a").isAtLeast(0));
  EXPECT_FALSE(e("a").isAtLeast(1)); // a size may be 0
  EXPECT_FALSE(e("a - b").isAtLeast(0));
  EXPECT_EQ(SymbolicExpr::min(e("a"), e("a + 3")), e("a"));
  EXPECT_EQ(SymbolicExpr::max(e("a"), e("a + 3")), e("a + 3"));
  EXPECT_EQ(SymbolicExpr::min(e("b"), e("a")).str(), "min(a, b)");
  EXPECT_EQ(SymbolicExpr::min(e("a"), e("b")), SymbolicExpr::min(e("b"), e("a")));
}

TEST(SymbolicExpr, HostileText) {
  e(std::string(100000, '('));
  e(std::string(100000, '-') + "a");
  e(std::string(1000, 'a') + "(");
  std::string product = "a";
  for (int i = 0; i < 1000; ++i) {
    product += "*(a+b)";
  }
  EXPECT_FALSE(e(product).isUnknown()); // one name
}

} // namespace
