// Matmuls whose epilogue sums over whole rows: which nodes become one, and the text of their kernels.
#include <gtest/gtest.h>
#include <climits>

#include <algorithm>
#include <set>

#include "codegen/cuda/body.h"
#include "fused_matmuls.h"
#include "gpu_model.h"
#include "passes/matmul_epilogue.h"

namespace hydrac::test {
namespace {

constexpr passes::FusedMatmuls kByItself{.chip = cuda::kHopper};

constexpr const char* kSmallChar =
    "hidden_size: 384, num_hidden_layers: 2, num_attention_heads: 6, intermediate_size: 1536, vocab_size: "
    "128, norm: layernorm, position: learned, hidden_act: gelu_tanh";
constexpr const char* kTrain = "sequence_len: 256, micro_batch_size: 64";

// With a residual stream of 16 bits.
spec::Spec narrow(const std::string& model) {
  spec::Spec spec = small_spec(model, kTrain);
  spec.optimizations.residual = spec::ResidualType::compute;
  return spec;
}

GpuModel small_char(const passes::FusedMatmuls& matmuls, passes::RecomputeChoice recompute = {}) {
  return {narrow(kSmallChar), ir::DType::bf16, recompute, matmuls};
}

bool sees_rows(const ir::Node& node) {
  return passes::schedule_of(node) == cuda::MatmulSchedule::whole_rows;
}

int count_of_rows(const GpuModel& model) {
  int count = 0;
  for (const ir::Function& function : model.graph.functions) {
    for (const ir::Region& region : function.regions)
      count += static_cast<int>(std::ranges::count_if(region.nodes, [](const ir::Node& node) {
        return node.op == ir::Op::fused_matmul && sees_rows(node);
      }));
  }
  return count;
}

TEST(RowMatmuls, AreMatmulsWithTheNormBehindThem) {
  const GpuModel model = small_char(kByItself);
  const Names block = {"matmul+bias", "attention", "matmul+add+layernorm", "matmul+gelu_tanh",
                       "matmul+add+layernorm"};
  EXPECT_EQ(nodes_of(model.graph, "micro_step", "block"), block);
  EXPECT_EQ(nodes_of(model.graph, "evaluate", "block"), block);
  const GpuModel everywhere = small_char(kWhereverPossible);
  const ir::Node& backward =
      node_named(everywhere.graph, "micro_step",
                 "matmul+layernorm_backward+add+layernorm_weight_gradient+bias_gradient+bias_gradient");
  EXPECT_TRUE(sees_rows(backward));
  EXPECT_EQ(backward.integer("sums"), 3);
  // A row more of generated text is a row of its own.
  EXPECT_EQ(nodes_of(model.graph, "generate", "block")[3], "add+layernorm");
}

// What is computed on whole rows has one text, however many rows there are and whichever function asks.
TEST(RowMatmuls, OfEvaluationAreTheKernelsOfTraining) {
  const GpuModel model = small_char(kByItself);
  std::set<std::string> texts;
  for (const char* function : {"micro_step", "evaluate"}) {
    const ir::Node& node = node_named(model.graph, function, "matmul+add+layernorm");
    texts.insert(
        to_text(codegen::cuda_body_kernels(model.graph, node, *targets::find("sm_90")).kernels[0].text));
  }
  EXPECT_EQ(texts.size(), 1u);
}

TEST(RowMatmuls, HaveNoPlaceInMemory) {
  const GpuModel model = small_char(kByItself);
  for (const auto& [node, layer] : fused_matmuls(model.graph)) {
    if (!sees_rows(*node)) continue;
    EXPECT_EQ(std::ranges::count(node->outputs, node->matmul), 0) << to_text(model.graph, *node);
  }
}

TEST(RowMatmuls, StayApartWhereTheKernelIsNotFasterOrDoesNotFit) {
  EXPECT_GT(count_of_rows(small_char(kByItself)), 0);
  EXPECT_GT(count_of_rows({small_spec(kSmallChar, kTrain), ir::DType::bf16, {}, kByItself}),
            0);  // f32 residual
  // A width that the kernel does not take.
  const std::string odd =
      "hidden_size: 320, num_hidden_layers: 2, num_attention_heads: 5, intermediate_size: 1280, vocab_size: "
      "128";
  EXPECT_EQ(count_of_rows({narrow(odd), ir::DType::bf16, {}, kWhereverPossible}), 0);
  // Another GPU.
  EXPECT_EQ(count_of_rows(small_char({.chip = {80, 108}, .wherever_possible = true})), 0);
}

// The backward pass computes them again, statistics and all, which need the same order of adding.
TEST(RowMatmuls, StayApartWhereTheirStatisticsAreComputedAgain) {
  const passes::FusedMatmuls again{
      .chip = cuda::kHopper, .wherever_possible = true, .sums_rows_from = INT_MAX};
  EXPECT_EQ(count_of_rows(small_char(again, {.block = true})), 0);
  EXPECT_GT(count_of_rows(small_char(kByItself, {.norm = true})), 0);
}

// The loss's maximum and sum of exponentials are none of the kernel's sums.
TEST(RowMatmuls, AreNotThoseOfTheLoss) {
  const GpuModel model = small_char(kWhereverPossible);
  EXPECT_EQ(nodes_of(model.graph, "micro_step", "head")[0], "gemm");
}

TEST(RowMatmuls, SayWhyTheyAreOneOrNot) {
  const auto log_of = [](const passes::FusedMatmuls& matmuls) {
    GpuModel model(narrow(kSmallChar), ir::DType::bf16);
    passes::Log log;
    passes::fuse_matmuls(model.graph, matmuls, {}, log);
    std::string text;
    for (const passes::Decision& decision : log) text += decision.text + "\n";
    return text;
  };
  EXPECT_NE(log_of(kByItself).find("micro_step.block: mlp.out.matmul and add+layernorm are one kernel, "
                                   "which sees whole rows"),
            std::string::npos)
      << log_of(kByItself);
  const std::string apart = log_of({.chip = cuda::kHopper, .sums_rows_from = INT_MAX});
  EXPECT_NE(apart.find("micro_step.block: mlp.out.matmul stays apart from a norm that is computed again"),
            std::string::npos)
      << apart;
}

// Each pass begins with what the one before has summed; a row keeps what later passes need of earlier ones.
TEST(RowMatmuls, ReadAsTheFormulaDoes) {
  const std::string llama =
      "hidden_size: 384, num_hidden_layers: 2, num_attention_heads: 6, intermediate_size: 1536, vocab_size: "
      "128";
  const GpuModel model(narrow(llama), ir::DType::bf16, {}, kByItself);
  const ir::Node& node = node_named(model.graph, "micro_step", "matmul+add+rmsnorm");
  const std::string text =
      to_text(codegen::cuda_body_kernels(model.graph, node, *targets::find("sm_90")).kernels[0].text);
  const size_t first = text.find("  struct Kept"), last = text.find("};\n\nextern");
  EXPECT_EQ(text.substr(first, last - first),
            R"(  struct Kept {  // of a row, from one pass to the next
    float sum_rounded[8];
  };
  const bf16* residual;
  bf16* sum;
  const float* norm_weight;
  bf16* normed;
  float* rstd;
  Vector<float, 8> norm_weight_in;

  __device__ void begin(int c) {
    load_columns<4>(norm_weight_in, norm_weight + c);
  }
  __device__ Operands load(std::int64_t r, int c) const {
    const auto first = static_cast<std::uint32_t>(r * C + c);
    Operands in;
    load_columns<8>(in.residual, residual + first);
    return in;
  }
  template <int pass>
  __device__ void apply(std::int64_t r, int c, const Vector<bf16, 8>& x_in, const Operands& in, Kept& kept, )"
            R"(const float (&totals)[reductions], float (&partial)[reductions]) {
    if constexpr (pass == 0) {
      const auto first = static_cast<std::uint32_t>(r * C + c);

      // Reduce sum_of_squares; store sum.
      float sum_out[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float sum_value = element(in.residual, j) + element(x_in, j);
        kept.sum_rounded[j] = round_to<bf16>(sum_value);
        partial[0] += kept.sum_rounded[j] * kept.sum_rounded[j];
        sum_out[j] = sum_value;
      }
      store_columns<8>(sum + first, sum_out);
    } else {
      const auto first = static_cast<std::uint32_t>(r * C + c);
      const float row_rstd = rsqrt(totals[0] * (1.0f / C) + kEpsilon);

      // Store normed.
      float normed_out[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        normed_out[j] = kept.sum_rounded[j] * row_rstd * norm_weight_in.at[j];
      }
      store_columns<8>(normed + first, normed_out);
      if (c == 0) rstd[r] = row_rstd;
    }
  }
)");
}

}  // namespace
}  // namespace hydrac::test
