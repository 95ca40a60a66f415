// `hydrac verify`: loss, gradients and steps of whole models against LibTorch in float64. Few models, each
// with many features, since every one is compiled.
#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>

#include "tests/e2e/cli.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/test_name.h"

namespace hydrac::e2e {
namespace {

using test::spill;

bool oracle_is_there() {
  const fs::path oracle = fs::path(HYDRAC_BUILT_PROGRAM).parent_path() / "hydrac-oracle";
  if (fs::exists(oracle)) return true;
  fprintf(stderr,
          "SKIPPED: there is no hydrac-oracle beside hydrac; build it (-DHYDRAC_ORACLE=ON) to compare with "
          "LibTorch\n");
  return false;
}

#define NEEDS_ORACLE() \
  if (!oracle_is_there()) GTEST_SKIP() << "no hydrac-oracle"

struct Case {
  const char* name;
  const char* model;
  const char* train;
  const char* data = "";
  const char* adapter = "";
};

std::string spec_of(const Case& c) {
  return std::string("name: ") + c.name + "\ntarget: cpu\nmodel: {hidden_size: 64, " +
         (std::string(c.model).find("num_hidden_layers") == std::string::npos ? "num_hidden_layers: 2, "
                                                                              : "") +
         c.model + "}\ndata: {path: corpus.txt" + c.data + "}\ntrain: {max_steps: 12, " + c.train +
         "}\nadapter: {" + c.adapter + "}\noptimizations: {threads: 1}\n";
}

// clang-format off
const Case kCases[] = {
    {"LlamaWithGroupedQueriesSmoothedAccumulatedCosine",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, tie_word_embeddings: false",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 3, label_smoothing: 0.1, "
     "lr_scheduler: {name: cosine, warmup_steps: 2}"},
    {"Int8StateWithDropoutAccumulated",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, attention_bias: true, dropout: 0.2",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"Int8StateLionFrozenLayer",
     "num_attention_heads: 4, intermediate_size: 128, vocab_size: 256",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: lion}, freeze: ['model.layers.0.*']"},
    {"Int8StateMuon",
     "num_attention_heads: 4, intermediate_size: 128, vocab_size: 256",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: muon}"},
    {"Int8StateSgd",
     "num_attention_heads: 4, intermediate_size: 128, vocab_size: 256",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: sgd, learning_rate: 0.1}"},
    {"Gpt2WithDropoutLinear",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu_tanh, "
     "attention_bias: true, mlp_bias: true, tie_word_embeddings: true, dropout: 0.2, attention_dropout: 0.2, "
     "max_position_embeddings: 24",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2, lr_scheduler: {name: linear, decay_steps: 4}"},
    {"AdaptiveRate",
     "num_attention_heads: 4, intermediate_size: 128, vocab_size: 256",
     "sequence_len: 16, micro_batch_size: 2, "
     "lr_scheduler: {name: adaptive, patience: 1, threshold: 0.5, factor: 0.25}"},
    {"Qwen3WithQkNormLionWsd",
     "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 32, intermediate_size: 128, vocab_size: 256, qk_norm: true, "
     "norm_eps: 1e-6",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: lion}, "
     "lr_scheduler: {name: wsd, warmup_steps: 1, decay_steps: 11}"},
    {"Olmo2Accumulated",
     "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 32, intermediate_size: 128, vocab_size: 256, norm_placement: output, qk_norm: true, qk_norm_scope: projection, "
     "dropout: 0.1",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"Gemma2TheNormsRecomputed",
     "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 32, intermediate_size: 128, vocab_size: 256, "
     "norm_placement: both, norm_offset: 1, embedding_scale: 2.5, residual_scale: 0.5, logit_scale: 0.75, attention_scale: 0.6, hidden_act: geglu_tanh, attention_softcap: 50, logit_softcap: 30, "
     "sliding_window: 5, sliding_window_pattern: 2",
     "sequence_len: 16, micro_batch_size: 2"},
    {"ParallelAccumulated",
     "num_hidden_layers: 3, num_attention_heads: 4, intermediate_size: 128, vocab_size: 256, norm: layernorm, hidden_act: gelu, "
     "block: parallel, dropout: 0.1, tie_word_embeddings: false",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"ParallelWithOneNormTheNormsRecomputed",
     "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 1, intermediate_size: 128, vocab_size: 256, norm: layernorm, "
     "norm_bias: false, hidden_act: gelu, block: parallel_one_norm, rope_interleave: true",
     "sequence_len: 16, micro_batch_size: 2"},
    {"Qwen2WithBiasesAndStretchedRopeSgdConstant",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, attention_bias: true, "
     "attention_output_bias: false, rope_theta: 500, dropout: 0.1, rope_scaling: {rope_type: llama3, factor: 8, "
     "low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 32}",
     "sequence_len: 64, micro_batch_size: 2, optimizer: {name: sgd, weight_decay: 0.01}, "
     "lr_scheduler: {name: constant, warmup_steps: 2}, max_grad_norm: 0"},
    {"YarnOfHalfAHeadInSomeLayers",
     "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, no_rope_pattern: 2, "
     "partial_rotary_factor: 0.5, rope_theta: 500, rope_scaling: {rope_type: yarn, factor: 8, beta_fast: 8, "
     "original_max_position_embeddings: 16}",
     "sequence_len: 64, micro_batch_size: 2"},
    {"LongropeAndHeadsThatArePackedByHead",
     "num_attention_heads: 4, intermediate_size: 128, vocab_size: 257, norm: layernorm, hidden_act: gelu, block: parallel, "
     "packed_weights: qkv_by_head, head_bias: true, tie_word_embeddings: false, partial_rotary_factor: 0.5, rope_scaling: {rope_type: "
     "longrope, factor: 4, original_max_position_embeddings: 16, short_factor: [1, 1, 1, 1], long_factor: [1, 2, 3.5, 9]}",
     "sequence_len: 33, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"TwoBasesOfInterleavedRopeAmongDocuments",
     "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, sliding_window: 9, "
     "sliding_window_pattern: 2, rope_theta: 500, rope_local_theta: 50, rope_scaling: {rope_type: linear, factor: 4}, "
     "rope_interleave: true, partial_rotary_factor: 0.75",
     "sequence_len: 64, micro_batch_size: 2", ", document_mask: true"},
    {"MultiQueryRelu2UntiedWithoutPositions",
     "num_attention_heads: 4, num_key_value_heads: 1, intermediate_size: 128, vocab_size: 256, hidden_act: relu2, "
     "tie_word_embeddings: false, position: none",
     "sequence_len: 16, micro_batch_size: 2"},
    {"FiveHeadsOfFortyAndOddSizesGeglu",
     "num_attention_heads: 5, num_key_value_heads: 5, head_dim: 40, intermediate_size: 77, vocab_size: 257, hidden_act: geglu, "
     "mlp_bias: true, dropout: 0.1, attention_dropout: 0.1",
     "sequence_len: 33, micro_batch_size: 3, gradient_accumulation_steps: 2, label_smoothing: 0.1"},
    {"GegluTanh",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 64, vocab_size: 256, hidden_act: geglu_tanh",
     "sequence_len: 16, micro_batch_size: 2"},
    {"SiluUnderLayernormWithRope",
     "num_attention_heads: 4, intermediate_size: 96, vocab_size: 256, norm: layernorm, norm_bias: false, hidden_act: silu, "
     "mlp_bias: false",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: sgd, momentum: 0}"},
    {"ThreeLayersOfWhichTheFirstIsRecomputed",
     "num_hidden_layers: 3, num_attention_heads: 4, intermediate_size: 128, vocab_size: 256, dropout: 0.2",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"GeluUntiedWithTheBlockRecomputed",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, hidden_act: gelu, dropout: 0.1, "
     "attention_dropout: 0.1, tie_word_embeddings: false",
     "sequence_len: 16, micro_batch_size: 2"},
    {"HeadInFourPartsOfTheRows",
     "num_attention_heads: 2, vocab_size: 16411", "sequence_len: 64, micro_batch_size: 16, label_smoothing: 0.1"},
    {"UntiedHeadInThreePartsAccumulated",
     "num_attention_heads: 2, vocab_size: 30011, tie_word_embeddings: false",
     "sequence_len: 53, micro_batch_size: 15, gradient_accumulation_steps: 2"},
    {"SeriesRegression",
     "input: series, head: regression, num_features: 5, num_labels: 2, num_attention_heads: 4, norm: layernorm, "
     "position: learned, hidden_act: gelu, dropout: 0.1",
     "sequence_len: 16, micro_batch_size: 3, gradient_accumulation_steps: 2"},
    {"OwnGatedActivationAndCurve",
     "num_attention_heads: 4, intermediate_size: 96, vocab_size: 256, "
     "hidden_act: {cpp: ops/own.h, function: smooth_gate}",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: sgd}, "
     "lr_scheduler: {name: {cpp: ops/own.h, function: stairs}, warmup_steps: 1}"},
    {"OwnActivationLikeQuickGelu",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, hidden_act: {cpp: ops/quick_gelu.h, function: quick_gelu}",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"SeriesOwnLossRegression",
     "input: series, head: regression, num_features: 5, num_labels: 2, num_attention_heads: 4, "
     "hidden_act: {cpp: ops/own.h, function: many_operations}",
     "sequence_len: 16, micro_batch_size: 3, loss: {cpp: ops/huber.h, function: huber}"},
    {"DocumentsOfRopeWindowsAndGroupedQueries",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, qk_norm: true, sliding_window: 20, "
     "sliding_window_pattern: 2, attention_softcap: 20, attention_dropout: 0.1",
     "sequence_len: 100, micro_batch_size: 3, gradient_accumulation_steps: 2",
     ", document_mask: true"},
    {"DocumentsOfLearnedPositions",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, max_position_embeddings: 80",
     "sequence_len: 70, micro_batch_size: 2, gradient_accumulation_steps: 2",
     ", document_mask: true"},
    {"DocumentsOfCompressedAttention",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, attention_kind: ccgqa, ccgqa: {compression: 2}",
     "sequence_len: 70, micro_batch_size: 2, gradient_accumulation_steps: 2",
     ", document_mask: true"},
    {"SequencesThatGrowOfRopeAndGroupedQueries",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, attention_dropout: 0.1",
     "sequence_len: 100, micro_batch_size: 3, gradient_accumulation_steps: 2, sequence_warmup: {start: 16, steps: 2}"},
    {"SequencesThatGrowOfLearnedPositions",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned",
     "sequence_len: 70, micro_batch_size: 2, gradient_accumulation_steps: 2, sequence_warmup: {start: 8, steps: 2}"},
    {"SequencesThatGrowOfDocumentsAndCompressedAttention",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, attention_kind: ccgqa, ccgqa: {compression: 2}",
     "sequence_len: 70, micro_batch_size: 2, gradient_accumulation_steps: 2, sequence_warmup: {start: 3, steps: 4}",
     ", document_mask: true"},
    {"FrozenLayersEmbeddingAndPositionsAccumulated",
     "num_hidden_layers: 4, num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu, "
     "dropout: 0.2, attention_dropout: 0.2",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2, "
     "freeze: ['transformer.w?e.weight', 'transformer.h.[01].*', 'transformer.h.3.ln_2.*']"},
    {"MuonOfPackedAndTallMatricesAccumulated",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, attention_bias: true, dropout: 0.1",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2, optimizer: {name: muon, momentum: 0.9}, "
     "freeze: 'model.layers.1.mlp.*'"},
    {"FrozenMatricesLionWindows",
     "num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, qk_norm: true, sliding_window: 5, "
     "sliding_window_pattern: 2, tie_word_embeddings: false",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: lion}, freeze: ['model.layers.[02].mlp.*', lm_head.weight]"},
    {"FrozenButForTheHeadInParts",
     "num_attention_heads: 2, vocab_size: 30011, tie_word_embeddings: false",
     "sequence_len: 53, micro_batch_size: 15, freeze: 'model.*'"},
    {"FrozenHeadInPartsTheBlockRecomputed",
     "num_attention_heads: 2, vocab_size: 30011", "sequence_len: 53, micro_batch_size: 15, "
     "freeze: [model.embed_tokens.weight, model.norm.weight]"},
    {"LoraOfGpt2AccumulatedAndClipped",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu_tanh, dropout: 0.1",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 3, max_grad_norm: 0.01",
     "", "type: lora, r: 4, dropout: 0.1"},
    {"LoraOfLlamaTheBlockRecomputed",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, tie_word_embeddings: false",
     "sequence_len: 16, micro_batch_size: 2", "", "type: lora, r: 8, alpha: 3, dropout: 0.2"},
    {"LoraOfSomeOfQwen2",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, attention_bias: true, attention_output_bias: false",
     "sequence_len: 16, micro_batch_size: 2", ", document_mask: true",
     "type: lora, r: 3, rslora: true, target_modules: [k_proj, gate_proj]"},
    {"LoraOfQwen3InHeadPartsWithMuon",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 16411, qk_norm: true",
     "sequence_len: 64, micro_batch_size: 16, optimizer: {name: muon}", "",
     "type: lora, r: 5, target_modules: [q_proj, v_proj, o_proj, up_proj, down_proj]"},
    {"LoraOfLlamaOverNf4TheBlockRecomputed",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 1024, vocab_size: 256, tie_word_embeddings: false",
     "sequence_len: 16, micro_batch_size: 2", "", "type: lora, r: 8, base: nf4"},
    {"LoraOfGpt2OverNf4",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu_tanh",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2", "",
     "type: lora, r: 4, dropout: 0.1, base: nf4"},
    {"WeightedTokens",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256",
     "sequence_len: 32, micro_batch_size: 2, gradient_accumulation_steps: 2", ", format: chat"},
    {"WeightedTokensBesideAnAdapterInHeadParts",
     "num_attention_heads: 2, vocab_size: 16411, logit_softcap: 20",
     "sequence_len: 64, micro_batch_size: 16", ", format: chat", "type: lora, r: 4, dropout: 0.1"},
    {"MixtureOfRecursionsAccumulated",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, initializer_range: 0.1, "
     "mor: {recursions: 4, depth_loss_coef: 0.3, variance_loss_coef: 0.2, aux_warmup_steps: 2}",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"MixtureOfRecursionsOfGpt2WithDropoutTheBlockRecomputed",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu_tanh, mlp_bias: true, "
     "dropout: 0.1, initializer_range: 0.1, mor: {recursions: 3, depth_loss_coef: 0, aux_warmup_steps: 0}",
     "sequence_len: 16, micro_batch_size: 2"},
    {"MixtureOfRecursionsMuonFrozenLayer",
     "num_attention_heads: 4, intermediate_size: 128, vocab_size: 256, initializer_range: 0.1, mor: {recursions: 2, "
     "aux_warmup_steps: 0}",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: muon}, freeze: ['model.layers.0.mor.*', 'model.layers.1.mlp.*']"},
    {"LoraOfAMixtureOfRecursions",
     "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128, vocab_size: 256, initializer_range: 0.1, "
     "mor: {recursions: 3, aux_warmup_steps: 0}",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2", "", "type: lora, r: 4, dropout: 0.1"},
    {"ModOfGroupedQueriesAccumulated",
     "num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, qk_norm: true, mod: {capacity: 0.25}",
     "sequence_len: 32, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"ModOfEveryThirdLayerOfGpt2TheBlockRecomputed",
     "num_hidden_layers: 6, num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, dropout: 0.1, "
     "attention_dropout: 0.1, mod: {capacity: 0.5, every: 3}",
     "sequence_len: 33, micro_batch_size: 3"},
    {"ModOfFourLayersOfWhichTheFirstIsRecomputed",
     "num_hidden_layers: 4, num_attention_heads: 4, vocab_size: 256, dropout: 0.2, mod: {capacity: 0.125}",
     "sequence_len: 32, micro_batch_size: 2, gradient_accumulation_steps: 2, optimizer: {name: muon}"},
    {"ModWithFrozenLayersAndMatrices",
     "num_hidden_layers: 6, num_attention_heads: 4, vocab_size: 256, mod: {capacity: 0.5}",
     "sequence_len: 16, micro_batch_size: 2, freeze: ['model.layers.[02].*', 'model.layers.3.mlp.*']"},
    {"ModUnderAnAdapterInHeadParts",
     "num_hidden_layers: 4, num_attention_heads: 2, vocab_size: 16411, mod: {capacity: 0.25}",
     "sequence_len: 64, micro_batch_size: 16", "", "type: lora, r: 4, dropout: 0.1"},
    {"ModOfSeriesRegression",
     "num_hidden_layers: 4, input: series, head: regression, num_features: 5, num_labels: 2, num_attention_heads: 4, "
     "attention_mask: none, mod: {capacity: 0.25}",
     "sequence_len: 16, micro_batch_size: 3"},
    {"ExpertsAccumulated",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, initializer_range: 0.1, "
     "moe: {experts: 6, top_k: 2, intermediate_size: 72, aux_loss_coef: 0.1, z_loss_coef: 0.01}",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2"},
    {"ExpertsOfSigmoidsWithDropoutTheBlockRecomputed",
     "num_attention_heads: 4, vocab_size: 256, norm: layernorm, position: learned, hidden_act: gelu_tanh, mlp_bias: false, "
     "dropout: 0.1, initializer_range: 0.1, moe: {experts: 3, top_k: 3, scoring: sigmoid, normalize_top_k: false, "
     "routed_scale: 2.5}",
     "sequence_len: 17, micro_batch_size: 3"},
    {"ExpertsMuonFrozenLayer",
     "num_attention_heads: 4, vocab_size: 256, initializer_range: 0.1, block: parallel, norm_placement: both, "
     "moe: {experts: 4, top_k: 1, normalize_top_k: false, intermediate_size: 48}",
     "sequence_len: 16, micro_batch_size: 2, optimizer: {name: muon}, freeze: ['model.layers.0.mlp.*']"},
    {"LoraBesideExperts",
     "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 256, initializer_range: 0.1, "
     "moe: {experts: 8, top_k: 4, intermediate_size: 24}",
     "sequence_len: 16, micro_batch_size: 2, gradient_accumulation_steps: 2", "", "type: lora, r: 4, dropout: 0.1"},
    {"SeriesClassification",
     "input: series, head: classification, num_features: 3, num_labels: 5, num_attention_heads: 4",
     "sequence_len: 16, micro_batch_size: 3, label_smoothing: 0.1"},
};
// clang-format on

// The examples', and one that needs about every operation that a user's function can have.
void spill_functions(const Workplace& place) {
  const std::string examples = hydrac::test::source_dir() + "/examples/ops/";
  fs::create_directories(place / "ops");
  for (const char* file : {"quick_gelu.h", "huber.h"})
    spill(place / "ops" / file, test::slurp(examples + file));
  spill(place / "ops/own.h",
        "#include <algorithm>\n#include <cmath>\n"
        "float smooth_gate(float gate, float up) { return std::tanh(gate) * up + 0.125f * gate * up; }\n"
        "double stairs(double step, double max_steps) {\n"
        "  return std::pow(0.5, std::floor(3 * step / max_steps)) * (1 + std::cos(step)) / 2;\n"
        "}\n"
        "float many_operations(float x) {\n"
        "  const float a = 0.5f * x;\n"
        "  if (!(a < 1.0f) || (a <= -1.0f && a != -9.0f))\n"
        "    return std::tanh(x) + std::erf(a) + std::sqrt(x * x + 1.0f);\n"
        "  float y = std::exp(-std::abs(x)) + std::expm1(a) + std::log(x * x + 2.0f) + std::log1p(x * x);\n"
        "  y += std::sin(x) * std::cos(a) - std::pow(x * x + 1.0f, 0.3f);\n"
        "  y += std::max(x, a) / (2.0f + std::min(a, 0.25f));\n"
        "  return y * (x / (1.0f + std::exp(-x)));\n"
        "}\n");
}

class Verify : public testing::TestWithParam<Case> {};

TEST_P(Verify, LossGradientsAndStepsAreLibTorchs) {
  NEEDS_ORACLE();
  const Workplace place;
  spill(place / "case.yaml", spec_of(GetParam()));
  spill_functions(place);
  Words command = {"verify", "case.yaml"};
  if (std::string(GetParam().name).ends_with("Recomputed"))
    command.push_back("optimizations.recompute=block");
  if (std::string(GetParam().name).find("TheFirst") != std::string::npos)
    command.push_back("optimizations.recompute_layers=1");
  if (std::string(GetParam().name).find("Parts") != std::string::npos)
    command.push_back("optimizations.loss=fused_linear");
  if (std::string(GetParam().name).starts_with("Int8State"))
    command.push_back("optimizations.optimizer_state=int8");
  if (std::string(GetParam().name).starts_with("Weighted"))
    command.insert(command.end(), {"objective.name=polychromic", "objective.max_new_tokens=16"});
  if (std::string(GetParam().name).ends_with("Regression")) command.push_back("data.target=[y, z]");
  if (std::string(GetParam().name) == "SeriesClassification") command.push_back("data.target=[y]");
  const Outcome outcome = place.run(command);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(" within tolerance of LibTorch in float64, after 3 steps\n"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.out.find("BEYOND"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, Verify, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VerifyPreferences, EveryLossOfPairsIsLibTorchs) {
  NEEDS_ORACLE();
  const Workplace place;
  spill(place / "pairs.yaml",
        "name: pairs\ntarget: cpu\n"
        "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4}\n"
        "objective: {name: dpo, beta: 0.3}\ndata: {path: pairs.jsonl, format: chat, tokenizer: byte}\n"
        "train: {sequence_len: 96, micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 10}\n");
  for (const char* name : {"dpo", "ipo", "simpo", "orpo", "apo_zero", "apo_down"}) {
    const Outcome outcome = place.run({"verify", "pairs.yaml", std::string("objective.name=") + name,
                                       "objective.label_smoothing=0.1", "--threads", "1"});
    EXPECT_EQ(outcome.code, 0) << name << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find(" within tolerance of LibTorch in float64, after 3 steps\n"),
              std::string::npos)
        << name << outcome.out;
  }
}

class VerifySmall : public testing::TestWithParam<std::string> {};

TEST_P(VerifySmall, ShippedSpecsAreRightAtTheSizeOfATest) {
  NEEDS_ORACLE();
  const Workplace place;
  const std::string spec = hydrac::test::source_dir() + "/specs/" + GetParam() + ".yaml";
  const Outcome outcome =
      place.run({"verify", spec, "--small", "target=cpu", "optimizations.precision=fp32", "--threads", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("small: model.")) << outcome.out;
  EXPECT_NE(outcome.out.find(" within tolerance of LibTorch in float64, after 3 steps\n"), std::string::npos)
      << outcome.out;
}

std::vector<std::string> shipped_specs() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(hydrac::test::source_dir() + "/specs"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Shipped, VerifySmall, testing::ValuesIn(shipped_specs()),
                         [](const auto& info) { return test::without_dashes(info.param); });

// On a GPU its vocabulary pads. The processor alone ends with an error, behind the warnings.
TEST(VerifySmallOption, WarnsOfNoSizeThatItChose) {
  const Workplace place;
  const std::string spec = hydrac::test::source_dir() + "/specs/gpt2-124m.yaml";
  const Words words = {"verify", spec, "--small", "--oracle", "/bin/false", "target=h200"};
  const Outcome chosen = place.run(words);
  EXPECT_NE(chosen.out.find(" model.vocab_size=1031 "), std::string::npos) << chosen.out;
  EXPECT_EQ(chosen.err.find("warning"), std::string::npos) << chosen.err;
  const Outcome given = place.run(with(words, {"model.vocab_size=1031"}));
  EXPECT_NE(given.err.find("warning: vocab_size (1031) pads to 1088"), std::string::npos) << given.err;
}

TEST(VerifySmallOption, LeavesTheLastWordToTheCommandLine) {
  NEEDS_ORACLE();
  const Workplace place;
  const Outcome outcome = place.run(
      {"verify", "base.yaml", "--small", "model.num_hidden_layers=3", "--keep", "job", "--steps", "1"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("num_hidden_layers=2"), outcome.out.find("small: ") + 7 + 6) << outcome.out;
  EXPECT_NE(test::slurp(place / "job" / "job.json").find("\"layers\": 3"), std::string::npos);
}

#ifdef E2E_WRONG_ORACLE
Words lines_with(const std::string& text, const std::string& part) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.find(part) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

TEST(VerifyFails, WhenOneGradientDiffersAndNamesIt) {
  NEEDS_ORACLE();
  const Workplace place;
  const Outcome outcome = place.run({"verify", "base.yaml", "--oracle", E2E_WRONG_ORACLE});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const Words beyond = lines_with(outcome.out, "BEYOND");
  ASSERT_EQ(beyond.size(), 1u) << outcome.out;
  EXPECT_TRUE(beyond[0].starts_with("gradient   attn.qkv.weight ")) << beyond[0];
  EXPECT_EQ(lines_with(outcome.out, "20 of 21 within tolerance").size(), 1u) << outcome.out;
}

// Signs change by chance too, but not as many.
TEST(VerifyFails, WhenLionHasAnotherBeta) {
  NEEDS_ORACLE();
  const Workplace place;
  const Words command = {"verify", "base.yaml", "train.optimizer.name=lion"};
  const Outcome right = place.run(command);
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  Words wrong = command;
  wrong.insert(wrong.end(), {"--oracle", E2E_WRONG_ORACLE});
  const Outcome outcome = place.run(wrong);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  for (const char* weight : {"attn.qkv.weight ", "mlp.down.weight "}) {
    const Words lines = lines_with(outcome.out, std::string("parameter  ") + weight);
    ASSERT_EQ(lines.size(), 1u) << outcome.out;
    EXPECT_NE(lines[0].find("BEYOND"), std::string::npos) << lines[0];
  }
}
#endif

TEST(VerifyFails, WhenTheOracleDoes) {
  const Workplace place;
  const Outcome outcome = place.run({"verify", "base.yaml", "--oracle", "/bin/false"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err, "hydrac: verify failed: /bin/false verify failed\n");
}

TEST(VerifyFails, WhenThereIsNoSuchOracle) {
  const Workplace place;
  const Outcome outcome = place.run({"verify", "base.yaml", "--oracle", "nowhere"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "hydrac: error: --oracle: there is no nowhere\n");
}

TEST(VerifyJob, LiesWhereItIsToldTo) {
  NEEDS_ORACLE();
  const Workplace place;
  ASSERT_EQ(place.run({"verify", "base.yaml", "--keep", "job", "--steps", "1"}).code, 0);
  EXPECT_EQ(files_below(place / "job"),
            (Words{"job.json", "result.json", "result.safetensors", "tensors.safetensors"}));
}

TEST(VerifyJob, SaysThatTheResidualStreamIsNarrowWhereItIs) {
  NEEDS_ORACLE();
  const Workplace place;
  const auto job_with = [&](const std::string& residual) {
    EXPECT_EQ(place
                  .run({"verify", "base.yaml", "optimizations.residual=" + residual, "--keep", residual,
                        "--steps", "1"})
                  .code,
              0);
    return test::slurp(place / residual / "job.json");
  };
  EXPECT_NE(job_with("compute").find("\"narrow\": 1"), std::string::npos);
  EXPECT_EQ(job_with("fp32").find("\"narrow\""), std::string::npos);
}

}  // namespace
}  // namespace hydrac::e2e
