// Weight gradients that one kernel computes: which the pass gathers, that their sum over the model stays what
// it was, and that the generated kernel takes the right tensors and compiles without spilling.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "codegen/cuda/weight_gradients.h"
#include "emulated_body.h"
#include "fused_matmuls.h"
#include "gpu_model.h"
#include "ops/builder.h"
#include "resources.h"

namespace hydrac::test {
namespace {

std::vector<const ir::Node*> nodes_of(const ir::Graph& graph, ir::Op op) {
  std::vector<const ir::Node*> found;
  for (const ir::Function& function : graph.functions) {
    for (const ir::Region& region : function.regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op == op) found.push_back(&node);
      }
    }
  }
  return found;
}

TEST(GatherWeightGradients, OfALayerAreOneNodeAndKeepEveryBit) {
  for (const char* train : {"sequence_len: 45, micro_batch_size: 3",
                            "sequence_len: 20, micro_batch_size: 2, gradient_accumulation_steps: 2"}) {
    const GpuModel apart(small_spec(kGpt2, train), ir::DType::bf16),
        together(small_spec(kGpt2, train), ir::DType::bf16, {}, kWhereverPossible);
    EXPECT_EQ(ir::verify(together.graph), std::vector<std::string>{});
    const std::vector<const ir::Node*> nodes = nodes_of(together.graph, ir::Op::weight_gradients);
    ASSERT_EQ(nodes.size(), 1u);
    EXPECT_EQ(nodes[0]->inputs.size(), 8u);
    EXPECT_EQ(nodes[0]->outputs.size(), 4u);
    EXPECT_EQ(gradients_of(together), gradients_of(apart));
  }
}

TEST(GatherWeightGradients, StayTheLibrarysWhereItIsFasterAndInOtherTypes) {
  const auto count = [](const char* model, const char* train, ir::DType activations,
                        const passes::FusedMatmuls& matmuls) {
    const GpuModel built(small_spec(model, train), activations, {}, matmuls);
    return nodes_of(built.graph, ir::Op::weight_gradients).size();
  };
  EXPECT_EQ(count(kTiny, kTinyTrain, ir::DType::bf16, {.chip = cuda::kHopper}), 1u);
  EXPECT_EQ(count(kTiny, kTinyTrain, ir::DType::f16, {.chip = cuda::kHopper}), 1u);
  EXPECT_EQ(count(kTiny, "sequence_len: 64, micro_batch_size: 2", ir::DType::bf16, {.chip = cuda::kHopper}),
            0u);
  EXPECT_EQ(count(kTiny, kTinyTrain, ir::DType::f32, kWhereverPossible), 0u);
  EXPECT_EQ(count(kTiny, kTinyTrain, ir::DType::bf16, {.chip = {80, 108}, .wherever_possible = true}), 0u);
}

// Two gradients; between them something may write an operand of the first.
TEST(GatherWeightGradients, StayApartWhereAnOperandIsOverwrittenBetween) {
  for (const bool written : {false, true}) {
    ir::Graph graph;
    const auto add = [&](const std::string& name, const ir::Shape& shape, ir::DType dtype, ir::Role role) {
      ir::Value value;
      value.name = name, value.dtype = dtype, value.shape = shape, value.role = role;
      return ir::Use{graph.add(std::move(value)), {}};
    };
    const ir::Shape matrix{{2048, "B"}, {256, "C"}}, weight{{256, "C"}, {256, "C"}};
    const auto bf16 = ir::DType::bf16;
    const ir::Use x = add("x", matrix, bf16, ir::Role::input),
                  d_y = add("d_y", matrix, bf16, ir::Role::input),
                  w = add("w", weight, bf16, ir::Role::parameter),
                  other = add("other", matrix, bf16, ir::Role::activation),
                  first = add("first", weight, ir::DType::f32, ir::Role::gradient),
                  second = add("second", weight, ir::DType::f32, ir::Role::gradient);
    graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
    ir::Region& region = graph.functions[0].regions[0];
    ops::RegionBuilder build(graph, region);
    const ir::Attributes gradient = {{"transpose_a", true}, {"transpose_b", false}, {"accumulate", false}},
                         plain = {{"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}};
    build.emit_node(ir::Op::gemm, {d_y, x}, {first}, gradient);
    build.emit_node(ir::Op::gemm, {other, w}, {written ? d_y : other}, plain);
    build.emit_node(ir::Op::gemm, {d_y, x}, {second}, gradient);
    passes::Log log;
    passes::gather_weight_gradients(graph, {.chip = cuda::kHopper}, log);
    EXPECT_EQ(nodes_of(graph, ir::Op::weight_gradients).size(), written ? 0u : 1u);
    EXPECT_EQ(region.nodes.back().op, written ? ir::Op::gemm : ir::Op::weight_gradients);
  }
}

TEST(WeightGradientsKernel, TakesTheTensorsOfItsNode) {
  const std::pair<const char*, const char*> specs[] = {
      {kGpt2, "sequence_len: 5, micro_batch_size: 3"},
      {kGpt2, "sequence_len: 5, micro_batch_size: 2, gradient_accumulation_steps: 2"}};
  for (const auto& [spec, train] : specs) {
    const GpuModel model(small_spec(spec, train), ir::DType::bf16, {}, kWhereverPossible);
    for (const ir::Node* node : nodes_of(model.graph, ir::Op::weight_gradients)) {
      Interpreter state(model.graph);
      randomize(model, state);
      const codegen::CudaKernels kernels =
          codegen::weight_gradients_kernel(model.graph, *node, *targets::find("sm_90"));
      emulation::EmulatedKernels compiled(
          cuda_source_of(model.graph, {{"gradients", kernels}}, *targets::find("sm_90")),
          {kernel_name("gradients", 0)});
      BodyMemory memory(model.graph, state, kernels, 1);
      memory.run(compiled, "gradients");
      state.run(*node, 1);
      EXPECT_EQ(memory.compare(state, 1e-5, 1e-5), std::vector<std::string>{});
    }
  }
}

class WeightGradientsResources : public CudaKernels {};

TEST_F(WeightGradientsResources, CompilesAndSpillsNothing) {
  const targets::Target& gpu = *targets::find("sm_90");
  for (const char* model :
       {kTiny,
        "hidden_size: 384, num_hidden_layers: 2, num_attention_heads: 6, intermediate_size: 1536, "
        "vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu_tanh"}) {
    const GpuModel built(small_spec(model, kTinyTrain), ir::DType::bf16, {}, kWhereverPossible);
    const std::vector<const ir::Node*> nodes = nodes_of(built.graph, ir::Op::weight_gradients);
    ASSERT_EQ(nodes.size(), 1u);
    const std::vector<device_code::KernelResources> kernels = resources_of(
        cuda_source_of(built.graph,
                       {{"gradients", codegen::weight_gradients_kernel(built.graph, *nodes[0], gpu)}}, gpu),
        gpu.capability);
    std::cout << to_table(kernels);
    for (const device_code::KernelResources& kernel : kernels) expect_no_spills(kernel);
  }
}

}  // namespace
}  // namespace hydrac::test
