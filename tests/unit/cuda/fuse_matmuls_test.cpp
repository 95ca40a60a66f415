// Which matmuls become kernels of ours, and what joins them.
#include <gtest/gtest.h>

#include <algorithm>

#include "fused_matmuls.h"
#include "gpu_model.h"
#include "ops/builder.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::test {
namespace {

TEST(FuseMatmuls, OfAGpt2Block) {
  const GpuModel model(shipped_spec("gpt2-124m"), ir::DType::bf16, {.act = true}, kWhereverPossible);
  EXPECT_EQ(nodes_of(model.graph, "micro_step", "block"),
            (Names{"matmul+bias", "attention", "gemm", "add+layernorm", "matmul+gelu_tanh", "gemm",
                   "add+layernorm"}));
  const Names backward = nodes_of(model.graph, "micro_step", "block_backward");
  EXPECT_TRUE(std::ranges::count(backward, "matmul+gelu_tanh+gelu_tanh_backward+bias_gradient"));
}

// Evaluation stores it too, though nothing reads it there, so that it calls training's kernel; generation has
// other rows and so a kernel of its own.
TEST(FuseMatmuls, StoresAMatmulWhereSomethingElseReadsIt) {
  const GpuModel model(shipped_spec("llama-1b"), ir::DType::bf16, {}, kWhereverPossible);
  const auto stores_matmul = [&](const std::string& function) {
    const ir::Node& node = node_named(model.graph, function, "matmul+swiglu");
    return std::ranges::count(node.outputs, node.matmul) == 1 && node.outputs.size() == 2;
  };
  EXPECT_TRUE(stores_matmul("micro_step"));
  EXPECT_TRUE(stores_matmul("evaluate"));
  EXPECT_FALSE(stores_matmul("generate"));
}

TEST(FuseMatmuls, LeavesMatmulsToTheLibraryWhichComputesThemFaster) {
  const auto names = [](const passes::FusedMatmuls& matmuls, ir::DType activations) {
    const GpuModel model(small_spec(kGpt2, "sequence_len: 45, micro_batch_size: 3"), activations, {},
                         matmuls);
    return nodes_of(model.graph, "micro_step", "block");
  };
  EXPECT_EQ(names({.chip = cuda::kHopper}, ir::DType::bf16)[0], "gemm");
  EXPECT_EQ(names(kWhereverPossible, ir::DType::f32)[0], "gemm");
  EXPECT_EQ(names({.chip = {80, 108}, .wherever_possible = true}, ir::DType::bf16)[0], "gemm");
  EXPECT_EQ(names(kWhereverPossible, ir::DType::bf16)[0], "matmul+bias");
}

TEST(FuseMatmuls, OfASmallModelAreOfOneTileABlock) {
  const GpuModel model(small_spec(kTiny, kTinyTrain), ir::DType::bf16, {},
                       passes::FusedMatmuls{.chip = cuda::kHopper});
  EXPECT_EQ(nodes_of(model.graph, "micro_step", "block"),
            (Names{"matmul+bias", "attention", "plain_matmul", "add+layernorm", "matmul+gelu_tanh",
                   "plain_matmul", "add+layernorm"}));
  const Names backward = nodes_of(model.graph, "micro_step", "block_backward");
  EXPECT_EQ(std::ranges::count(backward, "plain_matmul"), 3);
  EXPECT_EQ(std::ranges::count(backward, "matmul+gelu_tanh_backward+bias_gradient"), 1);
  EXPECT_EQ(std::ranges::count(backward, "gemm"), 0);
  EXPECT_EQ(std::ranges::count(backward, "weight_gradients"), 1);
  for (const auto& [node, layer] : fused_matmuls(model.graph))
    EXPECT_EQ(passes::schedule_of(*node), cuda::MatmulSchedule::one_tile);
}

// A kernel with one tile a block loads its right side before the kernel before it ends.
TEST(FuseMatmuls, OfAMatrixThatTheFunctionWritesStayTheLibrarys) {
  for (const bool written : {false, true}) {
    ir::Graph graph;
    const auto add = [&](const std::string& name, const ir::Shape& shape, ir::Role role) {
      return add_value(graph, name, shape, ir::DType::bf16, role);
    };
    const ir::Dim rows{2048, "B"}, columns{256, "C"};
    const ir::Use x = add("x", {rows, columns}, ir::Role::input),
                  w = add("w", {columns, columns}, ir::Role::parameter),
                  y = add("y", {rows, columns}, ir::Role::activation),
                  update = add("update", {columns, columns}, ir::Role::input);
    graph.functions.push_back({"f", {{"first", 0, false, false, {}}, {"second", 0, false, false, {}}}});
    ops::RegionBuilder first(graph, graph.functions[0].regions[0]),
        second(graph, graph.functions[0].regions[1]);
    const ir::Attributes plain = {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}};
    first.emit_node(ir::Op::gemm, {x, w}, {y}, plain);
    if (written) second.emit_node(ir::Op::gemm, {update, update}, {w}, plain);
    passes::Log log;
    passes::fuse_matmuls(graph, {.chip = cuda::kHopper}, {}, log);
    EXPECT_EQ(graph.functions[0].regions[0].nodes[0].op, written ? ir::Op::gemm : ir::Op::fused_matmul);
  }
}

// Other blocks still read all rows of a matrix when one writes.
TEST(FuseMatmuls, WriteNothingWhereTheirMatricesLie) {
  for (const char* spec : {"gpt2-124m", "llama-1b"}) {
    const GpuModel model(shipped_spec(spec), ir::DType::bf16, {.norm = true, .act = true}, kWhereverPossible);
    for (const auto& [node, layer] : fused_matmuls(model.graph)) {
      for (const ir::Use output : node->outputs) {
        for (int matrix = 0; matrix < 2; ++matrix)
          EXPECT_NE(storage_of(model.graph, output.value),
                    storage_of(model.graph, node->inputs[matrix].value))
              << to_text(model.graph, *node);
      }
    }
  }
}

}  // namespace
}  // namespace hydrac::test
