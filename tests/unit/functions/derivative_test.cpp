// Derivatives against finite differences in float64, at what is equal on both sides, and far out.
#include "functions/derivative.h"

#include <gtest/gtest.h>

#include <cmath>

#include "functions/expressions.h"
#include "text.h"

namespace hydrac::functions {
namespace {

struct Case {
  std::string name;
  // The function of x and y.
  int (*build)(Expressions&, int x, int y);
  double low = -6, high = 6;  // where it has a derivative, but for the points of `corners`
  std::vector<double> corners = {};
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

Function function_of(const Case& c, Number number = Number::f64) {
  Expressions e(number);
  const int x = e.argument(0), y = e.argument(1);
  return e.take(c.build(e, x, y), "f", {"x", "y"});
}

const Case kCases[] = {
    {"Neg", [](Expressions& e, int x, int) { return e.apply(Op::neg, x); }},
    {"Abs",
     [](Expressions& e, int x, int y) { return e.apply(Op::mul, y, e.apply(Op::abs, x)); },
     -6,
     6,
     {0}},
    {"Exp", [](Expressions& e, int x, int) { return e.apply(Op::exp, e.apply(Op::mul, x, x)); }, -2, 2},
    {"Expm1", [](Expressions& e, int x, int) { return e.apply(Op::expm1, x); }},
    {"Log", [](Expressions& e, int x, int) { return e.apply(Op::log, x); }, 0.01, 9},
    {"Log1p", [](Expressions& e, int x, int) { return e.apply(Op::log1p, x); }, -0.9, 9},
    {"Tanh", [](Expressions& e, int x, int y) { return e.apply(Op::tanh, e.apply(Op::mul, x, y)); }},
    {"Erf", [](Expressions& e, int x, int) { return e.apply(Op::erf, x); }},
    {"Sqrt", [](Expressions& e, int x, int) { return e.apply(Op::sqrt, x); }, 0.01, 9},
    {"Sigmoid", [](Expressions& e, int x, int) { return e.apply(Op::sigmoid, x); }},
    {"Sin", [](Expressions& e, int x, int) { return e.apply(Op::sin, x); }},
    {"Cos", [](Expressions& e, int x, int y) { return e.apply(Op::cos, e.apply(Op::add, x, y)); }},
    {"PowerOfThree", [](Expressions& e, int x, int) { return e.power(x, 3); }},
    {"PowerOfMinusTwoAndAHalf", [](Expressions& e, int x, int) { return e.power(x, -2.5); }, 0.3, 5},
    {"PowerOfThreeTenths", [](Expressions& e, int x, int) { return e.power(x, 0.3); }, 0.1, 9},
    {"Sum", [](Expressions& e, int x, int y) { return e.apply(Op::add, x, e.apply(Op::mul, x, y)); }},
    {"Difference", [](Expressions& e, int x, int y) { return e.apply(Op::sub, y, e.apply(Op::exp, x)); }},
    {"Matmul", [](Expressions& e, int x,
                  int y) { return e.apply(Op::mul, e.apply(Op::sin, x), e.apply(Op::mul, x, y)); }},
    {"Quotient",
     [](Expressions& e, int x, int y) {
       return e.apply(Op::div, e.apply(Op::sin, x),
                      e.apply(Op::add, e.apply(Op::mul, x, x), e.apply(Op::exp, y)));
     }},
    {"Max",
     [](Expressions& e, int x, int) { return e.apply(Op::max, e.apply(Op::mul, x, x), e.constant(4)); },
     -6,
     6,
     {-2, 2}},
    {"Min",
     [](Expressions& e, int x, int) { return e.apply(Op::min, e.apply(Op::mul, x, x), x); },
     -6,
     6,
     {0, 1}},
    {"Choice",
     [](Expressions& e, int x, int y) {
       return e.select(e.apply(Op::less, e.constant(0), x), e.apply(Op::mul, x, y), e.apply(Op::expm1, x));
     },
     -6,
     6,
     {0}},
    {"SiluAsQuotient",
     [](Expressions& e, int x, int) {
       return e.apply(Op::div, x, e.apply(Op::add, e.constant(1), e.apply(Op::exp, e.apply(Op::neg, x))));
     }},
    {"Softplus", [](Expressions& e, int x,
                    int) { return e.apply(Op::log, e.apply(Op::add, e.constant(1), e.apply(Op::exp, x))); }},
    {"Mish",
     [](Expressions& e, int x, int) {
       return e.apply(Op::mul, x, e.apply(Op::tanh, e.apply(Op::log1p, e.apply(Op::exp, x))));
     }},
    {"ShiftedLogistic",
     [](Expressions& e, int x, int) {
       const int g = e.apply(Op::exp, e.apply(Op::mul, e.constant(2), x));
       return e.apply(Op::div, g, e.apply(Op::add, g, e.constant(1)));
     }},
};

class Derivative : public testing::TestWithParam<Case> {};

TEST_P(Derivative, IsThatOfFiniteDifferences) {
  const Function f = function_of(GetParam());
  const Function d[] = {derivative(f, 0), derivative(f, 1)};
  constexpr int kPoints = 400;
  const double h = 1e-5;
  for (int i = 0; i <= kPoints; ++i) {
    const double x = GetParam().low + (GetParam().high - GetParam().low) * (i + 0.37) / (kPoints + 1);
    bool is_near_a_corner = false;
    for (const double corner : GetParam().corners) is_near_a_corner |= std::abs(x - corner) < 10 * h;
    if (is_near_a_corner) continue;
    for (const double y : {-1.3, 0.4, 2.0}) {
      const double by_x = (evaluate<double>(f, {x + h, y}) - evaluate<double>(f, {x - h, y})) / (2 * h);
      const double by_y = (evaluate<double>(f, {x, y + h}) - evaluate<double>(f, {x, y - h})) / (2 * h);
      EXPECT_NEAR(evaluate<double>(d[0], {x, y}), by_x, 1e-6 * (1 + std::abs(by_x))) << x << " " << y;
      EXPECT_NEAR(evaluate<double>(d[1], {x, y}), by_y, 1e-6 * (1 + std::abs(by_y))) << x << " " << y;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Derivative, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

double slope_at(const Case& c, double x, double y = 0) {
  return evaluate<double>(derivative(function_of(c), 0), {x, y});
}

TEST(DerivativeOfEqualOnes, IsTheFirstOnesAsInLibTorch) {
  const Case max{"", [](Expressions& e, int x, int y) { return e.apply(Op::max, x, y); }};
  const Case max_second{"", [](Expressions& e, int x, int y) { return e.apply(Op::max, y, x); }};
  const Case min{"", [](Expressions& e, int x, int y) { return e.apply(Op::min, x, y); }};
  const Case abs{"", [](Expressions& e, int x, int) { return e.apply(Op::abs, x); }};
  EXPECT_EQ(slope_at(max, 3, 3), 1);
  EXPECT_EQ(slope_at(max_second, 3, 3), 0);
  EXPECT_EQ(slope_at(min, 3, 3), 1);
  EXPECT_EQ(slope_at(abs, 0), 0);
  EXPECT_EQ(slope_at(abs, -1e-300), -1);
}

TEST(DerivativeFarOut, StaysFiniteWhereTheFunctionIs) {
  for (const char* name :
       {"SiluAsQuotient", "Softplus", "Mish", "ShiftedLogistic", "Tanh", "Sigmoid", "Erf"}) {
    const Case* c =
        std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& k) { return k.name == name; });
    for (const double at : {60.0, -60.0, 1e4, -1e4}) {
      const Function f32 = function_of(*c, Number::f32), f64 = function_of(*c, Number::f64);
      const auto x32 = static_cast<float>(at);
      EXPECT_TRUE(std::isfinite(evaluate<float>(derivative(f32, 0), {x32, 1.0f}))) << name << " " << at;
      EXPECT_TRUE(std::isfinite(evaluate<double>(derivative(f64, 0), {at, 1.0}))) << name << " " << at;
    }
    EXPECT_EQ(where_derivative_overflows(function_of(*c, Number::f32), 0), std::nullopt) << name;
  }
}

TEST(DerivativeFarOut, OfSiluIsZeroAndOne) {
  const Case* silu = std::find_if(std::begin(kCases), std::end(kCases),
                                  [](const Case& k) { return k.name == "SiluAsQuotient"; });
  const Function d = derivative(function_of(*silu, Number::f32), 0);
  EXPECT_EQ(evaluate<float>(d, {1e4f, 0}), 1.0f);
  EXPECT_EQ(evaluate<float>(d, {60.0f, 0}), 1.0f);
  EXPECT_EQ(evaluate<float>(d, {-1e4f, 0}), 0.0f);
  EXPECT_NEAR(evaluate<float>(d, {-60.0f, 0}), 0.0f, 1e-23f);
}

TEST(DerivativeFarOut, IsFoundToOverflowWhereNothingHelps) {
  const Case sech{"", [](Expressions& e, int x, int) {
                    const int up = e.apply(Op::exp, x), down = e.apply(Op::exp, e.apply(Op::neg, x));
                    return e.apply(Op::div, e.constant(2), e.apply(Op::add, up, down));
                  }};
  EXPECT_EQ(where_derivative_overflows(function_of(sech, Number::f32), 0), 100.0);
  const Case root{"", [](Expressions& e, int x, int) { return e.apply(Op::sqrt, e.apply(Op::abs, x)); }};
  EXPECT_EQ(where_derivative_overflows(function_of(root, Number::f32), 0), 0.0);
}

TEST(DerivativeText, IsAsShortAsByHand) {
  const auto by_x = [](const Case& c) { return text_of(derivative(function_of(c), 0)); };
  EXPECT_EQ(by_x({"", [](Expressions& e, int x, int) { return e.power(x, 2); }}), "add(x, x)");
  EXPECT_EQ(by_x({"", [](Expressions& e, int x, int) { return e.apply(Op::mul, e.constant(3), x); }}), "3");
  EXPECT_EQ(by_x({"", [](Expressions& e, int x, int y) { return e.apply(Op::add, x, y); }}), "1");
  EXPECT_EQ(by_x({"", [](Expressions& e, int x, int y) { return e.apply(Op::div, x, y); }}), "div(1, y)");
  EXPECT_EQ(by_x({"", [](Expressions& e, int x, int) { return e.apply(Op::tanh, x); }}),
            "sub(1, mul(tanh(x), tanh(x)))");
}

TEST(DerivativeZero, IsRecognised) {
  const auto by_x = [](const Case& c) { return is_zero(derivative(function_of(c), 0)); };
  EXPECT_TRUE(by_x({"", [](Expressions&, int, int y) { return y; }}));
  EXPECT_TRUE(by_x({"", [](Expressions& e, int x, int) {
                      return e.select(e.apply(Op::less, x, e.constant(0)), e.constant(-1), e.constant(1));
                    }}));
  EXPECT_FALSE(by_x({"", [](Expressions&, int x, int) { return x; }}));
}

}  // namespace
}  // namespace hydrac::functions
