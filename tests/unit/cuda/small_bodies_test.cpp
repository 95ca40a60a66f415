// Bodies that no model has yet, as CUDA kernels: orders inside a row that must survive when an output lies
// where an input lay, rows of every size, sums of every shape.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "codegen/cuda/body.h"
#include "emulated_body.h"
#include "ops/builder.h"
#include "passes/passes.h"
#include "tests/unit/core/quantized_state.h"

namespace hydrac::test {
namespace {

using ir::Affine;
using ir::Term;

struct Checked {
  std::string differences;
  bool shares = false;  // y lies where x lies
  std::string text;
};

struct Tensors {
  ir::Shape x, y, sum;
};

struct Tolerance {
  double relative = 1e-5, of_scale = 3e-6;
};

// Runs write -> body -> read through in_place, and compares the middle one: y and sum from x.
Checked check(const Tensors& shapes, const std::function<void(ir::BodyBuilder&)>& write_body,
              const std::function<double(int64_t)>& value = {},
              const targets::Target& gpu = *targets::find("sm_90"), Tolerance tolerance = {}) {
  ir::Graph graph;
  const auto add = [&](const std::string& name, const ir::Shape& shape) {
    ir::Value tensor;
    tensor.name = name;
    tensor.shape = shape;
    return ir::Use{graph.add(std::move(tensor)), {}};
  };
  const ir::Use x = add("x", shapes.x), y = add("y", shapes.y), sum = add("sum", shapes.sum),
                z = add("z", shapes.y);
  graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
  ops::RegionBuilder region(graph, graph.functions[0].regions[0]);
  region.emit_node(ir::Op::zero, {}, {x});
  const ir::Node node{.inputs = {x}, .outputs = {y, sum}};
  ir::BodyBuilder k(graph, node, {shapes.x[0]});
  write_body(k);
  region.emit_body(node, "body", k.take());
  region.emit_node(ir::Op::add, {y, y}, {z});
  passes::Log log;
  passes::expand(graph, {}, log);
  passes::in_place(graph, log);
  const ir::Node& body = graph.functions[0].regions[0].nodes[1];
  const codegen::CudaKernels kernels = codegen::cuda_body_kernels(graph, body, gpu);
  emulation::EmulatedKernels compiled(cuda_source_of(graph, {{"body", kernels}}, gpu),
                                      kernels.kernels.size() == 1
                                          ? std::vector<std::string>{"body_0"}
                                          : std::vector<std::string>{"body_0", "body_1"});
  Interpreter state(graph);
  std::vector<double> values(element_count(shapes.x));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = value ? value(static_cast<int64_t>(i)) : 0.25 * static_cast<double>(i % 13) - 1;
  state.write(sum, std::vector<double>(element_count(shapes.sum), 0.5));
  state.write(x, values);
  BodyMemory memory(graph, state, kernels, 0);
  memory.run(compiled, "body");
  state.run(body, 0);
  Checked checked;
  for (const std::string& line : memory.compare(state, tolerance.relative, tolerance.of_scale))
    checked.differences += line + "\n";
  checked.shares = storage_of(graph, x.value) == storage_of(graph, y.value);
  checked.text = to_text(kernels.kernels[0].text);
  return checked;
}

Tensors matrix(int64_t rows, int64_t columns) {
  const ir::Shape shape{{rows, "B"}, {columns, "C"}};
  return {shape, shape, {{1, ""}}};
}

void softmax(ir::BodyBuilder& k, int64_t columns) {
  k.columns({{columns, "C"}});
  k.store(0, exp(k.full(0) - k.logsumexp(k.full(0))));
}

TEST(CudaInPlace, SwapsTheHalvesOfARow) {
  const Checked checked = check(matrix(3, 10), [](ir::BodyBuilder& k) {
    k.columns({{5, "H"}});
    const auto at = [&](int64_t shift) {
      return std::vector<Affine>{k.row(0), k.column(0) + Affine{shift, {}}};
    };
    k.store_at(0, at(0), k.load(0, at(5)));
    k.store_at(0, at(5), k.load(0, at(0)));
  });
  EXPECT_EQ(checked.differences, "");
  EXPECT_TRUE(checked.shares);
}

// A row value that other threads of the row overwrite is loaded by all before any of them stores.
TEST(CudaInPlace, EveryThreadOfARowReadsWhatOneOfThemOverwrites) {
  const Checked checked = check(matrix(5, 96), [](ir::BodyBuilder& k) {
    k.columns({{96, "C"}});
    k.store(0, k.full(0) * k.load(0, {k.row(0), Affine{7, {}}}));
  });
  EXPECT_EQ(checked.differences, "");
  EXPECT_TRUE(checked.shares);
}

class CudaSoftmax : public testing::TestWithParam<int64_t> {};

TEST_P(CudaSoftmax, MayOverwriteItsInput) {
  const int64_t columns = GetParam();
  const Checked checked = check(matrix(3, columns), [&](ir::BodyBuilder& k) { softmax(k, columns); });
  EXPECT_EQ(checked.differences, "") << checked.text;
  EXPECT_TRUE(checked.shares);
}

// A part of a row, as much as one thread sees or more, may be masked with minus infinity.
TEST_P(CudaSoftmax, TakesMinusInfinity) {
  const int64_t columns = GetParam();
  const Checked checked = check(
      matrix(3, columns), [&](ir::BodyBuilder& k) { softmax(k, columns); },
      [&](int64_t i) {
        return i % columns == 0            ? 0.5
               : i % columns > columns / 3 ? -std::numeric_limits<double>::infinity()
                                           : 90.0 * static_cast<double>(i % 5) - 200;
      });
  EXPECT_EQ(checked.differences, "") << checked.text;
}

// From one lane a row to rows that are walked in steps.
INSTANTIATE_TEST_SUITE_P(Columns, CudaSoftmax,
                         testing::Values(1, 2, 7, 40, 96, 260, 1000, 1028, 5000, 33000, 40001));

// Bit for bit: one draw of the noise more, less or elsewhere moves numbers by an ulp of bf16.
TEST(CudaNoise, RoundsEveryElementWithItsOwn) {
  const auto round = [](ir::BodyBuilder& k) {
    k.columns({{40, "C"}});
    const Term key = k.constant(77, ir::ExprType::u32);
    const Term noise = random_16_bits(key, k.position(k.row(0) * 40 + k.column(0)));
    k.store(0, k.rounded_stochastically(k.full(0), noise));
  };
  const Checked checked = check(
      matrix(7, 40), round, [](int64_t i) { return static_cast<float>(1 + 1e-4 * static_cast<double>(i)); },
      *targets::find("sm_90"), {0, 0});
  EXPECT_EQ(checked.differences, "") << checked.text;
}

// Of a tensor's rows from the third on, and from one that no four elements begin with.
TEST(CudaNoise, CountsFromTheFirstRow) {
  for (const double columns : {40.0, 39.0}) {
    const auto round = [&](ir::BodyBuilder& k) {
      k.columns({{40, "C"}});
      const Term key = k.constant(77, ir::ExprType::u32);
      const Term before = k.constant(3, ir::ExprType::i64) * k.constant(columns, ir::ExprType::i64);
      const Term noise = random_16_bits(key, k.position(k.row(0) * 40 + k.column(0)) + before);
      k.store(0, k.rounded_stochastically(k.full(0), noise));
    };
    const Checked checked = check(
        matrix(7, 40), round, [](int64_t i) { return static_cast<float>(1 + 1e-4 * static_cast<double>(i)); },
        *targets::find("sm_90"), {0, 0});
    EXPECT_EQ(checked.differences, "") << checked.text;
    EXPECT_EQ(checked.text.find(", j)") != std::string::npos, columns == 40) << checked.text;
  }
}

class CudaSums : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

// A norm's backward pass in small: a reduction of the row, a store, and column sums of what it gave.
TEST_P(CudaSums, OfColumnsBesideReductionsOfRows) {
  const auto [rows, columns] = GetParam();
  Tensors shapes = matrix(rows, columns);
  shapes.sum = {{columns, "C"}};
  const Checked checked = check(shapes, [&, columns = columns](ir::BodyBuilder& k) {
    k.columns({{columns, "C"}});
    const Term x = k.full(0), mean = k.sum(x) * (1.0 / static_cast<double>(columns));
    k.store(0, x - mean);
    k.column_sum(1, (x - mean) * x, true);
  });
  EXPECT_EQ(checked.differences, "") << checked.text;
}

TEST_P(CudaSums, OfColumnsAlone) {
  const auto [rows, columns] = GetParam();
  Tensors shapes = matrix(rows, columns);
  shapes.sum = {{columns, "C"}};
  const Checked checked = check(shapes, [&, columns = columns](ir::BodyBuilder& k) {
    k.columns({{columns, "C"}});
    k.store(0, k.full(0) * 2);
    k.column_sum(1, k.full(0), true);
  });
  EXPECT_EQ(checked.differences, "") << checked.text;
}

// A gradient norm in small: threads add up over rows before they meet.
TEST_P(CudaSums, OfRowsAndColumns) {
  const auto [rows, columns] = GetParam();
  Tensors shapes = matrix(rows, columns);
  shapes.sum = {};
  const Checked checked = check(shapes, [&, columns = columns](ir::BodyBuilder& k) {
    k.columns({{columns, "C"}});
    const Term x = k.full(0);
    k.row_sum(1, k.sum(x * x), true);
  });
  EXPECT_EQ(checked.differences, "") << checked.text;
}

// Each has a flat column of its own, which is the offset of its elements, also behind those of the other.
TEST(CudaColumns, OfTwoSpacesOfSeveralVariables) {
  const Checked checked = check(matrix(5, 28), [](ir::BodyBuilder& k) {
    k.columns({{2, "G"}, {6, "D"}});
    const std::vector<Affine> left = {k.row(0), k.column(0) * 6 + k.column(1)};
    const Term x = k.load(0, left), sum = k.sum(x);
    k.store_at(0, left, x - sum);
    k.columns({{4, "K"}, {4, "E"}});
    const std::vector<Affine> right = {k.row(0), k.column(0) * 4 + k.column(1) + Affine{12, {}}};
    k.store_at(0, right, k.load(0, right) + sum);
  });
  EXPECT_EQ(checked.differences, "") << checked.text;
  EXPECT_EQ(checked.text.find(" % "), std::string::npos) << checked.text;
}

TEST(CudaColumns, AreSummedOfTwoSpacesOfSeveralVariables) {
  const Tensors shapes{{{70, "B"}, {28, "C"}}, {{2, "G"}, {6, "D"}}, {{4, "K"}, {4, "E"}}};
  const Checked checked = check(shapes, [](ir::BodyBuilder& k) {
    k.columns({{2, "G"}, {6, "D"}});
    k.column_sum(0, k.load(0, {k.row(0), k.column(0) * 6 + k.column(1)}), false);
    k.columns({{4, "K"}, {4, "E"}});
    k.column_sum(1, k.load(0, {k.row(0), k.column(0) * 4 + k.column(1) + Affine{12, {}}}), true);
  });
  EXPECT_EQ(checked.differences, "") << checked.text;
}

// A GPU so small that its blocks see several rows.
targets::Target small_gpu() {
  targets::Target gpu = *targets::find("sm_90");
  gpu.sms = 1;
  return gpu;
}

// While a block computes on a row, the next one is copied to shared memory: whole, or step by step.
class CudaRowsAhead : public testing::TestWithParam<int64_t> {};

TEST_P(CudaRowsAhead, AreThereForTheFirstOfTwoPasses) {
  const int64_t columns = GetParam();
  Tensors shapes = matrix(9, columns);
  shapes.sum = {};
  const Checked checked = check(
      shapes,
      [&](ir::BodyBuilder& k) {
        softmax(k, columns);
        k.row_sum(1, k.logsumexp(k.full(0)), true);
      },
      [](int64_t i) { return static_cast<double>(i * i % 101) / 25; }, small_gpu());
  EXPECT_EQ(checked.differences, "") << checked.text;
  EXPECT_TRUE(checked.text.find("copy_columns") != std::string::npos) << checked.text;
}

TEST_P(CudaRowsAhead, AreThereForTheOnlyPass) {
  const int64_t columns = GetParam();
  Tensors shapes = matrix(9, columns);
  shapes.y = {{9, "B"}};
  shapes.sum = {};
  const Checked checked = check(
      shapes,
      [&](ir::BodyBuilder& k) {
        k.columns({{columns, "C"}});
        const Term sum = k.sum(k.full(0));
        k.store_row(0, sum);
        k.row_sum(1, sum, true);
      },
      [](int64_t i) { return static_cast<double>(i * i % 101) / 25; }, small_gpu());
  EXPECT_EQ(checked.differences, "") << checked.text;
  EXPECT_TRUE(checked.text.find("copy_columns") != std::string::npos) << checked.text;
}

// A row's first pass, with reductions of every kind, runs within the last pass over the row before;
// conditions that hold for whole vectors are asked of them.
TEST_P(CudaRowsAhead, AreReducedWhileTheRowBeforeIsStored) {
  const int64_t columns = GetParam();
  Tensors shapes = matrix(3, columns);
  shapes.sum = {};
  const Checked checked = check(
      shapes,
      [&](ir::BodyBuilder& k) {
        k.columns({{columns, "C"}});
        const Term x = k.full(0), column = k.position(k.column(0));
        const Term is_class = column < k.constant(static_cast<double>(columns - 5), ir::ExprType::i64);
        const Term lse = k.logsumexp(select(is_class, x, k.constant(-1e30)));
        const Term mean = k.sum(select(is_class, x, k.constant(0))) * (1.0 / static_cast<double>(columns));
        const Term largest = k.maximum(x);
        const Term hit = column == k.position(k.row(0) * 997 + Affine{3, {}});
        k.store(0, select(is_class, exp(x - lse) - select(hit, k.constant(1), k.constant(0)), largest));
        k.row_sum(1, lse - mean, true);
      },
      [](int64_t i) { return static_cast<double>(i * i % 101) / 25; }, small_gpu());
  EXPECT_EQ(checked.differences, "") << checked.text;
  const bool is_walked = checked.text.find("kStep") != std::string::npos;
  for (const char* means : {"reduce(", "specialize(is_plain"})
    EXPECT_EQ(checked.text.find(means) != std::string::npos, is_walked) << checked.text;
}

TEST(CudaLongRows, ComeAheadAsFarAsSharedMemoryHasRoom) {
  const int64_t columns = 70000;
  targets::Target gpu = *targets::find("sm_90");
  gpu.sms = 62;  // whose rows are too many for L2 to hold them for a second pass
  Tensors shapes = matrix(gpu.sms + 1, columns);
  shapes.sum = {};
  const Checked checked = check(
      shapes,
      [&](ir::BodyBuilder& k) {
        softmax(k, columns);
        k.row_sum(1, k.logsumexp(k.full(0)), true);
      },
      [](int64_t i) { return static_cast<double>(i * i % 101) / 25; }, gpu);
  EXPECT_EQ(checked.differences, "") << checked.text;
  EXPECT_TRUE(checked.text.find("prefetch") != std::string::npos) << checked.text;
}

// In registers; in steps that fill the row, and that do not.
INSTANTIATE_TEST_SUITE_P(Columns, CudaRowsAhead, testing::Values(768, 24576, 20004));

INSTANTIATE_TEST_SUITE_P(Sizes, CudaSums,
                         testing::Values(std::pair{1, 8}, std::pair{600, 5}, std::pair{70, 37},
                                         std::pair{40, 96}, std::pair{9, 260}, std::pair{20, 768},
                                         std::pair{3, 4100}, std::pair{5, 40000}));

class CudaQuantized : public testing::TestWithParam<int64_t> {};

TEST_P(CudaQuantized, KeepsCodesAndAScaleOfEachRow) {
  for (const bool is_signed : {true, false}) {
    const QuantizedState model(3, GetParam(), is_signed);
    const codegen::CudaKernels kernels =
        codegen::cuda_body_kernels(model.graph, model.node(), *targets::find("sm_90"));
    emulation::EmulatedKernels compiled(
        cuda_source_of(model.graph, {{"body", kernels}}, *targets::find("sm_90")), {"body_0"});
    Interpreter state(model.graph);
    model.fill(state, is_signed);
    BodyMemory memory(model.graph, state, kernels, 0);
    memory.run(compiled, "body");
    state.run(model.node(), 0);
    EXPECT_EQ(memory.compare(state, 1e-6, 0), std::vector<std::string>{}) << to_text(kernels.kernels[0].text);
  }
}

// Some with a row of several chunks a lane, some with chunks that do not fill the row.
INSTANTIATE_TEST_SUITE_P(Columns, CudaQuantized, testing::Values(1, 37, 40, 256, 1000));

}  // namespace
}  // namespace hydrac::test
