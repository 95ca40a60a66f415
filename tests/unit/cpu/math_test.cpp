// Accuracy and limits of hydrac/math.h against double. This file is compiled twice: for this machine, and for
// a baseline without fused multiply-add.
#include "hydrac/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrac {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the float nearest to `exact`.
double ulp_error(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0.0 : kInf;
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest)) return got == nearest ? 0.0 : kInf;
  if (!std::isfinite(got)) return kInf;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - exact) / ulp;
}

// Every `step`-th bit pattern of all floats up to magnitude `limit`, both signs: denormals, huge values,
// infinities and NaN included.
template <class Approximate, class Exact>
double worst_error(Approximate approximate, Exact exact, float limit = kInf, std::uint32_t step = 331) {
  double worst = 0.0;
  float where = 0.0f;
  const std::uint32_t last = limit == kInf ? 0x7FC00000u : float_bits(limit);
  for (std::uint32_t bits = 0; bits <= last; bits += step) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const float x = float_from_bits(bits | sign);
      const double error = ulp_error(approximate(x), exact(static_cast<double>(x)));
      if (error > worst) worst = error, where = x;
    }
  }
  ::testing::Test::RecordProperty("worst_ulp", std::to_string(worst));
  std::printf("             worst error %.3f ulp, at %a (%.9g)\n", worst, where, where);
  return worst;
}

TEST(Math, ExpIsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return exp(x); }, [](double x) { return std::exp(x); }), 1.1);
}
TEST(Math, LogIsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return log(x); }, [](double x) { return std::log(x); }), 1.0);
}
TEST(Math, Expm1IsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return expm1(x); }, [](double x) { return std::expm1(x); }), 2.5);
}
TEST(Math, Log1pIsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return log1p(x); }, [](double x) { return std::log1p(x); }), 2.5);
}
TEST(Math, RsqrtIsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return rsqrt(x); }, [](double x) { return 1.0 / std::sqrt(x); }), 1.5);
}
TEST(Math, TanhIsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }), 1.5);
}
TEST(Math, ErfIsWithinItsErrorEverywhere) {
  EXPECT_LE(worst_error([](float x) { return erf(x); }, [](double x) { return std::erf(x); }), 1.5);
}
TEST(Math, SigmoidIsWithinItsErrorEverywhere) {
  EXPECT_LE(
      worst_error([](float x) { return sigmoid(x); }, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }),
      1.5);
}
TEST(Math, SinAndCosAreWithinTheirErrorUpToTheirRange) {
  EXPECT_LE(worst_error([](float x) { return sin(x); }, [](double x) { return std::sin(x); }, 0x1p20f), 1.9);
  EXPECT_LE(worst_error([](float x) { return cos(x); }, [](double x) { return std::cos(x); }, 0x1p20f), 1.9);
}

TEST(Math, SinAndCosStayAccurateNextToMultiplesOfHalfPi) {
  double worst = 0.0;
  const double half_pi = std::acos(0.0);
  for (int k = 1; k * half_pi < 0x1p20; ++k) {
    const float nearest = static_cast<float>(k * half_pi);
    for (float x : {std::nextafter(nearest, 0.0f), nearest, std::nextafter(nearest, kInf)}) {
      if (x >= 0x1p20f) continue;
      worst = std::max(worst, ulp_error(sin(x), std::sin(static_cast<double>(x))));
      worst = std::max(worst, ulp_error(cos(x), std::cos(static_cast<double>(x))));
    }
  }
  std::printf("             worst error %.3f ulp\n", worst);
  EXPECT_LE(worst, 1.9);
}

TEST(Math, EdgesAreExact) {
  EXPECT_EQ(exp(-kInf), 0.0f);
  EXPECT_EQ(exp(kInf), kInf);
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-1e30f), 0.0f);
  EXPECT_EQ(exp(1e30f), kInf);
  EXPECT_EQ(log(0.0f), -kInf);
  EXPECT_EQ(log(-0.0f), -kInf);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_EQ(log(kInf), kInf);
  EXPECT_EQ(expm1(-kInf), -1.0f);
  EXPECT_EQ(expm1(kInf), kInf);
  EXPECT_EQ(log1p(-1.0f), -kInf);
  EXPECT_EQ(log1p(kInf), kInf);
  EXPECT_EQ(rsqrt(0.0f), kInf);
  EXPECT_EQ(rsqrt(kInf), 0.0f);
  EXPECT_EQ(tanh(kInf), 1.0f);
  EXPECT_EQ(tanh(-kInf), -1.0f);
  EXPECT_EQ(erf(kInf), 1.0f);
  EXPECT_EQ(erf(-kInf), -1.0f);
  EXPECT_EQ(sigmoid(kInf), 1.0f);
  EXPECT_EQ(sigmoid(-kInf), 0.0f);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(sin(0.0f), 0.0f);
  EXPECT_EQ(cos(0.0f), 1.0f);
  EXPECT_TRUE(std::signbit(tanh(-0.0f)));
  EXPECT_TRUE(std::signbit(erf(-0.0f)));
  EXPECT_TRUE(std::signbit(expm1(-0.0f)));
  EXPECT_TRUE(std::signbit(log1p(-0.0f)));
}

TEST(Math, NotANumberAndNegativeDomainsGiveNotANumber) {
  for (float (*function)(float) : {exp, expm1, log, log1p, rsqrt, tanh, erf, sigmoid, sin, cos}) {
    EXPECT_TRUE(std::isnan(function(kNan)));
    EXPECT_TRUE(std::isnan(function(-kNan)));
  }
  EXPECT_TRUE(std::isnan(log(-1.0f)));
  EXPECT_TRUE(std::isnan(log(-kInf)));
  EXPECT_TRUE(std::isnan(log1p(-1.5f)));
  EXPECT_TRUE(std::isnan(rsqrt(-1.0f)));
  EXPECT_TRUE(std::isnan(sin(kInf)));
  EXPECT_TRUE(std::isnan(cos(-kInf)));
}

TEST(Math, OddFunctionsAreOddAndSigmoidsAddToOne) {
  for (float x = 0.0f; x < 12.0f; x += 0.00137f) {
    EXPECT_EQ(tanh(-x), -tanh(x));
    EXPECT_EQ(erf(-x), -erf(x));
    EXPECT_EQ(sin(-x), -sin(x));
    EXPECT_EQ(cos(-x), cos(x));
    EXPECT_NEAR(sigmoid(x) + sigmoid(-x), 1.0f, 1.2e-7f);
  }
}

}  // namespace
}  // namespace hydrac
