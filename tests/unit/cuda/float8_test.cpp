// Numbers of 8 bits: how kernels round them, the largest value of a tensor, and the transpose that matmuls
// want.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "codegen/cuda/body.h"
#include "cuda/transpose_geometry.h"
#include "cuda/types.cuh"
#include "emulated_body.h"
#include "ir/evaluate.h"
#include "ops/builder.h"
#include "passes/passes.h"

namespace hydrac::test {
namespace {

// round_to as the interpreter knows it.
double interpreted(ir::DType dtype, double x) {
  ir::Graph graph;
  ir::Value scalar;
  scalar.name = "x";
  const ir::Use from{graph.add(scalar), {}}, to{graph.add(scalar), {}};
  ir::BodyBuilder k(graph, {.inputs = {from}, .outputs = {to}}, {});
  k.store_row(0, k.scalar(0));
  ir::Body body = k.take();
  ir::Expr round{ir::ExprOp::round_to, ir::ExprType::f32, {body.stores[0].value}};
  round.dtype = dtype;
  body.stores[0].value = body.intern(std::move(round));
  std::vector<double> in{x}, out{0};
  ir::evaluate(body, {&in, &out}, 0);
  return out[0];
}

template <typename T>
void check_codes(ir::DType dtype, float largest, int numbers) {
  std::set<float> values;
  for (int code = 0; code < 256; ++code) {
    const float value = to_float(T{static_cast<std::uint8_t>(code)});
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(from_float<T>(value).bits, code);
    values.insert(value);
  }
  EXPECT_EQ(static_cast<int>(values.size()), numbers);  // zero once
  EXPECT_EQ(*values.rbegin(), largest);
  for (auto low = values.begin(), high = std::next(low); high != values.end(); ++low, ++high) {
    const float middle = (*low + *high) / 2;  // exact
    for (const float x : {std::nextafter(middle, *low), middle, std::nextafter(middle, *high)})
      EXPECT_EQ(round_to<T>(x), interpreted(dtype, x)) << x;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {largest * 1.5f, 1e30f, infinity}) {
    EXPECT_EQ(round_to<T>(x), largest);
    EXPECT_EQ(round_to<T>(-x), -largest);
  }
  EXPECT_TRUE(std::isnan(round_to<T>(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Float8, KernelsRoundToTheNearestNumberAndNeverBeyondTheLargest) {
  check_codes<f8e4m3>(ir::DType::f8e4m3, 448, 253);
  check_codes<f8e5m2>(ir::DType::f8e5m2, 57344, 247);
}

// y = 3 x of 8 bits and the largest |x| beside it, with more work that decides how the kernel is laid out.
struct Layout {
  const char* name;
  int64_t rows, columns;
  bool sums_rows = false, sums_columns = false;
};

void PrintTo(const Layout& layout, std::ostream* os) {
  *os << layout.name;
}

class CudaLargest : public testing::TestWithParam<Layout> {};

TEST_P(CudaLargest, IsFoundByEveryLayoutInAnyOrderOfThreads) {
  const Layout& layout = GetParam();
  ir::Graph graph;
  const auto add = [&](const std::string& name, ir::Shape shape, ir::DType dtype) {
    ir::Value value;
    value.name = name;
    value.shape = std::move(shape);
    value.dtype = dtype;
    value.role = ir::Role::state;
    return ir::Use{graph.add(std::move(value)), {}};
  };
  const ir::Shape shape{{layout.rows, "B"}, {layout.columns, "C"}};
  const ir::Use x = add("x", shape, ir::DType::bf16), y = add("y", shape, ir::DType::f8e4m3),
                largest = add("largest", {}, ir::DType::f32),
                sums = add("sums", {{layout.columns, "C"}}, ir::DType::f32);
  ir::Node node{.op = ir::Op::fused, .attributes = {{"name", std::string("body")}}};
  node.inputs = {x};
  node.outputs = {y, largest, sums};
  ir::BodyBuilder k(graph, node, {shape[0]});
  k.columns({shape[1]});
  const ir::Term x_value = k.full(0);
  k.store(0, layout.sums_rows ? x_value * 3 + k.sum(x_value) * 0 : x_value * 3);
  k.raise(1, abs(x_value));
  if (layout.sums_columns) k.column_sum(2, x_value, false);
  node.body = std::make_shared<const ir::Body>(k.take());
  const codegen::CudaKernels kernels = codegen::cuda_body_kernels(graph, node, *targets::find("sm_90"));
  std::vector<std::string> names;
  for (size_t i = 0; i < kernels.kernels.size(); ++i) names.push_back("body_" + std::to_string(i));
  emulation::EmulatedKernels compiled(cuda_source_of(graph, {{"body", kernels}}, *targets::find("sm_90")),
                                      names);
  for (const double held : {0.0, 1.0, 100.0}) {
    Interpreter state(graph);
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i * i % 97) - 14;
    state.write(x, values);
    state.write(largest, {held});
    BodyMemory memory(graph, state, kernels, 0);
    memory.run(compiled, "body");
    state.run(node, 0);
    EXPECT_EQ(state.read(largest)[0], std::max(held, 14.0));
    // A step of 8 bits is a sixteenth of the number; the maximum is exact, and larger than these errors.
    EXPECT_EQ(memory.compare(state, 1.0 / 16, 1e-3), std::vector<std::string>{})
        << to_text(kernels.kernels[0].text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, CudaLargest,
    testing::Values(Layout{"Flat", 6, 40}, Layout{"FlatInWholeBlocks", 64, 96},
                    Layout{"FlatWithoutVectors", 5, 7},
                    Layout{.name = "Rows", .rows = 6, .columns = 264, .sums_rows = true},
                    Layout{.name = "Sums", .rows = 300, .columns = 40, .sums_columns = true}),
    [](const auto& info) { return info.param.name; });

class CudaTranspose : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(CudaTranspose, TurnsRowsIntoColumns) {
  const auto [rows, columns] = GetParam();
  const std::string text =
      "#include \"cuda/transpose.cuh\"\nextern \"C\" __global__ void turn(const std::uint8_t* x, "
      "std::uint8_t* y) "
      "{\n  hydrac::cuda::transpose<" +
      std::to_string(rows) + ", " + std::to_string(columns) + ">(x, y);\n}\n";
  emulation::EmulatedKernels kernels(text, {"turn"});
  std::vector<std::uint8_t> x(static_cast<size_t>(rows * columns)), y(x.size(), 0xEE);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  const std::uint8_t* from = x.data();
  std::uint8_t* to = y.data();
  const auto blocks = static_cast<unsigned>(cuda::transpose_blocks(rows, columns));
  kernels.launch_both_orders("turn", {{blocks, 1, 1}, {cuda::kTransposeThreads, 1, 1}},
                             emulation::addresses(from, to), std::vector{emulation::bytes_of(y)});
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c)
      ASSERT_EQ(y[static_cast<size_t>(c * rows + r)], x[static_cast<size_t>(r * columns + c)])
          << r << " " << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaTranspose,
                         testing::Values(std::pair{16, 16}, std::pair{128, 128}, std::pair{144, 272},
                                         std::pair{272, 16}));

}  // namespace
}  // namespace hydrac::test
