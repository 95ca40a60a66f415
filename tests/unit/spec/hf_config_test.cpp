// config.json files as Hugging Face publishes them, beside the shapes they must become.
#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace hydrac::spec {
namespace {

const std::string kRest =
    "name: from-config\ndata: {path: corpus.txt}\ntrain: {sequence_len: 64, micro_batch_size: 4, max_steps: "
    "100}\n";

Loaded from(const std::string& config, const std::string& more = "") {
  const Folder folder;
  folder.write("config.json", config);
  Loaded loaded;
  loaded.spec = load_spec(folder.write("spec.yaml", kRest + "model: {from: config.json" + more + "}\n"), {},
                          loaded.diagnostics);
  return loaded;
}

SpecKeys::Model model(const std::string& config, const std::string& more = "") {
  const Loaded loaded = from(config, more);
  EXPECT_EQ(loaded.text(), "");
  return loaded.spec ? loaded.spec->model : SpecKeys::Model{};
}

const std::string kGpt2 = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
  "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
  "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257
})";

TEST(HfConfig, Gpt2) {
  const auto m = model(kGpt2);
  EXPECT_EQ(m.hidden_size, 768);
  EXPECT_EQ(m.num_hidden_layers, 12);
  EXPECT_EQ(m.num_attention_heads, 12);
  EXPECT_EQ(m.num_key_value_heads, 12);
  EXPECT_EQ(m.head_dim, 64);
  EXPECT_EQ(m.intermediate_size, 3072);
  EXPECT_EQ(m.vocab_size, 50257);
  EXPECT_EQ(m.max_position_embeddings, 1024);
  EXPECT_EQ(m.norm, Norm::layernorm);
  EXPECT_EQ(m.norm_eps, 1e-5);
  EXPECT_EQ(m.hidden_act, Activation::gelu_tanh);
  EXPECT_EQ(m.position, Position::learned);
  EXPECT_TRUE(m.norm_bias && m.attention_bias && m.attention_output_bias && m.mlp_bias &&
              m.tie_word_embeddings);
  EXPECT_EQ(m.dropout, 0.1);
  EXPECT_EQ(m.attention_dropout, 0.1);
}

const std::string kLlama32 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256
})";

TEST(HfConfig, Llama3WithRopeScaling) {
  const auto m = model(kLlama32);
  EXPECT_EQ(m.hidden_size, 2048);
  EXPECT_EQ(m.num_hidden_layers, 16);
  EXPECT_EQ(m.num_attention_heads, 32);
  EXPECT_EQ(m.num_key_value_heads, 8);
  EXPECT_EQ(m.head_dim, 64);
  EXPECT_EQ(m.intermediate_size, 8192);
  EXPECT_EQ(m.vocab_size, 128256);
  EXPECT_EQ(m.max_position_embeddings, 131072);
  EXPECT_EQ(m.norm, Norm::rmsnorm);
  EXPECT_EQ(m.hidden_act, Activation::swiglu);
  EXPECT_EQ(m.position, Position::rope);
  EXPECT_EQ(m.rope_theta, 500000);
  EXPECT_EQ(m.rope_scaling.factor, 32);
  EXPECT_EQ(m.rope_scaling.low_freq_factor, 1);
  EXPECT_EQ(m.rope_scaling.high_freq_factor, 4);
  EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 8192);
  EXPECT_TRUE(m.tie_word_embeddings);
  EXPECT_FALSE(m.norm_bias || m.attention_bias || m.attention_output_bias || m.mlp_bias || m.qk_norm);
  EXPECT_EQ(m.dropout, 0);
}

TEST(HfConfig, TheShippedLlama1bIsThatModel) {
  diag::Diagnostics diagnostics;
  const auto shipped = load_spec((source_dir() / "specs/llama-1b.yaml").string(), {}, diagnostics);
  ASSERT_TRUE(shipped) << diagnostics.render();
  EXPECT_EQ(shipped->model, model(kLlama32));
}

TEST(HfConfig, LlamaDefaultsAreHuggingFaces) {
  const auto m = model(R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048})");
  EXPECT_EQ(m.norm_eps, 1e-6);
  EXPECT_EQ(m.rope_theta, 10000);
  EXPECT_EQ(m.rope_scaling.factor, 1);
  EXPECT_FALSE(m.tie_word_embeddings);
  EXPECT_EQ(m.num_key_value_heads, 2);
}

TEST(HfConfig, LlamaWithAttentionBiasHasItOnTheOutputToo) {
  const auto m =
      model(R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "attention_bias": true,
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048})");
  EXPECT_TRUE(m.attention_bias && m.attention_output_bias);
}

TEST(HfConfig, Qwen2HasBiasesOnQueryKeyAndValueOnly) {
  const auto m = model(R"({
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643,
    "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
    "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
    "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
    "vocab_size": 151936})");
  EXPECT_EQ(m.hidden_size, 896);
  EXPECT_EQ(m.num_key_value_heads, 2);
  EXPECT_EQ(m.head_dim, 64);
  EXPECT_EQ(m.norm_eps, 1e-6);
  EXPECT_EQ(m.rope_theta, 1e6);
  EXPECT_TRUE(m.attention_bias && m.tie_word_embeddings);
  EXPECT_FALSE(m.attention_output_bias || m.mlp_bias || m.norm_bias || m.qk_norm);
}

TEST(HfConfig, Qwen3HasQkNormAndItsOwnHeadDim) {
  const std::string config = R"({
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false,
    "vocab_size": 151936})";
  const auto m = model(config);
  EXPECT_EQ(m.head_dim, 128);  // not 1024 / 16
  EXPECT_EQ(m.num_key_value_heads, 8);
  EXPECT_TRUE(m.qk_norm);
  EXPECT_FALSE(m.attention_bias || m.attention_output_bias || m.mlp_bias);
}

TEST(HfConfig, ReadsRopeParametersOfNewerFiles) {
  const auto m =
      model(R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "dtype": "bfloat16",
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048,
    "layer_types": ["full_attention", "full_attention"],
    "rope_parameters": {"rope_theta": 250000.0, "rope_type": "default"}})");
  EXPECT_EQ(m.rope_theta, 250000);
  EXPECT_EQ(m.rope_scaling.factor, 1);
}

const std::string kSizes = R"("hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 32, "vocab_size": 1024, "max_position_embeddings": 2048)";

TEST(HfConfig, EveryGeluIsWhatItsNameSays) {
  const auto gated = [](const std::string& name) {
    return model("{\"model_type\": \"llama\", \"hidden_act\": \"" + name + "\", " + kSizes + "}")
        .hidden_act.word;
  };
  EXPECT_EQ(gated("gelu"), Activation::geglu);
  EXPECT_EQ(gated("gelu_pytorch_tanh"), Activation::geglu_tanh);
  EXPECT_EQ(gated("gelu_new"), Activation::geglu_tanh);
  EXPECT_EQ(gated("silu"), Activation::swiglu);
  const auto plain = [](const std::string& name) {
    std::string config = kGpt2;
    config.replace(config.find("gelu_new"), 8, name);
    return model(config).hidden_act.word;
  };
  EXPECT_EQ(plain("gelu"), Activation::gelu);
  EXPECT_EQ(plain("gelu_pytorch_tanh"), Activation::gelu_tanh);
  EXPECT_EQ(plain("gelu_new"), Activation::gelu_tanh);
  EXPECT_EQ(plain("relu2"), Activation::relu2);
}

TEST(HfConfig, MistralIsLlamaWithoutBiases) {
  const auto m = model(R"({"model_type": "mistral", "sliding_window": null, )" + kSizes + "}");
  EXPECT_EQ(m.num_key_value_heads, 8);  // Hugging Face's own default
  EXPECT_EQ(m.norm_eps, 1e-6);
  EXPECT_FALSE(m.attention_bias || m.attention_output_bias || m.mlp_bias || m.qk_norm);
  EXPECT_EQ(m.sliding_window, 0);
  EXPECT_EQ(model(R"({"model_type": "mistral", )" + kSizes + "}").sliding_window, 4096);  // so is this
}

TEST(HfConfig, GemmaAndArceeDefaultsAreHuggingFaces) {
  const auto gemma = model(R"({"model_type": "gemma", )" + kSizes + "}");
  EXPECT_EQ(gemma.num_key_value_heads, 16);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.attention_scale, 1.0 / 16);
  EXPECT_EQ(gemma.embedding_scale, 11.313708498984761);
  EXPECT_EQ(gemma.hidden_act, Activation::geglu_tanh);
  EXPECT_EQ(gemma.norm_placement, NormPlacement::input);
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_TRUE(gemma.tie_word_embeddings);
  const auto arcee = model(R"({"model_type": "arcee", )" + kSizes + "}");
  EXPECT_EQ(arcee.hidden_act, Activation::relu2);
  EXPECT_EQ(arcee.norm_eps, 1e-5);
  EXPECT_EQ(arcee.embedding_scale, 1);
  EXPECT_FALSE(arcee.tie_word_embeddings || arcee.mlp_bias);
}

TEST(HfConfig, FalconDefaultsAreHuggingFacesAndOtherFalconsAreRefused) {
  const std::string sizes =
      R"("vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4)";
  const std::string falcon = R"({"model_type": "falcon", )" + sizes;
  const auto m = model(falcon + R"(, "num_kv_heads": 4, "num_ln_in_parallel_attn": null})");
  EXPECT_EQ(m.block, BlockKind::parallel_one_norm);
  EXPECT_EQ(m.num_key_value_heads, 1);
  EXPECT_EQ(m.intermediate_size, 4 * 64);
  EXPECT_EQ(m.max_position_embeddings, 2048);
  EXPECT_EQ(m.hidden_act, Activation::gelu);
  EXPECT_TRUE(m.norm_bias && m.tie_word_embeddings);
  EXPECT_FALSE(m.attention_bias || m.attention_output_bias || m.mlp_bias);
  for (const char* other : {R"("parallel_attn": false)", R"("multi_query": false)", R"("alibi": true)",
                            R"("new_decoder_architecture": true)", R"("hidden_dropout": 0.1)"})
    EXPECT_NE(from(falcon + ", " + other + "}").text().find("[config-unsupported]"), std::string::npos)
        << other;
}

TEST(HfConfig, Gemma2DefaultsAreHuggingFaces) {
  const auto m = model(R"({"model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", )" + kSizes + "}");
  EXPECT_EQ(m.num_key_value_heads, 4);
  EXPECT_EQ(m.head_dim, 256);
  EXPECT_EQ(m.attention_scale, 1.0 / 16);
  EXPECT_EQ(m.hidden_act, Activation::geglu_tanh);
  EXPECT_EQ(m.attention_softcap, 50);
  EXPECT_EQ(m.logit_softcap, 30);
  EXPECT_EQ(m.sliding_window, 4096);
  EXPECT_EQ(m.sliding_window_pattern, 2);
  EXPECT_EQ(m.norm_placement, NormPlacement::both);
  EXPECT_EQ(m.norm_offset, 1);
  EXPECT_EQ(m.embedding_scale, 11.313708498984761);
  EXPECT_TRUE(m.tie_word_embeddings);
  EXPECT_FALSE(m.attention_bias || m.attention_output_bias || m.mlp_bias || m.qk_norm);
  const auto uncapped = model(R"({"model_type": "gemma2", "attn_logit_softcapping": null,
    "final_logit_softcapping": null, "sliding_window": null, )" +
                              kSizes + "}");
  EXPECT_EQ(uncapped.attention_softcap, 0);
  EXPECT_EQ(uncapped.logit_softcap, 0);
  EXPECT_EQ(uncapped.sliding_window, 0);
}

TEST(HfConfig, Olmo2NormsBranchesOutputs) {
  const auto m = model(R"({"model_type": "olmo2", )" + kSizes + "}");
  EXPECT_EQ(m.num_key_value_heads, 32);
  EXPECT_EQ(m.norm_eps, 1e-5);
  EXPECT_EQ(m.norm_placement, NormPlacement::output);
  EXPECT_TRUE(m.qk_norm);
  EXPECT_EQ(m.qk_norm_scope, QkNormScope::projection);
  EXPECT_FALSE(m.attention_bias || m.tie_word_embeddings);
}

TEST(HfConfig, ReadsWhatHydracWritesOfModelsWithoutANameThere) {
  const auto m = model(R"({"model_type": "hydrac", "from": "", "hidden_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 2, "vocab_size": 1024, "norm": "layernorm", "position": "rope", "hidden_act": "geglu_tanh",
    "rope_scaling": {"rope_type": "llama3", "factor": 1}, "dropout": 0.1, "torch_dtype": "float32"})");
  EXPECT_EQ(m.norm, Norm::layernorm);
  EXPECT_EQ(m.position, Position::rope);
  EXPECT_EQ(m.hidden_act, Activation::geglu_tanh);
  EXPECT_EQ(m.dropout, 0.1);
  EXPECT_EQ(from(R"({"model_type": "hydrac", "hiden_size": 128})").diagnostics.all()[0].kind,
            diag::Kind::unknown_key);
}

TEST(HfConfig, RopeOfAPartOrOfAnUnnamedKindIsRefused) {
  for (const char* key : {R"("partial_rotary_factor": 0.5)", R"("rope_scaling": {"factor": 4.0})",
                          R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25})"}) {
    const Loaded loaded = from(std::string(R"({"model_type": "llama", )") + key + ", " + kSizes + "}");
    EXPECT_FALSE(loaded.spec) << key;
    EXPECT_NE(loaded.text().find("config-unsupported"), std::string::npos) << loaded.text();
  }
}

// A config.json of a family with these entries added.
SpecKeys::Model windowed(const std::string& family, const std::string& entries) {
  return model(R"({"model_type": ")" + family + R"(", "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048, )" +
               entries + "}");
}

TEST(HfConfig, MistralHasAWindowInEveryLayer) {
  const auto m = windowed("mistral", R"("sliding_window": 512)");
  EXPECT_EQ(m.sliding_window, 512);
  EXPECT_EQ(m.sliding_window_pattern, 0);
  EXPECT_FALSE(m.attention_bias || m.attention_output_bias || m.mlp_bias);
  EXPECT_EQ(windowed("mistral", R"("sliding_window": null)").sliding_window, 0);
}

TEST(HfConfig, QwenHasAWindowWhereItIsUsed) {
  EXPECT_EQ(windowed("qwen2", R"("sliding_window": 512, "use_sliding_window": false)").sliding_window, 0);
  EXPECT_EQ(windowed("qwen2", R"("sliding_window": 512)").sliding_window, 0);
  const std::string used = R"("sliding_window": 512, "use_sliding_window": true, "max_window_layers": )";
  EXPECT_EQ(windowed("qwen2", used + "0").sliding_window, 512);
  EXPECT_EQ(windowed("qwen2", used + "6").sliding_window, 0);
  EXPECT_EQ(windowed("qwen3", used + "0").sliding_window, 512);
}

TEST(HfConfig, LayerTypesAreAPattern) {
  const std::string begin = R"("sliding_window": 512, "use_sliding_window": true, "layer_types": )";
  const std::string sliding = R"("sliding_attention")", full = R"("full_attention")";
  const auto list = [&](int period) {
    std::string text = "[";
    for (int layer = 1; layer <= 6; ++layer)
      text += (layer > 1 ? ", " : "") + (period > 0 && layer % period == 0 ? full : sliding);
    return begin + text + "]";
  };
  for (const int period : {0, 2, 3, 4, 6}) {
    const auto m = windowed("qwen3", list(period));
    EXPECT_EQ(m.sliding_window, 512) << period;
    EXPECT_EQ(m.sliding_window_pattern, period);
  }
  EXPECT_EQ(windowed("qwen3", list(1)).sliding_window, 0);
}

TEST(HfConfig, ReadsSoftcaps) {
  const auto m = windowed("llama", R"("attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0)");
  EXPECT_EQ(m.attention_softcap, 50);
  EXPECT_EQ(m.logit_softcap, 30);
}

// Phi-3 has the original length beside rope_scaling, and the first of its files another word.
TEST(HfConfig, LongropeTakesItsFactorFromTwoLengths) {
  for (const char* word : {"longrope", "su"}) {
    const Loaded loaded = from(std::string(R"({"model_type": "phi3", "vocab_size": 512, "hidden_size": 16,
      "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
      "max_position_embeddings": 131072, "original_max_position_embeddings": 32,
      "rope_scaling": {"long_factor": [1, 2, 3, 4.5], "short_factor": [1, 1, 1.25, 1.5], "type": ")") +
                               word + "\"}}");
    ASSERT_TRUE(loaded.spec) << loaded.text();
    const RopeScaling& scaling = loaded.spec->model.rope_scaling;
    EXPECT_EQ(scaling.rope_type, RopeType::longrope);
    EXPECT_EQ(scaling.factor, 4096);
    EXPECT_EQ(scaling.original_max_position_embeddings, 32);
    EXPECT_EQ(scaling.short_factor, (Numbers{1, 1, 1.25, 1.5}));
    EXPECT_NEAR(scaling.attention_factor, std::sqrt(1 + std::log(4096) / std::log(32)), 1e-12);
    EXPECT_EQ(rope_pair_factors(*loaded.spec), scaling.long_factor) << "64 tokens are more than 32";
  }
}

TEST(HfConfig, DynamicScalingRaisesTheBaseBehindTheTrainedLength) {
  const std::string config = R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 72,
      "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 3,
      "max_position_embeddings": 64, "rope_scaling": {"type": "dynamic", "factor": 4.0}})";
  Loaded loaded = from(config, ", max_position_embeddings: 256");
  ASSERT_TRUE(loaded.spec) << loaded.text();
  EXPECT_EQ(rope_base(*loaded.spec), 10000);
  loaded.spec->train.sequence_len = 256;
  EXPECT_NEAR(rope_base(*loaded.spec), 164138.7, 0.5) << "transformers computes it";
}

// As google/gemma-3-4b-it has it.
TEST(HfConfig, TakesTheTextPartOfModelsThatReadImages) {
  const Loaded loaded = from(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
    "mm_tokens_per_image": 256, "tie_word_embeddings": false, "vision_config": {"hidden_size": 1152},
    "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                    "sliding_window": 1024}})");
  ASSERT_TRUE(loaded.spec) << loaded.text();
  const SpecKeys::Model& m = loaded.spec->model;
  EXPECT_EQ(m.vocab_size, 262208);
  EXPECT_EQ(m.hidden_size, 2560);
  EXPECT_EQ(m.num_attention_heads, 8);
  EXPECT_EQ(m.max_position_embeddings, 131072);
  EXPECT_EQ(m.sliding_window_pattern, 6);
  EXPECT_FALSE(m.tie_word_embeddings) << "the whole model's";
  EXPECT_EQ(loaded.diagnostics.all().size(), 1u) << loaded.text();
}

TEST(HfConfig, ExplicitKeysOfTheSpecWin) {
  const auto m = model(kGpt2, ", num_hidden_layers: 3, dropout: 0, rope_scaling: {factor: 1}");
  EXPECT_EQ(m.num_hidden_layers, 3);
  EXPECT_EQ(m.dropout, 0);
  EXPECT_EQ(m.hidden_size, 768);
}

TEST(HfConfig, ExplicitKeysReplaceWhatIsNotSupported) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048, "hidden_act": "relu",
    "rope_scaling": {"type": "yarn", "factor": 4.0}})";
  const auto m = model(config, ", hidden_act: relu2, intermediate_size: 256, rope_scaling: {factor: 1}");
  EXPECT_EQ(m.hidden_act, Activation::relu2);
  EXPECT_EQ(m.rope_scaling.factor, 1);
}

TEST(HfConfig, KeysKnowTheirPlaceInTheFile) {
  const Folder folder;
  folder.write("models/config.json", kGpt2);
  diag::Diagnostics diagnostics;
  const auto spec =
      load_spec(folder.write("spec.yaml", kRest + "model: {from: models/config.json}\n"), {}, diagnostics);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->where("model.norm_eps"), (diag::Location{folder.path("models/config.json"), 4, 25}));
  EXPECT_EQ(spec->model.from, "");
}

TEST(HfConfig, OnTheCommandLineStartsInTheWorkingFolder) {
  const Folder folder;
  const std::string config = folder.write("config.json", kGpt2);
  const Loaded loaded = load(kRest, {"model.from=" + config});
  ASSERT_TRUE(loaded.spec) << loaded.text();
  EXPECT_EQ(loaded.spec->model.hidden_size, 768);
}

TEST(HfConfig, BadValuesPointIntoTheFile) {
  const Loaded loaded = from(R"({"model_type": "llama", "hidden_size": "big", "intermediate_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048})");
  ASSERT_EQ(loaded.diagnostics.all().size(), 1u) << loaded.text();
  EXPECT_EQ(loaded.diagnostics.all()[0].kind, diag::Kind::wrong_type);
  EXPECT_EQ(loaded.diagnostics.all()[0].where.line, 1);
  EXPECT_EQ(loaded.diagnostics.all()[0].where.col, 40);
}

TEST(HfConfig, ReadsJsonIndentedWithTabs) {
  const auto m = model(
      "{\n\t\"model_type\": \"llama\",\n\t\"hidden_size\": 128,\n\t\"intermediate_size\": 256,\n"
      "\t\"num_hidden_layers\": 2,\n\t\"num_attention_heads\": 2,\n\t\"vocab_size\": 1024,\n"
      "\t\"max_position_embeddings\": 2048\n}\n");
  EXPECT_EQ(m.hidden_size, 128);
}

TEST(HfConfig, ATruncatedFileIsAnError) {
  const Loaded loaded = from(kLlama32.substr(0, kLlama32.size() / 2));
  EXPECT_FALSE(loaded.spec);
  ASSERT_EQ(loaded.diagnostics.all().size(), 1u) << loaded.text();
  EXPECT_EQ(loaded.diagnostics.all()[0].kind, diag::Kind::yaml_syntax);
}

}  // namespace
}  // namespace hydrac::spec
