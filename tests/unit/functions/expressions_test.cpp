#include "functions/expressions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "text.h"

namespace hydrac::functions {
namespace {

class Simplified : public testing::Test {
 protected:
  std::string text(int result) const { return text_of(e.take(result, "f", {"x", "y"})); }

  Expressions e{Number::f32};
  int x = e.argument(0), y = e.argument(1);
};

TEST_F(Simplified, EqualOnesAreOne) {
  EXPECT_EQ(e.apply(Op::exp, x), e.apply(Op::exp, x));
  EXPECT_EQ(e.argument(0), x);
  const size_t size = e.size();
  e.apply(Op::exp, x);
  EXPECT_EQ(e.size(), size);
}

TEST_F(Simplified, WhatChangesNothingIsLeftOut) {
  EXPECT_EQ(e.apply(Op::add, x, e.constant(0)), x);
  EXPECT_EQ(e.apply(Op::sub, x, e.constant(0)), x);
  EXPECT_EQ(e.apply(Op::mul, e.constant(1), x), x);
  EXPECT_EQ(e.apply(Op::div, x, e.constant(1)), x);
  EXPECT_EQ(e.apply(Op::neg, e.apply(Op::neg, x)), x);
  EXPECT_EQ(e.select(e.apply(Op::less, x, y), y, y), y);
  EXPECT_EQ(text(e.apply(Op::mul, x, e.constant(-1))), "neg(x)");
  EXPECT_EQ(text(e.apply(Op::add, x, e.apply(Op::neg, y))), "sub(x, y)");
  EXPECT_EQ(text(e.apply(Op::neg, e.apply(Op::mul, e.constant(2), x))), "mul(-2, x)");
  const int less = e.apply(Op::less, x, y);
  EXPECT_EQ(text(e.select(e.apply(Op::logical_not, less), x, y)), "select(less(x, y), y, x)");
}

// 0 * inf is NaN, and stays so in what a user wrote.
TEST_F(Simplified, AMatmulWithZeroIsKept) {
  EXPECT_EQ(text(e.apply(Op::mul, e.constant(0), x)), "mul(0, x)");
}

TEST_F(Simplified, ConstantsAreComputedInTheFunctionsType) {
  const int third = e.apply(Op::div, e.constant(1), e.constant(3));
  EXPECT_EQ(e.node(third).number, static_cast<double>(1.0f / 3.0f));
  Expressions wide(Number::f64);
  EXPECT_EQ(wide.node(wide.apply(Op::div, wide.constant(1), wide.constant(3))).number, 1.0 / 3.0);
}

TEST_F(Simplified, NoConstantIsInfinite) {
  EXPECT_EQ(text(e.apply(Op::log, e.constant(0))), "log(0)");
  EXPECT_EQ(text(e.apply(Op::div, e.constant(1), e.constant(0))), "div(1, 0)");
}

TEST_F(Simplified, SigmoidsAreRecognised) {
  const int one = e.constant(1), minus = e.apply(Op::neg, x);
  const int up = e.apply(Op::exp, x), down = e.apply(Op::exp, minus);
  EXPECT_EQ(text(e.apply(Op::div, one, e.apply(Op::add, one, down))), "sigmoid(x)");
  EXPECT_EQ(text(e.apply(Op::div, one, e.apply(Op::add, down, one))), "sigmoid(x)");
  EXPECT_EQ(text(e.apply(Op::div, x, e.apply(Op::add, one, down))), "mul(x, sigmoid(x))");
  EXPECT_EQ(text(e.apply(Op::div, up, e.apply(Op::add, one, up))), "sigmoid(x)");
  EXPECT_EQ(text(e.apply(Op::div, e.apply(Op::mul, y, up), e.apply(Op::add, up, one))), "mul(y, sigmoid(x))");
  EXPECT_EQ(text(e.apply(Op::div, one, e.apply(Op::add, one, up))), "sigmoid(neg(x))");
  const int scaled = e.apply(Op::exp, e.apply(Op::mul, e.constant(-1.75), x));
  EXPECT_EQ(text(e.apply(Op::div, x, e.apply(Op::add, one, scaled))), "mul(x, sigmoid(mul(1.75, x)))");
  EXPECT_EQ(text(e.apply(Op::div, x, e.apply(Op::add, e.constant(2), down))), "div(x, add(2, exp(neg(x))))");
}

TEST_F(Simplified, ConditionsAreNoNumbers) {
  const int less = e.apply(Op::less, x, y), equal = e.apply(Op::equal, x, y);
  const int yes = e.constant(1), no = e.constant(0);
  EXPECT_EQ(text(e.select(e.select(less, yes, no), x, y)),
            "select(equal(select(less(x, y), 1, 0), 0), y, x)");
  EXPECT_EQ(text(e.select(e.select(less, yes, equal), x, y)),
            "select(logical_or(less(x, y), logical_and(logical_not(less(x, y)), equal(x, y))), x, y)");
  EXPECT_EQ(e.select(e.apply(Op::less, e.constant(1), e.constant(2)), x, y), x);
  EXPECT_EQ(e.apply(Op::logical_and, less, yes), less);
  EXPECT_EQ(e.apply(Op::logical_and, no, less), no);
  EXPECT_EQ(e.apply(Op::logical_or, less, yes), yes);
  EXPECT_EQ(e.apply(Op::logical_or, no, less), less);
}

TEST_F(Simplified, PowersAreMatmulsAndRoots) {
  EXPECT_EQ(e.power(x, 1), x);
  EXPECT_EQ(text(e.power(x, 0)), "1");
  EXPECT_EQ(text(e.power(x, 2)), "mul(x, x)");
  EXPECT_EQ(text(e.power(x, 3)), "mul(mul(x, x), x)");
  EXPECT_EQ(text(e.power(x, -1)), "div(1, x)");
  EXPECT_EQ(text(e.power(x, 0.5)), "sqrt(x)");
  EXPECT_EQ(text(e.power(x, 1.5)), "mul(x, sqrt(x))");
  EXPECT_EQ(text(e.power(x, 0.3)), "pow(x, 0.3)");
  EXPECT_EQ(text(e.power(x, 17)), "pow(x, 17)");
}

TEST_F(Simplified, OnlyWhatIsNeededIsTaken) {
  e.apply(Op::tanh, y);
  const Function f = e.take(e.apply(Op::mul, x, x), "square", {"x", "y"});
  EXPECT_EQ(f.nodes.size(), 2u);
  EXPECT_EQ(f.result, 1);
  EXPECT_EQ(evaluate<float>(f, {3, 0}), 9.0f);
}

TEST_F(Simplified, AFixedParameterIsComputedWith) {
  const int half = e.apply(Op::mul, e.constant(0.5), y);
  const int result =
      e.select(e.apply(Op::less, x, half), e.power(e.apply(Op::div, x, y), 0.3), e.apply(Op::exp, half));
  const Function f = bound(e.take(result, "f", {"x", "y"}), 1, 4);
  EXPECT_EQ(text_of(f), "select(less(x, 2), pow(div(x, 4), 0.3), 7.38906)");
  EXPECT_EQ(f.parameters.size(), 2u);
}

TEST_F(Simplified, NotANumberComesThroughTheFirstOfTwo) {
  const float nan = std::nanf("");
  const Function f = e.take(e.apply(Op::max, x, y), "f", {"x", "y"});
  EXPECT_TRUE(std::isnan(evaluate<float>(f, {nan, 1})));
  EXPECT_EQ(evaluate<float>(f, {1, nan}), 1.0f);
}

}  // namespace
}  // namespace hydrac::functions
