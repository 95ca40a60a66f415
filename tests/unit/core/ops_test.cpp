// Every op: its body equals its reference in float64, and its gradient rule equals finite differences of the
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "interpreter.h"
#include "op_cases.h"
#include "ops/gradient.h"
#include "passes/passes.h"

namespace hydrac::test {
namespace {

using Kind = CaseInput::Kind;

// One op in a graph of its own, with inputs, and what the reference makes of them.
class Call {
 public:
  explicit Call(const OpCase& op) : op_(op), random_(11) {
    graph_.functions.push_back({"call", {}});
    graph_.functions[0].regions.push_back({"forward", 0, false, false, {}});
    for (const CaseInput& input : op.inputs) {
      std::vector<double> values = input.values;
      if (input.kind == Kind::absent) {
        uses_.push_back({});
        values_.push_back({});
        continue;
      }
      if (values.empty()) values = normals(element_count(input.shape));
      uses_.push_back({add("x" + std::to_string(uses_.size()), input.shape, input.dtype,
                           input.kind == Kind::parameter ? ir::Role::parameter : ir::Role::input),
                       {}});
      values_.push_back({sizes(input.shape), std::move(values)});
    }
    ops::RegionBuilder builder(graph_, graph_.functions[0].regions[0]);
    op.build(builder, uses_);
    node_ = graph_.functions[0].regions[0].nodes.back();
  }

  // Inputs in the order of the node's.
  std::vector<ops::Tensor64> reference(const std::vector<ops::Tensor64>& values) const {
    std::vector<ops::Tensor64> inputs, outputs;
    for (ir::Use use : node_.inputs) {
      const auto found = std::ranges::find(uses_, use);
      inputs.push_back(use.value == ir::kNoValue ? ops::Tensor64{} : values[found - uses_.begin()]);
    }
    for (ir::Use use : node_.outputs)
      outputs.push_back(
          {sizes(graph_.value(use).shape), std::vector<double>(element_count(graph_.value(use).shape))});
    ops::op_info(node_.op).reference(node_, inputs, outputs);
    return outputs;
  }

  void lower() {
    passes::Log log;
    passes::layout(graph_, log);
    passes::expand(graph_, {}, log);
  }

  Interpreter ready() const {
    Interpreter interpreter(graph_);
    for (size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].value != ir::kNoValue) interpreter.write(uses_[i], values_[i].data);
    }
    return interpreter;
  }

  ir::ValueId add(const std::string& name, const ir::Shape& shape, ir::DType dtype, ir::Role role) {
    ir::Value value;
    value.name = name;
    value.shape = shape;
    value.dtype = dtype;
    value.role = role;
    return graph_.add(std::move(value));
  }

  std::vector<double> normals(int64_t count) {
    std::normal_distribution<double> normal(0, 1);
    std::vector<double> values(count);
    for (double& value : values) value = normal(random_);
    return values;
  }

  static std::vector<int64_t> sizes(const ir::Shape& shape) {
    std::vector<int64_t> result;
    for (const ir::Dim& dim : shape) result.push_back(dim.size);
    return result;
  }

  const OpCase& op_;
  std::mt19937 random_;
  ir::Graph graph_;
  std::vector<ir::Use> uses_;  // of the case's inputs
  std::vector<ops::Tensor64> values_;
  ir::Node node_;
};

// The least a gradient rule can be run with.
class RuleGradient final : public ops::Gradient {
 public:
  RuleGradient(Call& call, ir::Region& region, bool accumulate)
      : Gradient(call.graph_, region), call_(call), accumulate_(accumulate) {}

  std::optional<ir::Use> of(ir::Use output) override {
    const auto found = outputs.find(output);
    return found == outputs.end() ? std::nullopt : std::optional(found->second);
  }
  bool wanted(ir::Use input) const override {
    return input.value != ir::kNoValue && kind_of(input) != Kind::constant;
  }
  void contribute(ir::Use input, ir::Use gradient) override {
    EXPECT_TRUE(wanted(input));
    EXPECT_EQ(shape(input), shape(gradient));
    contributions[input].push_back(gradient);
  }
  ops::ParameterGradient parameter(ir::Use parameter) override {
    EXPECT_EQ(kind_of(parameter), Kind::parameter);
    const ir::Use target{call_.add(name_of(parameter), shape(parameter), ir::DType::f32, ir::Role::gradient),
                         {}};
    contributions[parameter].push_back(target);
    targets.push_back(target);
    return {target, accumulate_};
  }

  std::map<ir::Use, ir::Use> outputs;
  std::map<ir::Use, std::vector<ir::Use>> contributions;
  std::vector<ir::Use> targets;  // of parameters

 private:
  Kind kind_of(ir::Use input) const {
    return call_.op_.inputs[std::ranges::find(call_.uses_, input) - call_.uses_.begin()].kind;
  }
  Call& call_;
  bool accumulate_;
};

class Ops : public testing::TestWithParam<OpCase> {};

TEST_P(Ops, EqualsItsReference) {
  Call call(GetParam());
  const std::vector<ops::Tensor64> expected = call.reference(call.values_);
  call.lower();
  Interpreter interpreter = call.ready();
  interpreter.run("call");
  for (size_t o = 0; o < expected.size(); ++o) {
    const std::vector<double> found = interpreter.read(call.node_.outputs[o]);
    ASSERT_EQ(found.size(), expected[o].data.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[o].data[i], 1e-12 * (1 + std::abs(expected[o].data[i])))
          << "output " << o << " element " << i;
    }
  }
}

// What differs between the rule's result and finite differences of sum(weights * outputs).
void check_gradient(const OpCase& op, bool accumulate) {
  Call call(op);
  call.graph_.functions[0].regions.push_back({"backward", 0, false, true, {}});
  RuleGradient rule(call, call.graph_.functions[0].regions[1], accumulate);
  std::map<size_t, std::pair<ir::Use, std::vector<double>>> weights;
  for (size_t o : op.outputs_with_gradient) {
    const ir::Shape shape = call.graph_.value(call.node_.outputs[o]).shape;
    const ir::Use weight{call.add("d_y" + std::to_string(o), shape, ir::DType::f32, ir::Role::input), {}};
    std::vector<double> values = op.unit_gradient ? std::vector<double>(element_count(shape), 1.0)
                                                  : call.normals(element_count(shape));
    weights[o] = {weight, values};
    rule.outputs[call.node_.outputs[o]] = weight;
  }
  ops::op_info(call.node_.op).gradient(rule, call.node_);
  call.lower();
  Interpreter interpreter = call.ready();
  for (const auto& [o, weight] : weights) interpreter.write(weight.first, weight.second);
  const double before = accumulate ? 0.5 : std::nan("");
  for (ir::Use target : rule.targets)
    interpreter.write(target, std::vector<double>(element_count(call.graph_.value(target).shape), before));
  interpreter.run("call");

  const auto weighted_sum = [&](const std::vector<ops::Tensor64>& values) {
    const std::vector<ops::Tensor64> outputs = call.reference(values);
    double sum = 0;
    for (const auto& [o, weight] : weights) {
      for (size_t i = 0; i < weight.second.size(); ++i) sum += weight.second[i] * outputs[o].data[i];
    }
    return sum;
  };
  for (size_t x = 0; x < op.inputs.size(); ++x) {
    if (op.inputs[x].kind == Kind::constant || op.inputs[x].kind == Kind::absent) continue;
    std::vector<double> found(call.values_[x].data.size(), 0.0);
    ASSERT_FALSE(rule.contributions[call.uses_[x]].empty()) << "input " << x;
    for (ir::Use part : rule.contributions[call.uses_[x]]) {
      const std::vector<double> values = interpreter.read(part);
      for (size_t i = 0; i < found.size(); ++i) found[i] += values[i];
    }
    const bool is_parameter = op.inputs[x].kind == Kind::parameter;
    for (size_t i = 0; i < found.size(); ++i) {
      std::vector<ops::Tensor64> moved = call.values_;
      const double step = 1e-5;
      moved[x].data[i] += step;
      const double above = weighted_sum(moved);
      moved[x].data[i] -= 2 * step;
      const double expected = (above - weighted_sum(moved)) / (2 * step);
      const double value = found[i] - (is_parameter && accumulate ? 0.5 : 0);
      // A table longer than the sequence keeps what its other rows held.
      if (op.name == "position_embeddingLongTable" && is_parameter && i >= 20) {
        EXPECT_EQ(expected, 0);
        EXPECT_TRUE(accumulate ? value == 0 : std::isnan(value));
        continue;
      }
      EXPECT_NEAR(value, expected, 1e-6 * std::abs(expected) + 1e-9) << "input " << x << " element " << i;
    }
  }
}

TEST_P(Ops, GradientEqualsFiniteDifferences) {
  const OpCase& op = GetParam();
  const Call call(op);
  // These have none of some operands: of positions, and of tokens before the first.
  const bool may_have_none = call.node_.op == ir::Op::rope || call.node_.op == ir::Op::sum_taps ||
                             call.node_.op == ir::Op::value_shift;
  ASSERT_EQ(ops::op_info(call.node_.op).gradient != nullptr, op.has_gradient || may_have_none)
      << "the case says otherwise";
  if (!op.has_gradient) return;
  for (bool accumulate : {false, true}) check_gradient(op, accumulate);
}

INSTANTIATE_TEST_SUITE_P(All, Ops, testing::ValuesIn(op_cases()),
                         [](const auto& info) { return info.param.name; });

// The ops whose bodies run in the tests above, directly or in a gradient.
std::set<ir::Op> covered_ops() {
  std::set<ir::Op> covered;
  for (const OpCase& op : op_cases()) {
    Call call(op);
    covered.insert(call.node_.op);
    if (!op.has_gradient) continue;
    call.graph_.functions[0].regions.push_back({"backward", 0, false, true, {}});
    RuleGradient rule(call, call.graph_.functions[0].regions[1], false);
    for (size_t o : op.outputs_with_gradient) {
      rule.outputs[call.node_.outputs[o]] = {
          call.add("d_y", call.graph_.value(call.node_.outputs[o]).shape, ir::DType::f32, ir::Role::input),
          {}};
    }
    ops::op_info(call.node_.op).gradient(rule, call.node_);
    for (const ir::Node& node : call.graph_.functions[0].regions[1].nodes) covered.insert(node.op);
  }
  return covered;
}

TEST(OpTable, EveryOpIsTested) {
  std::set<ir::Op> covered = covered_ops();
  covered.insert(ir::Op::zero);                       // ZeroWritesZeros
  covered.insert(ir::Op::straight_through_backward);  // StraightThroughGivesTheWeightAGradient
  covered.insert(ir::Op::all_reduce);                 // AllReduceSumsWhatRanksHave, and parallel_test
  covered.insert(ir::Op::transfer);                   // TransferCopies, and offload_test
  // WhatRanksHaveInPartsCostsWhatTheySend, and parallel_test
  covered.insert({ir::Op::reduce_scatter, ir::Op::all_gather, ir::Op::own_part, ir::Op::all_to_all});
  covered.insert(ir::Op::sum_over_ranks);  // WhatRanksShareOfLayers, and tensor_test
  for (const ops::OpInfo* op : ops::all_ops())
    EXPECT_TRUE(covered.contains(op->op)) << to_string(op->op) << " has no case in op_cases.cpp";
}

TEST(OpTable, EveryOpIsCompletelyDescribed) {
  std::set<ir::Op> words;
  for (const ops::OpInfo* op : ops::all_ops()) {
    EXPECT_TRUE(words.insert(op->op).second) << to_string(op->op) << " is there twice";
    EXPECT_FALSE(op->formula.empty()) << to_string(op->op);
    EXPECT_EQ(&ops::op_info(op->op), op);
    // Only views have neither a body nor a cost.
    const std::set<ir::Op> rewritten = {ir::Op::split_qkv, ir::Op::join_qkv};
    EXPECT_EQ(!op->body && !op->cost, rewritten.contains(op->op)) << to_string(op->op);
    EXPECT_TRUE(!op->gradient || op->reference)
        << to_string(op->op) << " has a gradient that nothing can be compared with";
  }
  EXPECT_THROW(ops::op_info(ir::Op::fused), std::logic_error);
}

TEST(OpTable, AllReduceSumsWhatRanksHave) {
  ir::Graph graph;
  ir::Value value;
  value.name = "d_weight";
  value.shape = {{6, ""}, {4, ""}};
  const ir::Use tensor{graph.add(std::move(value)), {}};
  const ir::Node node{.op = ir::Op::all_reduce,
                      .attributes = {{"ranks", int64_t{3}}},
                      .inputs = {tensor},
                      .outputs = {tensor}};
  const ops::OpInfo& op = ops::op_info(ir::Op::all_reduce);
  std::vector<ops::Tensor64> sum = {{{2}, {0, 0}}};
  op.reference(node, {{{2}, {1, 2}}, {{2}, {10, 20}}, {{2}, {100, 200}}}, sum);
  EXPECT_EQ(sum[0].data, (std::vector<double>{111, 222}));
  // A rank sends two thirds of the tensor, the parts that others add up, and then two thirds, its sum to
  // each.
  EXPECT_DOUBLE_EQ(op.cost(graph, node).bytes, 4.0 / 3 * 24 * 4);
}

// What is on all ranks is added up, or put together, and its gradient is on all of them too.
TEST(OpTable, WhatRanksShareOfLayers) {
  const ir::Node node{.op = ir::Op::sum_over_ranks, .attributes = {{"ranks", int64_t{2}}}};
  std::vector<ops::Tensor64> sum = {{{2}, {0, 0}}}, whole = {{{2, 2}, {0, 0, 0, 0}}};
  ops::op_info(ir::Op::sum_over_ranks).reference(node, {{{2}, {1, 2}}, {{2}, {10, 20}}}, sum);
  EXPECT_EQ(sum[0].data, (std::vector<double>{11, 22}));
  ops::op_info(ir::Op::all_gather).reference(node, {{{2}, {1, 2}}, {{2}, {10, 20}}}, whole);
  EXPECT_EQ(whole[0].data, (std::vector<double>{1, 2, 10, 20}));
  std::vector<ops::Tensor64> parts = {{{1}, {0}}, {{1}, {0}}};
  ops::op_info(ir::Op::reduce_scatter).reference(node, {{{2}, {1, 2}}, {{2}, {10, 20}}}, parts);
  EXPECT_EQ(parts[0].data, (std::vector<double>{11}));
  EXPECT_EQ(parts[1].data, (std::vector<double>{22}));
  ops::op_info(ir::Op::own_part).reference(node, {{{2}, {1, 2}}}, parts);
  EXPECT_EQ(parts[0].data, (std::vector<double>{1}));
  EXPECT_EQ(parts[1].data, (std::vector<double>{2}));
}

TEST(OpTable, TransferCopies) {
  ir::Graph graph;
  ir::Value value;
  value.name = "x";
  value.shape = {{6, ""}, {4, ""}};
  const ir::Use x{graph.add(value), {}};
  value.name = "x.host";
  const ir::Node node{.op = ir::Op::transfer, .inputs = {x}, .outputs = {{graph.add(value), {}}}};
  const ops::OpInfo& op = ops::op_info(ir::Op::transfer);
  std::vector<ops::Tensor64> copy = {{{2}, {0, 0}}};
  op.reference(node, {{{2}, {1, 2}}}, copy);
  EXPECT_EQ(copy[0].data, (std::vector<double>{1, 2}));
  EXPECT_DOUBLE_EQ(op.cost(graph, node).bytes, 6 * 4 * 4);
}

// Together the first two send as many bytes as an all_reduce.
TEST(OpTable, WhatRanksHaveInPartsCostsWhatTheySend) {
  ir::Graph graph;
  ir::Value value;
  value.name = "gradients";
  value.shape = {{6, ""}, {4, ""}};
  const ir::Use whole{graph.add(value), {}};
  value.shape[0].size = 2;
  const ir::Use part{graph.add(value), {}};
  const auto bytes = [&](ir::Op op, ir::Use from, ir::Use to) {
    const ir::Node node{.op = op, .attributes = {{"ranks", int64_t{3}}}, .inputs = {from}, .outputs = {to}};
    return ops::op_info(op).cost(graph, node).bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(ir::Op::reduce_scatter, whole, part), 2.0 / 3 * 24 * 4);
  EXPECT_DOUBLE_EQ(bytes(ir::Op::all_gather, part, whole), 2.0 / 3 * 24 * 4);
  EXPECT_DOUBLE_EQ(bytes(ir::Op::own_part, whole, part), 2 * 8 * 4);  // within its own memory
  // Of its parts of 6 slots it sends those of 4, or as many of what it owns.
  for (const bool to_owners : {true, false}) {
    const ir::Node node{.op = ir::Op::all_to_all,
                        .attributes = {{"ranks", int64_t{3}}, {"to_owners", to_owners}},
                        .inputs = {whole},
                        .outputs = {whole}};
    EXPECT_DOUBLE_EQ(ops::op_info(ir::Op::all_to_all).cost(graph, node).bytes, 2.0 / 3 * 24 * 4);
  }
}

TEST(OpTable, ZeroWritesZeros) {
  ir::Graph graph;
  graph.functions.push_back({"call", {{"forward", 0, false, false, {}}}});
  ops::RegionBuilder builder(graph, graph.functions[0].regions[0]);
  const ir::Use y = builder.emit(ir::Op::zero, {}, "y", {{2, ""}, {3, ""}});
  passes::Log log;
  passes::expand(graph, {}, log);
  Interpreter interpreter(graph);
  interpreter.run("call");
  EXPECT_EQ(interpreter.read(y), std::vector<double>(6, 0.0));
}

// As if x had been multiplied by the weight.
TEST(OpTable, StraightThroughGivesTheWeightAGradient) {
  OpCase op = *std::ranges::find(op_cases(), "straight_through", &OpCase::name);
  op.inputs[1].kind = Kind::differentiated;
  Call call(op);
  call.graph_.functions[0].regions.push_back({"backward", 0, false, true, {}});
  RuleGradient rule(call, call.graph_.functions[0].regions[1], false);
  const ir::Use y = call.node_.outputs[0], x = call.uses_[0], weight = call.uses_[1];
  const ir::Use dy{call.add("d_y", call.graph_.value(y).shape, ir::DType::f32, ir::Role::input), {}};
  rule.outputs[y] = dy;
  ops::op_info(call.node_.op).gradient(rule, call.node_);
  call.lower();
  Interpreter interpreter = call.ready();
  const std::vector<double> given = call.normals(element_count(call.graph_.value(y).shape));
  interpreter.write(dy, given);
  interpreter.run("call");
  EXPECT_EQ(rule.contributions.at(x), std::vector{dy});
  const std::vector<double> found = interpreter.read(rule.contributions.at(weight).at(0));
  const size_t columns = given.size() / found.size();
  for (size_t row = 0; row < found.size(); ++row) {
    double sum = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) sum += given[i] * call.values_[0].data[i];
    EXPECT_NEAR(found[row], sum, 1e-12) << "row " << row;
  }
}

// Large logits: the sum of exponentials overflows, the loss does not.
TEST(OpTable, CrossEntropyOfLargeLogitsIsFinite) {
  OpCase op = *std::ranges::find(op_cases(), "cross_entropyOneClass", &OpCase::name);
  op.inputs[0].shape = {{1, ""}, {1, ""}, {3, ""}};
  op.inputs[0].values = {1000, 998, -1000};
  op.inputs[1].shape = {{1, ""}, {1, ""}};
  op.inputs[1].values = {1};
  Call call(op);
  call.lower();
  Interpreter interpreter = call.ready();
  interpreter.run("call");
  EXPECT_NEAR(interpreter.read(call.node_.outputs[0])[0], 2 + std::log1p(std::exp(-2.0)), 1e-12);
}

// What a linear layer and sum_taps compute, of a grouped one too, written down as what they are.
TEST(CausalConv, IsAConvolutionOverTime) {
  constexpr int64_t B = 2, T = 6, C = 6, taps = 3, groups = 3, d = C / groups;
  for (const bool grouped : {false, true}) {
    ir::Graph graph;
    graph.functions.push_back({"call", {{"forward", 0, false, false, {}}}});
    const auto input = [&](const std::string& name, ir::Shape shape) {
      ir::Value value;
      value.name = name, value.shape = std::move(shape), value.role = ir::Role::input;
      return ir::Use{graph.add(std::move(value)), {}};
    };
    const int64_t width = grouped ? d : C;
    const ir::Use x = input("x", {{B, ""}, {T, ""}, {C, ""}}), w = input("w", {{taps * C, ""}, {width, ""}});
    ops::RegionBuilder builder(graph, graph.functions[0].regions[0]);
    const ir::Use matrix = grouped ? ops::block_diagonal(builder, w, groups, {C, ""}, 0, "matrix") : w;
    const ir::Use products = ops::linear(builder, x, matrix, {}, "products");
    const ir::Use y = ops::sum_taps(builder, products, taps, {{"y", {{groups, ""}, {d, ""}}}})[0];
    passes::Log log;
    passes::expand(graph, {}, log);
    Interpreter interpreter(graph);
    std::mt19937 random(3);
    std::normal_distribution<double> normal(0, 1);
    std::vector<double> xs(B * T * C), ws(taps * C * width);
    for (double& value : xs) value = normal(random);
    for (double& value : ws) value = normal(random);
    interpreter.write(x, xs);
    interpreter.write(w, ws);
    interpreter.run("call");
    const std::vector<double> found = interpreter.read(y);
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t o = 0; o < C; ++o) {
          double expected = 0;
          for (int64_t tap = 0; tap < taps && tap <= t; ++tap) {
            for (int64_t i = 0; i < width; ++i) {
              const int64_t channel = grouped ? o / d * d + i : i;
              expected += ws[(tap * C + o) * width + i] * xs[(b * T + t - tap) * C + channel];
            }
          }
          ASSERT_NEAR(found[(b * T + t) * C + o], expected, 1e-12);
        }
      }
    }
  }
}

TEST(OpTable, DropoutKeepsItsShareAndItsMean) {
  for (double p : {0.1, 0.5, 0.9}) {
    OpCase op =
        *std::ranges::find(op_cases(), "dropout" + std::to_string(static_cast<int>(p * 10)), &OpCase::name);
    op.inputs[0].shape = {{1, ""}, {200, ""}, {100, ""}};
    op.inputs[0].values.assign(20000, 1.0);
    Call call(op);
    call.lower();
    Interpreter interpreter = call.ready();
    interpreter.run("call");
    double kept = 0;
    for (double y : interpreter.read(call.node_.outputs[0])) {
      kept += y != 0;
      if (y != 0) {
        ASSERT_NEAR(y, 1 / (1 - p), 1e-12);
      }
    }
    EXPECT_NEAR(kept / 20000, 1 - p, 4 * std::sqrt(p * (1 - p) / 20000)) << p;
  }
}

}  // namespace
}  // namespace hydrac::test
