// Passes change where and when things are computed, never what: every result keeps its bits in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "own_functions.h"
#include "passes/uses.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

constexpr const char* kLlama =
    "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 4, vocab_size: 11, "
    "intermediate_size: 6, "
    "num_key_value_heads: 2, norm: rmsnorm, position: rope, hidden_act: swiglu, dropout: 0.2";
constexpr const char* kGpt2 =
    "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 2, vocab_size: 11, intermediate_size: 6, "
    "norm: layernorm, position: learned, hidden_act: gelu, dropout: 0.3, attention_dropout: 0.2, "
    "tie_word_embeddings: false";
constexpr const char* kQwen3 =
    "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 2, vocab_size: 11, intermediate_size: 6, "
    "norm: rmsnorm, position: rope, qk_norm: true";
constexpr const char* kSeries =
    "input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 2, "
    "intermediate_size: 6, "
    "head: regression, norm: layernorm, hidden_act: geglu, position: learned";
constexpr const char* kNoBias =
    "hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 2, vocab_size: 11, norm: layernorm, "
    "norm_bias: false, "
    "attention_bias: false, mlp_bias: false, position: learned, hidden_act: gelu, intermediate_size: 6, "
    "dropout: 0.1";
constexpr const char* kOlmo2 =
    "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 2, vocab_size: 11, intermediate_size: 6, "
    "norm_placement: output, qk_norm: true, qk_norm_scope: projection, dropout: 0.2";
constexpr const char* kGemma2 =
    "hidden_size: 8, num_hidden_layers: 3, num_attention_heads: 4, head_dim: 4, num_key_value_heads: 2, "
    "vocab_size: 11, intermediate_size: 6, norm_placement: both, norm_offset: 1, embedding_scale: 2.5, "
    "residual_scale: 0.5, logit_scale: 0.75, "
    "attention_scale: 0.6, hidden_act: geglu_tanh, sliding_window: 3, sliding_window_pattern: 2";
constexpr const char* kTrain = "sequence_len: 5, micro_batch_size: 2, label_smoothing: 0.1";
constexpr const char* kModels[] = {kLlama, kGpt2, kQwen3, kSeries, kNoBias, kOlmo2, kGemma2};
const std::string kNames[] = {"Llama", "Gpt2", "Qwen3", "Series", "NoBias", "Olmo2", "Gemma2"};

spec::Spec spec_of(int model) {
  return model == 3 ? small_spec(kSeries, "sequence_len: 5, micro_batch_size: 2", "[y, z]")
                    : small_spec(kModels[model], kTrain);
}

struct Results {
  std::vector<uint64_t> bits;  // loss, gradients, and after an update parameters and moments
};

// Two micro-steps, an update, an evaluation and a generation.
Results results_of(const SmallModel& small) {
  Interpreter interpreter(small.graph);
  small.fill(interpreter);
  Results results;
  const auto keep = [&](ir::ValueId id) {
    for (int slot = 0; slot < small.graph.value(id).slots; ++slot) {
      for (double x : interpreter.read({id, {false, slot}}))
        results.bits.push_back(std::bit_cast<uint64_t>(x));
    }
  };
  interpreter.run("micro_step");
  interpreter.run("micro_step");
  keep(small.model->graph.results.loss);
  keep(small.pack.groups[0].gradients);
  interpreter.run("update");
  interpreter.run("evaluate");
  for (const ir::Value& value : small.graph.values) {
    const bool lasting = value.role == ir::Role::optimizer_state || value.role == ir::Role::state ||
                         value.role == ir::Role::parameter;
    if (lasting && !value.view) keep(value.id);
  }
  if (small.model->graph.results.logits == ir::kNoValue) return results;
  interpreter.run("generate");
  keep(small.model->graph.results.logits);
  return results;
}

class Passes : public testing::TestWithParam<int> {
 protected:
  static SmallModel build(Stages stages) {
    stages.all_functions = true;
    stages.accumulate = true;
    return SmallModel(spec_of(GetParam()), stages);
  }
  static void expect_same_results(const Stages& stages) {
    const SmallModel changed = build(stages);
    EXPECT_EQ(ir::verify(changed.graph), std::vector<std::string>{});
    const Results expected = results_of(build({})), found = results_of(changed);
    ASSERT_EQ(found.bits.size(), expected.bits.size());
    size_t nans = 0;
    for (size_t i = 0; i < found.bits.size(); ++i) {
      nans += std::isnan(std::bit_cast<double>(expected.bits[i]));
      ASSERT_EQ(std::bit_cast<double>(found.bits[i]), std::bit_cast<double>(expected.bits[i]))
          << "result " << i;
    }
    EXPECT_EQ(nans, 0u);
  }
};

TEST_P(Passes, FusionKeepsEveryBit) {
  expect_same_results({.fuse = true});
}
TEST_P(Passes, InPlaceKeepsEveryBit) {
  expect_same_results({.in_place = true});
}
TEST_P(Passes, FusionAndInPlaceKeepEveryBit) {
  expect_same_results({.fuse = true, .in_place = true});
}

TEST_P(Passes, EveryRecomputeChoiceKeepsEveryBit) {
  for (int choice = 1; choice < 16; ++choice) {
    const passes::RecomputeChoice recompute{.norm = (choice & 1) != 0,
                                            .act = (choice & 2) != 0,
                                            .attn = (choice & 4) != 0,
                                            .mlp = (choice & 8) != 0};
    SCOPED_TRACE(to_string(recompute));
    expect_same_results({.recompute = recompute});
    expect_same_results({.recompute = recompute, .fuse = true, .in_place = true});
  }
  expect_same_results({.recompute = {.qk_norm = true}});
  expect_same_results(
      {.recompute = {.norm = true, .act = true, .qk_norm = true}, .fuse = true, .in_place = true});
  expect_same_results({.recompute = {.block = true}});
  expect_same_results({.recompute = {.block = true}, .fuse = true, .in_place = true});
}

TEST_P(Passes, RecomputingInSomeLayersKeepsEveryBit) {
  for (const int layers : {1, 2}) {
    for (const passes::RecomputeChoice& recompute :
         {passes::RecomputeChoice{.block = true, .layers = layers},
          passes::RecomputeChoice{.norm = true, .act = true, .qk_norm = true, .layers = layers},
          passes::RecomputeChoice{.attn = true, .mlp = true, .layers = layers}}) {
      SCOPED_TRACE(in_words(recompute));
      expect_same_results({.recompute = recompute});
      expect_same_results({.recompute = recompute, .fuse = true, .in_place = true});
    }
  }
}

TEST_P(Passes, BiasesKeepEveryBitWhereverTheyAreAdded) {
  expect_same_results({.matmul_biases = true});
  for (const passes::RecomputeChoice& recompute :
       {passes::RecomputeChoice{}, passes::RecomputeChoice{.norm = true, .act = true},
        passes::RecomputeChoice{.mlp = true}, passes::RecomputeChoice{.block = true}}) {
    SCOPED_TRACE(to_string(recompute));
    expect_same_results({.recompute = recompute, .move_biases = true});
    expect_same_results({.recompute = recompute, .fuse = true, .in_place = true, .move_biases = true});
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Passes, testing::Range(0, 5),
                         [](const auto& info) { return kNames[info.param]; });

std::vector<std::string> kernels_of(const SmallModel& small, const std::string& function,
                                    const std::string& region) {
  std::vector<std::string> names;
  for (const ir::Region& candidate : small.graph.function(function).regions) {
    if (candidate.name != region) continue;
    for (const ir::Node& node : candidate.nodes)
      names.push_back(node.op == ir::Op::fused ? std::get<std::string>(node.attributes.at("name"))
                                               : to_string(node.op));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Fusion, OfALlamaBlock) {
  const SmallModel small(shipped_spec("quickstart", {"model.vocab_size=256"}),
                         {.fuse = true, .in_place = true});
  EXPECT_EQ(kernels_of(small, "micro_step", "input"), (Names{"embedding+rmsnorm"}));
  EXPECT_EQ(kernels_of(small, "micro_step", "block"),
            (Names{"gemm", "rope", "rope", "attention", "gemm", "add+rmsnorm", "gemm", "swiglu", "gemm",
                   "add+rmsnorm"}));
  EXPECT_EQ(kernels_of(small, "micro_step", "head"),
            (Names{"gemm", "cross_entropy+mean_loss+mean_loss_backward+cross_entropy_backward", "gemm",
                   "gemm", "zero"}));
  EXPECT_EQ(kernels_of(small, "micro_step", "block_backward"),
            (Names{"rmsnorm_backward+add+rmsnorm_weight_gradient", "gemm", "gemm", "swiglu_backward", "gemm",
                   "gemm", "rmsnorm_backward+add+rmsnorm_weight_gradient", "gemm", "gemm",
                   "attention_backward", "rope_backward", "rope_backward", "gemm", "gemm"}));
}

TEST(Fusion, OfAParallelBlockWithOneNorm) {
  const SmallModel small(
      shipped_spec("quickstart", {"model.vocab_size=256", "model.block=parallel_one_norm"}),
      {.fuse = true, .in_place = true});
  EXPECT_EQ(kernels_of(small, "micro_step", "block"), (Names{"gemm", "rope", "rope", "attention", "gemm",
                                                             "gemm", "swiglu", "gemm", "add+add+rmsnorm"}));
}

TEST(Fusion, OfAGpt2Block) {
  const SmallModel small(shipped_spec("gpt2-124m"), {.fuse = true, .in_place = true});
  EXPECT_EQ(kernels_of(small, "micro_step", "input"), (Names{"embedding+position_embedding+layernorm"}));
  EXPECT_EQ(kernels_of(small, "micro_step", "block"),
            (Names{"gemm", "bias_add", "attention", "gemm", "bias_add+add+layernorm", "gemm",
                   "bias_add+gelu_tanh", "gemm", "bias_add+add+layernorm"}));
  EXPECT_EQ(kernels_of(small, "micro_step", "block_backward"),
            (Names{"layernorm_backward+add+layernorm_weight_gradient+bias_gradient+bias_gradient", "gemm",
                   "gemm", "gelu_tanh_backward+bias_gradient", "gemm", "gemm",
                   "layernorm_backward+add+layernorm_weight_gradient+bias_gradient+bias_gradient", "gemm",
                   "gemm", "attention_backward", "gemm", "gemm", "bias_gradient"}));
}

std::vector<std::string> decisions_of(const SmallModel& small, const std::string& pass) {
  std::vector<std::string> texts;
  for (const passes::Decision& decision : small.log) {
    if (decision.pass == pass) texts.push_back(decision.text);
  }
  return texts;
}

// Columns of the biases that matmuls add, in the order of the region's matmuls.
std::vector<int64_t> matmul_biases_of(const SmallModel& small, const std::string& region_name) {
  std::vector<int64_t> columns;
  for (const ir::Region& region : small.graph.function("micro_step").regions) {
    for (const ir::Node& node : region.nodes) {
      if (region.name == region_name && node.op == ir::Op::gemm && node.inputs.size() > 2)
        columns.push_back(element_count(small.graph.value(node.inputs[2]).shape));
    }
  }
  return columns;
}

TEST(Biases, GoToTheKernelsThatReadTheMatmuls) {
  const SmallModel small(shipped_spec("gpt2-124m"),
                         {.recompute = {.act = true}, .fuse = true, .in_place = true, .move_biases = true});
  EXPECT_EQ(
      decisions_of(small, "biases"),
      (Names{"micro_step.block: attn.qkv keeps its bias: attention reads it",
             "micro_step.block: the bias of attn.out is added by add",
             "micro_step.block: the bias of mlp.up is added by gelu_tanh, gelu_tanh, gelu_tanh_backward",
             "micro_step.block: the bias of mlp.out is added by add"}));
  EXPECT_EQ(matmul_biases_of(small, "block"), (std::vector<int64_t>{3 * 768}));
  EXPECT_EQ(kernels_of(small, "micro_step", "block"), (Names{"gemm", "attention", "gemm", "add+layernorm",
                                                             "gemm", "gelu_tanh", "gemm", "add+layernorm"}));
  EXPECT_EQ(
      std::get<std::string>(small.fused_node("micro_step", "block", "gelu_tanh").attributes.at("formula")),
      "x = matmul + bias\ny = act(x)");
  // Both of the activation's kernels have found each other, and add the bias once.
  const ir::Node& backward = small.fused_node("micro_step", "block_backward", "gelu_tanh_backward");
  EXPECT_EQ(std::get<std::string>(backward.attributes.at("formula")),
            "x = matmul + bias\ny = act(x)\nd_x = d_y * act'(x)\nd_bias = sum over "
            "rows of d_x");
}

TEST(Biases, StoreNoSums) {
  const SmallModel small(shipped_spec("gpt2-124m"), {.fuse = true, .in_place = true, .move_biases = true});
  passes::for_each_use(small.graph, [&](const ir::Region&, const ir::Node& node, ir::Use use, bool) {
    EXPECT_FALSE(small.graph.value(use).exact && small.graph.value(use).name == "mlp.up")
        << to_string(node.op);
  });
  EXPECT_EQ(small.fused_node("micro_step", "block", "gelu_tanh").outputs.size(), 1u);
}

// A result is read by the host; a loss that picks its target's logit needs it in memory.
TEST(Biases, StayWhereTheMatmulIsReadAsItIs) {
  SmallModel gpt2(shipped_spec("gpt2-124m"), {.matmul_biases = true});
  passes::Log log;
  passes::move_biases(gpt2.graph, {gpt2.graph.find("mlp.up")}, log);
  EXPECT_EQ(log.at(2).text, "micro_step.block: mlp.up keeps its bias: it is a result");
  const SmallModel classes(small_spec("input: series, num_features: 3, hidden_size: 8, num_hidden_layers: 1, "
                                      "num_attention_heads: 2, head: classification, num_labels: 2, norm: "
                                      "layernorm",
                                      "sequence_len: 5, micro_batch_size: 2", "[y]"),
                           {.move_biases = true});
  EXPECT_EQ(decisions_of(classes, "biases").back(),
            "micro_step.head: logits keeps its bias: cross_entropy reads it");
}

// The step counter advances where it is read: all are scalars.
TEST(Fusion, OfAdamwLeavesThreeKernels) {
  const SmallModel small(shipped_spec("gpt2-124m"), {.all_functions = true, .fuse = true, .in_place = true});
  EXPECT_EQ(kernels_of(small, "update", "update"),
            (Names{"grad_square", "prepare_update+adamw_corrections+advance_step", "adamw"}));
}

ir::ValueId memory_of(const SmallModel& small, const std::string& name) {
  return storage_of(small.graph, small.graph.find(name));
}

TEST(InPlace, RopeTurnsQueriesAndKeysInsideThePackedMatmul) {
  const SmallModel small(shipped_spec("quickstart", {"model.vocab_size=256"}),
                         {.fuse = true, .in_place = true});
  for (const char* name : {"attn.q_rotated", "attn.k_rotated", "attn.v"})
    EXPECT_EQ(memory_of(small, name), memory_of(small, "attn.qkv")) << name;
  EXPECT_EQ(memory_of(small, "d_logits"), memory_of(small, "logits"));
}

TEST(InPlace, WhatTheBackwardPassReadsIsNotOverwritten) {
  const SmallModel small(shipped_spec("gpt2-124m"), {.fuse = true, .in_place = true});
  EXPECT_NE(memory_of(small, "mlp.act"), memory_of(small, "mlp.up"));  // gelu's derivative needs its input
  EXPECT_EQ(memory_of(small, "mlp.up"),
            memory_of(small, "mlp.up.matmul"));  // the bias is added where the matmul lies
}

// What only the backward pass reads.
TEST(DeadCode, EvaluationStoresANormsStatisticsSoThatItRunsTrainingsKernelAndNothingElse) {
  const SmallModel small(shipped_spec("gpt2-124m"), {.all_functions = true, .fuse = true});
  const ir::Node& training = small.fused_node("micro_step", "block", "layernorm");
  const ir::Node& evaluation = small.fused_node("evaluate", "block", "layernorm");
  EXPECT_EQ(training.outputs.size(), 4u);  // the sum, the norm, mean and rstd
  EXPECT_EQ(evaluation.outputs.size(), 4u);
  const ir::Node& loss = small.fused_node("evaluate", "head", "cross_entropy");
  EXPECT_EQ(loss.outputs.size(), 1u);  // without the rows' losses and lse
}

TEST(Recompute, ANormIsComputedAgainWhereItIsNeeded) {
  const SmallModel small(shipped_spec("quickstart", {"model.vocab_size=256"}), {.recompute = {.norm = true}});
  int again = 0;
  for (const passes::Decision& decision : small.log) again += decision.pass == "recompute";
  EXPECT_EQ(again, 2);  // the one before attention and the one before the mlp
}

// The statistics are kept: a row of the norm is one number or two.
TEST(Recompute, ANormTakesNoSumsAgain) {
  for (const char* spec : {"quickstart", "gpt2-124m"}) {
    const SmallModel small(shipped_spec(spec, {"model.vocab_size=256"}), {.recompute = {.norm = true}});
    int again = 0;
    for (const ir::Region& region : small.graph.function("micro_step").regions) {
      for (const ir::Node& node : region.nodes) {
        if (node.op != ir::Op::fused ||
            !std::get<std::string>(node.attributes.at("name")).ends_with("norm_again"))
          continue;
        ++again;
        EXPECT_TRUE(
            std::ranges::none_of(node.body->exprs, [](const ir::Expr& e) { return is_reduction(e.op); }));
      }
    }
    EXPECT_EQ(again, 2) << spec;
  }
}

TEST(Recompute, OfSomeLayersIsALoopOfTheirOwn) {
  const SmallModel small(shipped_spec("quickstart", {"model.vocab_size=256"}),
                         {.recompute = {.norm = true, .layers = 1}});
  const int all = static_cast<int>(small.spec.model.num_hidden_layers);
  std::vector<std::string> loops;
  for (const ir::Region& region : small.graph.function("micro_step").regions) {
    if (region.layers > 0)
      loops.push_back(fmt::format("{} {} {}", region.name, region.first_layer, region.layers));
  }
  EXPECT_EQ(loops, (Names{"block0 0 1", fmt::format("block1 1 {}", all - 1),
                          fmt::format("block1_backward 1 {}", all - 1), "block0_backward 0 1"}));
  const auto again = [&](const std::string& region) {
    return std::ranges::count_if(kernels_of(small, "micro_step", region),
                                 [](const std::string& name) { return name.ends_with("norm_again"); });
  };
  EXPECT_EQ(again("block0_backward"), 2);
  EXPECT_EQ(again("block1_backward"), 0);
}

TEST(Recompute, ChoicesHaveNames) {
  EXPECT_EQ(to_string(passes::RecomputeChoice{}), "none");
  EXPECT_EQ(to_string(passes::RecomputeChoice{.block = true}), "block");
  EXPECT_EQ(to_string(passes::RecomputeChoice{.norm = true, .act = true, .attn = true, .mlp = true}),
            "[norm, act, attn, mlp]");
  EXPECT_EQ(in_words(passes::RecomputeChoice{.block = true}), "block");
  EXPECT_EQ(in_words(passes::RecomputeChoice{.block = true, .layers = 1}), "block in 1 layer");
  EXPECT_EQ(in_words(passes::RecomputeChoice{.norm = true, .act = true, .layers = 3}),
            "[norm, act] in 3 layers");
}

}  // namespace
}  // namespace hydrac::test
