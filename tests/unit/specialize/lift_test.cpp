// What is lifted computes what the compiler makes of the same text.
#define __device__
#define __forceinline__ inline
#include "constructs.h"
#undef __device__
#undef __forceinline__

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "examples/ops/huber.h"
#include "examples/ops/quick_gelu.h"
#include "examples/ops/step_decay.h"
#include "specialize/lift/lift_function.h"
#include "tests/unit/specialize/wanted.h"
#include "tests/unit/support/source_dir.h"

namespace hydrac::specialize {
namespace {

using functions::Function;
using functions::Number;

std::string read(const std::string& path) {
  std::ifstream stream(hydrac::test::source_dir() + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Function lifted(const std::string& path, const std::string& name,
                const WantedFunction& wanted = kActivation) {
  LiftedFunction result = lift_function(path, read(path), name, wanted);
  for (const FunctionProblem& problem : result.errors)
    ADD_FAILURE() << problem.line << ":" << problem.column << ": " << problem.message;
  return result.function ? *result.function : Function{name, {"x"}, Number::f32, {{}}, 0};
}

struct Construct {
  const char* name;
  float (*compiled)(float);
  double tolerance = 0;  // relative: for what is lifted into other operations
};

void PrintTo(const Construct& c, std::ostream* os) {
  *os << c.name;
}

#define EXACT(name) \
  { #name, constructs::name }
const Construct kConstructs[] = {
    EXACT(arithmetic),
    EXACT(whole_numbers_widen),
    EXACT(constants),
    EXACT(ternaries),
    EXACT(comparisons),
    EXACT(logic),
    EXACT(conditions_from_conditions),
    EXACT(const_locals),
    EXACT(mutable_locals),
    EXACT(assigned_in_branches),
    EXACT(early_returns),
    EXACT(nested_blocks),
    EXACT(calls),
    {"math_of_c", constructs::math_of_c, 2e-6},
    {"math_of_std", constructs::math_of_std, 2e-6},
    {"math_by_others", constructs::math_by_others, 4e-6},
    {"logistic", constructs::logistic, 1e-6},
    EXACT(compile_time),
    EXACT(shared_with_cuda),
};

class Lifted : public testing::TestWithParam<Construct> {};

TEST_P(Lifted, ComputesWhatTheCompiledFunctionDoes) {
  const Function f = lifted("tests/unit/specialize/constructs.h", GetParam().name);
  EXPECT_EQ(f.name, GetParam().name);
  EXPECT_EQ(f.parameters, std::vector<std::string>{"x"});
  for (int i = -400; i <= 400; ++i) {
    const float x = static_cast<float>(i) / 64.0f;
    const float expected = GetParam().compiled(x);
    EXPECT_NEAR(functions::evaluate<float>(f, {x}), expected, GetParam().tolerance * (1 + std::abs(expected)))
        << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Constructs, Lifted, testing::ValuesIn(kConstructs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LiftedExample, QuickGeluIsFoundToBeASigmoid) {
  const Function f = lifted("examples/ops/quick_gelu.h", "quick_gelu");
  ASSERT_EQ(f.nodes.size(), 5u);
  EXPECT_EQ(f.nodes[3].op, functions::Op::sigmoid);
  EXPECT_EQ(f.nodes[1].number, static_cast<double>(1.702f));
  for (const float x : {-1e4f, -60.0f, -3.0f, 0.0f, 0.1f, 2.0f, 60.0f, 1e4f})
    EXPECT_NEAR(functions::evaluate<float>(f, {x}), quick_gelu(x), 1e-6f * std::abs(x)) << x;
}

TEST(LiftedExample, QuickGegluHasTwoParameters) {
  const Function f = lifted("examples/ops/quick_gelu.h", "quick_geglu");
  EXPECT_EQ(f.parameters, (std::vector<std::string>{"gate", "up"}));
  EXPECT_NEAR(functions::evaluate<float>(f, {1.5f, -2.0f}), quick_geglu(1.5f, -2.0f), 1e-6f);
}

TEST(LiftedExample, HuberAndItsCorners) {
  const WantedFunction loss{.signatures = {"float f(float prediction, float target)"}, .differentiated = 1};
  const Function f = lifted("examples/ops/huber.h", "huber", loss);
  for (const float y : {-3.0f, -1.0f, -0.5f, 0.0f, 0.999f, 1.0f, 1.001f, 7.0f})
    EXPECT_EQ(functions::evaluate<float>(f, {y + 2.0f, 2.0f}), huber(y + 2.0f, 2.0f)) << y;
}

TEST(LiftedExample, StepDecayIsComputedInDouble) {
  const Function f = lifted("examples/ops/step_decay.h", "step_decay", kCurve);
  EXPECT_EQ(f.number, Number::f64);
  for (const double step : {0.0, 499.0, 500.0, 749.0, 750.0, 999.0})
    EXPECT_EQ(functions::evaluate<double>(f, {step, 1000.0}), step_decay(step, 1000.0)) << step;
}

TEST(Lifting, StepFunctionsAreFineWhereNothingIsDifferentiated) {
  const std::string text =
      "#include <cmath>\nfloat f(float s, float m) { return std::pow(0.5f, std::floor(s / 100)) + "
      "std::ceil(s / m); }\n";
  const LiftedFunction result = lift_function("f.h", text, "f", kCurve);
  ASSERT_TRUE(result.function);
  EXPECT_NEAR(functions::evaluate<float>(*result.function, {250, 1000}), 0.25f + 1.0f, 1e-6f);
}

TEST(Lifting, WarnsOfADerivativeThatOverflows) {
  const std::string text =
      "#include <cmath>\n\nfloat sech(float x) {\n  return 2.0f / (std::exp(x) + std::exp(-x));\n}\n";
  const LiftedFunction result = lift_function("f.h", text, "sech", kActivation);
  EXPECT_TRUE(result.function);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(result.warnings[0],
            (FunctionProblem{
                3, 7,
                "the derivative of sech by x is not finite at 100, where its value is: it would make all "
                "gradients NaN",
                "1 / (1 + exp(-x)), tanh and erf are differentiated without overflow; or choose another "
                "formula far out with ? :"}));
}

}  // namespace
}  // namespace hydrac::specialize
