// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normal forms of conditions and additive masks.
#include "compiler/raise/IndexExpression.h"

#include <gtest/gtest.h>
#include <limits>

using namespace sluicec::raise;

namespace {

const SymbolicExpr kKey = indexAtom(3), kQuery = indexAtom(2);
const SymbolicExpr kOne = SymbolicExpr::constant(1);

TEST(Condition, NegationStandsInTheComparison) {
  Condition causal = Condition::atLeastZero(kQuery - kKey);
  EXPECT_EQ(causal.negated().str(), "-%2 + %3 - 1 >= 0");
  EXPECT_EQ(causal.negated().negated(), causal);
  EXPECT_EQ(Condition::notZero(kKey).negated(), Condition::zero(kKey));
}

TEST(Condition, KnowsSizesAreNotNegative) {
  EXPECT_EQ(Condition::atLeastZero(kKey), Condition::always());
  EXPECT_EQ(Condition::atLeastZero(-kKey - kOne), Condition::never());
  EXPECT_EQ(Condition::atLeastZero(kKey - kOne).kind, Condition::Kind::AtLeastZero);
}

TEST(Condition, JoinsFlatAndOnce) {
  Condition a = Condition::atLeastZero(kQuery - kKey), b = Condition::notZero(kKey);
  Condition both = Condition::both(Condition::both(a, b), a);
  EXPECT_EQ(both.conjuncts(), (std::vector<Condition>{a, b}));
  EXPECT_EQ(Condition::both(both, Condition::always()), both);
  EXPECT_EQ(Condition::both(both, Condition::never()), Condition::never());
  EXPECT_EQ(Condition::either(both, Condition::always()), Condition::always());
  // not (a and b) is (not a) or (not b)
  EXPECT_EQ(both.negated(), Condition::either(a.negated(), b.negated()));
}

TEST(AdditiveMask, NestedSelectsAreTheirConditions) {
  Condition a = Condition::atLeastZero(kQuery - kKey), b = Condition::notZero(kKey);
  RealExpr shown = RealExpr::constant(0.0),
           hidden = RealExpr::constant(-std::numeric_limits<double>::infinity());
  RealExpr inner = RealExpr::select(b, shown, RealExpr::constant(-65504.0));
  EXPECT_EQ(asAdditiveMask(RealExpr::select(a, inner, hidden)), Condition::both(a, b));
  EXPECT_EQ(asAdditiveMask(RealExpr::select(a, hidden, shown)), a.negated());
}

TEST(AdditiveMask, ABiasIsNoMask) {
  EXPECT_FALSE(asAdditiveMask(RealExpr::constant(-1.0)));
  EXPECT_FALSE(asAdditiveMask(RealExpr::affine(-0.5, kKey)));
  EXPECT_EQ(asAdditiveMask(RealExpr::constant(0.0)), Condition::always());
}

} // namespace
