// Bodies that no model has yet, compiled: orders inside a row that must survive when an output lies where an
// input lay, and numbers that are not finite.
#include <gtest/gtest.h>

#include <functional>

#include "compiled.h"
#include "ops/builder.h"
#include "passes/passes.h"
#include "quantized_state.h"

namespace hydrac::test {
namespace {

using ir::Term;

// Runs write -> body -> read through in_place, and compares the middle one.
std::string check(int64_t rows, int64_t columns, const std::function<void(ir::BodyBuilder&)>& write_body,
                  bool& shares) {
  ir::Graph graph;
  const auto add = [&](const std::string& name) {
    ir::Value value;
    value.name = name;
    value.shape = {{rows, "B"}, {columns, "C"}};
    return ir::Use{graph.add(std::move(value)), {}};
  };
  const ir::Use x = add("x"), y = add("y"), z = add("z");
  graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
  ops::RegionBuilder region(graph, graph.functions[0].regions[0]);
  region.emit_node(ir::Op::zero, {}, {x});
  const ir::Node node{.inputs = {x}, .outputs = {y}};
  ir::BodyBuilder k(graph, node, {{rows, "B"}});
  write_body(k);
  region.emit_body(node, "body", k.take());
  region.emit_node(ir::Op::add, {y, y}, {z});
  passes::Log log;
  passes::expand(graph, {}, log);
  passes::in_place(graph, log);
  shares = storage_of(graph, x.value) == storage_of(graph, y.value);
  const program::Program program = codegen::build_cpu_program(graph, 2);
  const CompiledKernels compiled(codegen::cpu_source(graph, program));
  Interpreter state(graph);
  std::vector<double> values(rows * columns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i % 13) - 1;
  state.write(x, values);
  const program::Call& call = program.functions[0].sections[0].calls[1];
  KernelMemory memory(graph, state, call, 0);
  memory.run(compiled.find(program.kernels[std::get<program::Launch>(call.work).kernel].name), 0);
  state.run(graph.functions[0].regions[0].nodes[1], 0);
  std::string all;
  for (const std::string& line : memory.compare(state)) all += line + "\n";
  return all;
}

TEST(InPlaceKernel, SwapsTheHalvesOfARow) {
  bool shares = false;
  const std::string differences = check(
      3, 10,
      [](ir::BodyBuilder& k) {
        k.columns({{5, "H"}});
        const auto at = [&](int64_t shift) {
          return std::vector<ir::Affine>{k.row(0), k.column(0) + ir::Affine{shift, {}}};
        };
        k.store_at(0, at(0), k.load(0, at(5)));
        k.store_at(0, at(5), k.load(0, at(0)));
      },
      shares);
  EXPECT_EQ(differences, "");
  EXPECT_TRUE(shares);
}

TEST(InPlaceKernel, SoftmaxMayOverwriteItsInput) {
  bool shares = false;
  const std::string differences = check(
      5, 37,
      [](ir::BodyBuilder& k) {
        k.columns({{37, "C"}});
        k.store(0, exp(k.full(0) - k.logsumexp(k.full(0))));
      },
      shares);
  EXPECT_EQ(differences, "");
  EXPECT_TRUE(shares);
}

// The sum of exponentials reads the row once more after the pass that stores.
TEST(InPlaceKernel, AStoreInThePassOfALogsumexpKeepsItsInput) {
  bool shares = true;
  const std::string differences = check(
      5, 37,
      [](ir::BodyBuilder& k) {
        k.columns({{37, "C"}});
        const Term x = k.full(0);
        k.store(0, x * 2 + 1);
        k.store_at(0, {k.row(0), ir::Affine{}}, k.logsumexp(x));
      },
      shares);
  EXPECT_EQ(differences, "");
  EXPECT_FALSE(shares);
}

// Reversing a row reads elements that other columns have stored.
TEST(InPlaceKernel, AReversedRowDoesNotShareMemory) {
  bool shares = true;
  const std::string differences = check(
      5, 37,
      [](ir::BodyBuilder& k) {
        k.columns({{37, "C"}});
        k.store(0, k.load(0, {k.row(0), k.column(0) * -1 + ir::Affine{36, {}}}));
      },
      shares);
  EXPECT_EQ(differences, "");
  EXPECT_FALSE(shares);
}

// x is 0 in one column of thirteen: 1 / x is infinite there, x / x no number.
TEST(CompiledExpression, KnowsWhatIsFinite) {
  bool shares = false;
  const std::string differences = check(
      5, 37,
      [](ir::BodyBuilder& k) {
        k.columns({{37, "C"}});
        const Term x = k.full(0), zero = k.constant(0);
        k.store(0, select(is_finite(x), k.constant(1), zero) + select(is_finite(1 / x), k.constant(2), zero) +
                       select(is_finite(x / x), k.constant(4), zero) +
                       select(is_finite(-1 / (x * x)), k.constant(8), zero));
      },
      shares);
  EXPECT_EQ(differences, "");
}

TEST(CompiledExpression, CountsBeyond31Bits) {
  bool shares = false;
  const std::string differences = check(
      5, 37,
      [](ir::BodyBuilder& k) {
        k.columns({{37, "C"}});
        const Term at = k.position(k.row(0) * 37 + k.column(0) + ir::Affine{int64_t{1} << 40, {}});
        const Term small = k.position(k.row(0) * 37 + k.column(0));
        k.store(0, convert(at / 16 % 7 + small / 5 - small % 5, ir::ExprType::f32));
      },
      shares);
  EXPECT_EQ(differences, "");
}

class QuantizedKernel : public testing::TestWithParam<int64_t> {};

TEST_P(QuantizedKernel, KeepsCodesAndAScaleOfEachRow) {
  for (const bool is_signed : {true, false}) {
    QuantizedState model(3, GetParam(), is_signed);
    const program::Program program = codegen::build_cpu_program(model.graph, 2);
    const CompiledKernels compiled(codegen::cpu_source(model.graph, program));
    Interpreter state(model.graph);
    model.fill(state, is_signed);
    const program::Call& call = program.functions[0].sections[0].calls[0];
    KernelMemory memory(model.graph, state, call, 0);
    memory.run(compiled.find(program.kernels[std::get<program::Launch>(call.work).kernel].name), 0);
    state.run(model.node(), 0);
    EXPECT_EQ(memory.compare(state), std::vector<std::string>{}) << is_signed;
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, QuantizedKernel, testing::Values(1, 37, 256));

}  // namespace
}  // namespace hydrac::test
