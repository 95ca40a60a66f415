// The bias gradient that attention's backward pass sums: which ones it takes, that it is the same sum, and
// what its kernels leave to each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/cuda/library.h"
#include "cuda/attention/geometry.h"
#include "gpu_model.h"

namespace hydrac::test {
namespace {

constexpr const char* kHeads =
    "hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, vocab_size: 16, "
    "norm: layernorm, hidden_act: gelu_tanh, attention_bias: true";
constexpr const char* kTrain = "sequence_len: 12, micro_batch_size: 2";

// The model with its sums where they belong on a GPU of this capability; what was decided.
std::vector<std::string> sum_in_attention(GpuModel& model, cuda::Chip chip = cuda::kHopper) {
  passes::Log log;
  passes::sum_in_attention(model.graph, chip, log);
  EXPECT_EQ(ir::verify(model.graph), std::vector<std::string>{});
  std::vector<std::string> texts;
  for (const passes::Decision& decision : log) texts.push_back(decision.text);
  return texts;
}

std::string with(const std::string& more) {
  return std::string(kHeads) + ", " + more;
}

const ir::Node& backward_of(const GpuModel& model) {
  for (const ir::Region& region : model.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (node.op == ir::Op::attention_backward) return node;
    }
  }
  throw std::logic_error("no attention");
}

class AttentionSums : public testing::TestWithParam<int> {};  // micro-batches of a step

TEST_P(AttentionSums, AreTheBiasGradientBitForBit) {
  const std::string train = fmt::format("{}, gradient_accumulation_steps: {}", kTrain, GetParam());
  std::vector<std::vector<double>> gradients;
  for (bool in_attention : {false, true}) {
    GpuModel model(small_spec(with("position: learned"), train), ir::DType::bf16);
    if (in_attention) {
      EXPECT_EQ(sum_in_attention(model),
                std::vector<std::string>{
                    "micro_step.block_backward: d_attn.qkv.bias is summed by attention's backward pass"});
      EXPECT_EQ(backward_of(model).flag("accumulate"), GetParam() > 1);
    }
    Interpreter state(model.graph);
    randomize(model, state);
    state.run("micro_step");
    const ir::ValueId bias = model.graph.find("d_attn.qkv.bias");
    for (int layer : {0, 1}) gradients.push_back(state.read({bias, {false, layer}}));
  }
  EXPECT_EQ(gradients[0], gradients[2]);
  EXPECT_EQ(gradients[1], gradients[3]);
}

INSTANTIATE_TEST_SUITE_P(Steps, AttentionSums, testing::Values(1, 2));

TEST(AttentionSums, StayAKernelOfTheirOwnWhereNoBlockHasAWholeHead) {
  GpuModel old(small_spec(with("position: learned"), kTrain), ir::DType::bf16);
  EXPECT_TRUE(sum_in_attention(old, {80, 108}).empty());
  GpuModel full(small_spec(with("position: learned"), kTrain), ir::DType::f32);
  EXPECT_TRUE(sum_in_attention(full).empty());
  GpuModel grouped(small_spec(with("position: learned, num_key_value_heads: 1"), kTrain), ir::DType::bf16);
  EXPECT_TRUE(sum_in_attention(grouped).empty());
  // Between attention and the sum, rope turns the gradients of queries and keys.
  GpuModel turned(small_spec(with("position: rope"), kTrain), ir::DType::bf16);
  EXPECT_TRUE(sum_in_attention(turned).empty());
}

TEST(AttentionSums, LieInTheWorkspaceUntilTheSecondKernelAddsThem) {
  GpuModel model(small_spec(with("position: learned"), kTrain), ir::DType::bf16);
  sum_in_attention(model);
  const codegen::CudaKernels kernels =
      codegen::cuda_library_kernels(model.graph, backward_of(model), *targets::find("sm_90"));
  ASSERT_EQ(kernels.kernels.size(), 2u);
  EXPECT_EQ(kernels.kernels[0].name, "attention_head_gradients");
  EXPECT_EQ(kernels.kernels[1].name, "attention_head_gradients_sums");
  EXPECT_TRUE(kernels.kernels[0].takes_workspace && kernels.kernels[1].takes_workspace);
  EXPECT_EQ(kernels.kernels[1].arguments, std::vector{backward_of(model).outputs[3]});
  // Of two sequences of one tile, which has four warps.
  EXPECT_EQ(kernels.workspace_bytes, 2 * 4 * 3 * 128 * 4);
  EXPECT_NE(to_text(kernels.kernels[1].text).find("constexpr int kPartials = B * 4;"), std::string::npos)
      << to_text(kernels.kernels[1].text);
}

}  // namespace
}  // namespace hydrac::test
