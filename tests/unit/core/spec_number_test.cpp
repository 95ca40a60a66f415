// Numbers of the spec in kernels: hyper::beta1.
#include <gtest/gtest.h>

#include "codegen/spec_numbers.h"
#include "ir/body_builder.h"
#include "ir/number.h"

namespace hydrac::test {
namespace {

using ir::Number;

const Number kBeta = ir::spec_number("beta1", 0.9, "train.optimizer.betas, the first");
const Number kSteps = ir::spec_number("max_steps", int64_t{100}, "train.max_steps");

TEST(SpecNumber, ItsValueAndItsTextAreComputedTogether) {
  const Number half = (1 - kBeta) / 2;
  EXPECT_EQ(half.value, (1 - 0.9) / 2);
  EXPECT_EQ(half.formula.text, "(1.0 - hyper::beta1) / 2.0");
  EXPECT_EQ((kSteps - kBeta * 65536).formula.text, "hyper::max_steps - (hyper::beta1 * 65536.0)");
  EXPECT_EQ((kSteps - kBeta).formula.of.size(), 2u);
  EXPECT_EQ((kBeta - kBeta).formula.of.size(), 1u);
  EXPECT_EQ(truncated(kBeta * 10).value, 9);
  EXPECT_EQ(truncated(kBeta * 10).formula.text, "static_cast<std::uint32_t>(hyper::beta1 * 10.0)");
}

// A graph with kernels that compute x * number.
ir::Graph graph_of(const std::vector<Number>& numbers) {
  ir::Graph graph;
  ir::Function& function = graph.functions.emplace_back();
  ir::Region& region = function.regions.emplace_back();
  for (const Number& number : numbers) {
    ir::Value value;
    value.shape = {{4, "B"}};
    const ir::Use x{graph.add(value), {}}, y{graph.add(value), {}};
    ir::Node node{.inputs = {x}, .outputs = {y}};
    ir::BodyBuilder k(graph, node, value.shape);
    k.store_row(0, k.per_row(0) * k.constant(number, ir::ExprType::f32, "kFactor"));
    node.body = std::make_shared<const ir::Body>(k.take());
    region.nodes.push_back(node);
  }
  return graph;
}

std::string defined(const std::vector<Number>& numbers) {
  codegen::Block block;
  codegen::SpecNumbers(graph_of(numbers))
      .define(block, "constexpr float kFactor", numbers[0].formula, "0.1f");
  return block.text(0);
}

TEST(SpecNumber, AKernelNamesIt) {
  EXPECT_EQ(defined({1 - kBeta}), "constexpr float kFactor = 1.0 - hyper::beta1;\n");
  EXPECT_EQ(defined({log(kBeta)}),
            "constexpr float kFactor = 0.1f;\n"
            "static_assert(hyper::beta1 == 0.9);  // the number above follows from it\n");
}

TEST(SpecNumber, ANameOfTwoValuesIsNone) {
  EXPECT_EQ(defined({1 - kBeta, ir::spec_number("beta1", 0.8, "another")}),
            "constexpr float kFactor = 0.1f;\n");
}

TEST(SpecNumber, EqualOnesOfTwoNamesAreTwoConstants) {
  ir::Graph graph;
  ir::Value value;
  value.shape = {{4, "B"}};
  const ir::Node node{.inputs = {{graph.add(value), {}}}};
  ir::BodyBuilder k(graph, node, value.shape);
  const Number same = ir::spec_number("momentum", 0.9, "train.optimizer.momentum");
  const ir::Term a = k.constant(kBeta, ir::ExprType::f32, "kBeta"),
                 b = k.constant(same, ir::ExprType::f32, "kMu");
  EXPECT_NE(a.id, b.id);
  EXPECT_EQ(k.constant(kBeta, ir::ExprType::f32, "kBeta").id, a.id);
}

TEST(SpecNumber, DeclaresWhatIsNamed) {
  const std::vector<ir::SpecNumber> numbers = {kBeta.formula.of[0], kSteps.formula.of[0]};
  EXPECT_EQ(codegen::number_constants(numbers, {"hyper::max_steps"}),
            "namespace hyper {\ninline constexpr std::int64_t max_steps = 100;\n}  // namespace hyper\n");
  EXPECT_EQ(codegen::number_constants(numbers, {}), "");
}

}  // namespace
}  // namespace hydrac::test
