// Which model of Hugging Face's a spec describes.
#include <gtest/gtest.h>

#include "spec/hugging_face/hf_config.h"
#include "spec/hugging_face/hugging_face.h"
#include "spec/print.h"
#include "support.h"

namespace hydrac::spec {
namespace {

const std::string kQwen2Tokenizer = source_dir() / "tests/unit/data/files/qwen2.tokenizer.json";

HuggingFaceModel model_of(const std::string& keys, const std::string& tokenizer = "byte") {
  const Loaded loaded =
      load("name: x\ntarget: cpu\nmodel: {hidden_size: 128, num_hidden_layers: 1, " +
           std::string(keys.starts_with("num_attention_heads") ? "" : "num_attention_heads: 4, ") + keys +
           "}\ndata: {path: corpus.txt, tokenizer: " + tokenizer +
           "}\ntrain: {sequence_len: 8, micro_batch_size: 1, max_steps: 1}\n");
  EXPECT_TRUE(loaded.spec) << loaded.text();
  return loaded.spec ? hugging_face_model(*loaded.spec) : HuggingFaceModel{};
}

std::string_view family_of_model(const std::string& keys, const std::string& tokenizer = "byte") {
  const Family* family = model_of(keys, tokenizer).family;
  return family == nullptr ? "" : family->model_type;
}

TEST(HuggingFace, KnowsEveryFamily) {
  for (const char* keys :
       {"position: learned, hidden_act: gelu_tanh",
        "position: learned, hidden_act: gelu, tie_word_embeddings: false",
        "position: none, hidden_act: relu2",
        "position: learned, hidden_act: silu, norm_bias: false, attention_bias: false, mlp_bias: false"})
    EXPECT_EQ(family_of_model(std::string("norm: layernorm, ") + keys), "gpt2") << keys;
  for (const char* keys :
       {"head_dim: 48", "num_key_value_heads: 2", "hidden_act: geglu", "hidden_act: geglu_tanh",
        "attention_bias: true", "mlp_bias: true", "attention_bias: false, attention_output_bias: true",
        "attention_bias: true, attention_output_bias: false, mlp_bias: true"})
    EXPECT_EQ(family_of_model(keys), "llama") << keys;
  const std::string qwen2 = "attention_bias: true, attention_output_bias: false";
  EXPECT_EQ(family_of_model(qwen2, kQwen2Tokenizer), "qwen2");
  EXPECT_EQ(family_of_model(qwen2 + ", head_dim: 48", kQwen2Tokenizer), "qwen2");
  const std::string windows = "sliding_window: 4, sliding_window_pattern: 2";
  EXPECT_EQ(family_of_model("qk_norm: true"), "qwen3");
  EXPECT_EQ(family_of_model("qk_norm: true, " + qwen2), "qwen3");
  EXPECT_EQ(family_of_model("sliding_window: 4"), "mistral");
  EXPECT_EQ(family_of_model("norm_placement: output, qk_norm: true, qk_norm_scope: projection"), "olmo2");
  EXPECT_EQ(family_of_model("norm_placement: both, norm_offset: 1, embedding_scale: 11.3137085"), "gemma2");
  EXPECT_EQ(family_of_model("norm_offset: 1, embedding_scale: 11.3137085, hidden_act: geglu_tanh"), "gemma");
  EXPECT_EQ(family_of_model("hidden_act: relu2"), "arcee");
  EXPECT_EQ(family_of_model("residual_scale: 0.22"), "granite");
  EXPECT_EQ(family_of_model("no_rope_pattern: 4"), "smollm3");
  EXPECT_EQ(family_of_model("sliding_window: 4, sliding_window_pattern: 2"), "ministral");
  EXPECT_EQ(family_of_model("norm_placement: output, qk_norm: true, qk_norm_scope: projection, " + windows),
            "olmo3");
  EXPECT_EQ(family_of_model("norm_placement: output, qk_norm: true"), "exaone4");
  EXPECT_EQ(family_of_model("norm_placement: output, qk_norm: true, no_rope_pattern: 2, " + windows),
            "exaone4");
  EXPECT_EQ(
      family_of_model("norm_placement: both, norm_offset: 1, embedding_scale: 11.3137085, qk_norm: true"),
      "gemma3_text");
  EXPECT_EQ(family_of_model("partial_rotary_factor: 0.75"), "phi3");
  EXPECT_EQ(family_of_model("packed_weights: qkv_gate_up"), "phi3");
  EXPECT_EQ(family_of_model("norm: layernorm, hidden_act: swiglu, attention_bias: false"), "stablelm");
  EXPECT_EQ(family_of_model("rope_interleave: true"), "helium");
  EXPECT_EQ(family_of_model("rope_interleave: true, partial_rotary_factor: 0.5"), "glm");
  EXPECT_EQ(family_of_model("rope_interleave: true, norm_placement: both"), "glm4");
  EXPECT_EQ(family_of_model("num_attention_heads: 3, head_dim: 24, attention_bias: true"), "granite");
  const std::string falcon = "norm: layernorm, hidden_act: gelu, num_key_value_heads: 1, ";
  EXPECT_EQ(family_of_model(falcon + "block: parallel_one_norm"), "falcon");
  EXPECT_EQ(family_of_model(falcon + "block: parallel_one_norm, attention_bias: false, mlp_bias: false"),
            "falcon");
  EXPECT_EQ(family_of_model(falcon + "block: parallel"), "");
  EXPECT_EQ(family_of_model(falcon + "block: parallel_one_norm, mlp_bias: false"), "");
  for (const char* refused : {"num_attention_heads: 3, head_dim: 24", "initializer_range: 1.5"})
    EXPECT_EQ(family_of_model(refused), "mistral") << "LlamaConfig refuses it";
}

// A family's table reads the config.json that it writes of a model without defaults as that model.
TEST(HuggingFace, EveryFamilyReadsWhatItWrites) {
  const std::string sizes =
      "hidden_size: 192, num_attention_heads: 3, num_hidden_layers: 3, head_dim: 64, intermediate_size: 320, "
      "vocab_size: 300, max_position_embeddings: 77, norm_eps: 2e-4, attention_dropout: 0.25, "
      "initializer_range: 0.125, tie_word_embeddings: ";
  const std::string rope_without_gate = "num_key_value_heads: 1, hidden_act: relu2, rope_theta: 77";
  const std::string rope =
      "num_key_value_heads: 1, hidden_act: geglu, rope_theta: 77, rope_scaling: {factor: 3, low_freq_factor: "
      "2, "
      "high_freq_factor: 5, original_max_position_embeddings: 50}";
  const std::string linear =
      "num_key_value_heads: 1, hidden_act: geglu_tanh, rope_theta: 77, rope_scaling: {rope_type: linear, "
      "factor: 3}";
  const std::string yarn =
      "num_key_value_heads: 1, hidden_act: swiglu, rope_theta: 77, rope_scaling: {rope_type: yarn, factor: "
      "3, "
      "attention_factor: 1.5, beta_fast: 9, beta_slow: 2, truncate: false, original_max_position_embeddings: "
      "50}";
  const std::string window = ", sliding_window: 7", alternating = window + ", sliding_window_pattern: 2";
  const std::pair<const char*, std::string> models[] = {
      {"gpt2", "norm: layernorm, position: learned, hidden_act: relu2, dropout: 0.5"},
      {"llama", rope + ", attention_bias: true, mlp_bias: true"},
      {"mistral", rope + window},
      {"qwen2", rope + alternating + ", attention_bias: true, attention_output_bias: false"},
      {"qwen3", rope + alternating + ", qk_norm: true, attention_bias: true"},
      {"olmo2",
       rope + ", norm_placement: output, qk_norm: true, qk_norm_scope: projection, attention_bias: true"},
      {"gemma", rope + ", norm_offset: 1, embedding_scale: 13.856406460551018, attention_bias: true"},
      {"arcee", rope_without_gate + ", attention_bias: true, mlp_bias: true"},
      {"gemma2", rope + alternating +
                     ", norm_placement: both, norm_offset: 1, embedding_scale: 13.856406460551018, "
                     "attention_scale: 0.3333333333333333, "
                     "attention_softcap: 3, logit_softcap: 4, attention_bias: true"},
      {"granite", rope + ", embedding_scale: 3.5, attention_scale: 0.0625, residual_scale: 0.22, "
                         "logit_scale: 0.125, attention_bias: true, mlp_bias: true"},
      {"smollm3", rope + ", no_rope_pattern: 2, attention_bias: true, mlp_bias: true"},
      {"olmo3", yarn + alternating +
                    ", rope_local_theta: 55, norm_placement: output, qk_norm: true, "
                    "qk_norm_scope: projection, attention_bias: true"},
      {"exaone4", rope + alternating + ", no_rope_pattern: 2, norm_placement: output, qk_norm: true"},
      {"ministral", rope + alternating},
      {"gemma3_text",
       linear + alternating +
           ", rope_local_theta: 99, norm_placement: both, norm_offset: 1, embedding_scale: "
           "13.856406460551018, "
           "attention_scale: 0.3333333333333333, qk_norm: true, logit_softcap: 4, attention_bias: true"},
      {"phi3",
       "num_key_value_heads: 1, hidden_act: geglu, rope_theta: 77, packed_weights: qkv_gate_up, "
       "partial_rotary_factor: 0.0625, rope_scaling: {rope_type: longrope, factor: 3.85, "
       "original_max_position_embeddings: 20, short_factor: [1, 2], long_factor: [3, 4.5]}" +
           window},
      {"stablelm", rope + ", norm: layernorm, partial_rotary_factor: 0.75, attention_bias: true, "
                          "attention_output_bias: false"},
      {"helium",
       rope + ", rope_interleave: true, attention_bias: true, attention_output_bias: false, mlp_bias: true"},
      {"glm", rope + ", rope_interleave: true, packed_weights: gate_up, partial_rotary_factor: 0.75, "
                     "attention_bias: false"},
      {"glm4", rope + ", rope_interleave: true, packed_weights: gate_up, partial_rotary_factor: 0.75, "
                      "norm_placement: both, "
                      "attention_bias: true, attention_output_bias: false"},
      {"nemotron", rope_without_gate + ", norm: layernorm, norm_offset: 1, partial_rotary_factor: 0.75, "
                                       "attention_bias: true, mlp_bias: true"},
      {"cohere", rope +
                     ", rope_interleave: true, norm: layernorm, norm_bias: false, block: parallel_one_norm, "
                     "logit_scale: 0.5, attention_bias: true, attention_output_bias: true, mlp_bias: false"},
      {"cohere2",
       rope + alternating +
           ", no_rope_pattern: 2, rope_interleave: true, norm: layernorm, norm_bias: false, block: "
           "parallel_one_norm, attention_bias: false, attention_output_bias: false, mlp_bias: false"},
      {"falcon",
       "norm: layernorm, block: parallel_one_norm, num_key_value_heads: 1, hidden_act: relu2, "
       "rope_theta: 77"},
      {"gpt_bigcode",
       "norm: layernorm, position: learned, num_key_value_heads: 1, hidden_act: relu2, dropout: 0.5"},
      {"gpt_neox",
       "norm: layernorm, block: parallel, packed_weights: qkv_by_head, partial_rotary_factor: 0.75, "
       "hidden_act: "
       "relu2, rope_theta: 77, dropout: 0.5, rope_scaling: {rope_type: dynamic, factor: 3, "
       "original_max_position_embeddings: 77}"},
      {"phi", rope_without_gate +
                  ", norm: layernorm, block: parallel_one_norm, partial_rotary_factor: 0.75, dropout: 0.5, "
                  "head_bias: true"},
      {"gptj",
       "norm: layernorm, block: parallel_one_norm, partial_rotary_factor: 0.75, dropout: 0.5, head_bias: "
       "true, "
       "rope_interleave: true, hidden_act: relu2, attention_bias: false, attention_output_bias: false"},
      {"starcoder2", rope_without_gate + window + ", norm: layernorm, dropout: 0.5"},
      {"ernie4_5",
       rope + ", rope_interleave: true, attention_bias: true, attention_output_bias: true, mlp_bias: true"},
      {"mixtral", rope + window + ", moe: {experts: 5, top_k: 3, aux_loss_coef: 0.125}"},
      {"qwen3_moe", rope + ", qk_norm: true, attention_bias: true, moe: {experts: 5, top_k: 3, "
                           "intermediate_size: 72, aux_loss_coef: 0.125}"},
      {"olmoe", rope + ", qk_norm: true, qk_norm_scope: projection, attention_bias: true, moe: {experts: 5, "
                       "top_k: 3, normalize_top_k: false, aux_loss_coef: 0.125}"},
  };
  ASSERT_EQ(std::size(models), families().size());
  const std::string begin = "name: x\ntarget: cpu\ndata: {path: corpus.txt, tokenizer: " + kQwen2Tokenizer +
                            "}\ntrain: {sequence_len: 8, micro_batch_size: 1, max_steps: 1}\nmodel: {";
  for (const auto& [model_type, keys] : models) {
    for (const char* tied : {"true, ", "false, "}) {
      const Loaded written = load(begin + sizes + tied + keys + "}\n");
      ASSERT_TRUE(written.spec) << written.text();
      ASSERT_EQ(family_of(*written.spec).model_type, model_type)
          << describe(hugging_face_model(*written.spec), false);
      const Folder folder;
      const std::string config = folder.write("config.json", config_json(*written.spec));
      const Loaded read = load(begin + "from: " + config + "}\n");
      ASSERT_TRUE(read.spec) << read.text();
      EXPECT_EQ(read.text(), "") << model_type;
      EXPECT_EQ(read.spec->model, written.spec->model) << model_type << to_yaml(*read.spec);
    }
  }
}

TEST(HuggingFace, WritesQwen2WhereTheTokenizerIsAsItsClass) {
  const std::string qwen2 = "attention_bias: true, attention_output_bias: false";
  for (const char* tokenizer : {"byte", "char", "missing.json"})
    EXPECT_EQ(family_of_model(qwen2, tokenizer), "llama") << tokenizer;
  const Folder folder;
  const std::string text = read_file(kQwen2Tokenizer);
  const std::pair<std::string, std::string> changes[] = {
      {R"("NFC")", R"("NFKC")"},
      {R"("normalizer":{"type":"NFC"})", R"("normalizer":null)"},
      {R"(\\p{L}+|\\p{N}|)", R"(\\p{L}+|\\p{N}{1,3}|)"},
      {R"("Isolated")", R"("MergedWithNext")"},
      {R"("ignore_merges":false)", R"("ignore_merges":true)"},
      {R"("fuse_unk":false)", R"("fuse_unk":true)"},
      {R"("add_prefix_space":false)", R"("add_prefix_space":true)"},
      {R"("use_regex":false)", R"("use_regex":true)"},
      {R"("content":"<|endoftext|>")", R"("content":"<|end|>")"},
      {R"({"version")", R"({"version)"},
  };
  EXPECT_TRUE(is_qwen2_tokenizer(kQwen2Tokenizer));
  for (const auto& [from, to] : changes) {
    std::string changed = text;
    ASSERT_NE(changed.find(from), std::string::npos) << from;
    changed.replace(changed.find(from), from.size(), to);
    EXPECT_FALSE(is_qwen2_tokenizer(folder.write("tokenizer.json", changed))) << to;
  }
}

TEST(HuggingFace, RulesAreThoseOfTheDocumentation) {
  EXPECT_NE(read_file(source_dir() / "docs/hugging-face.md").find(hugging_face_rules()), std::string::npos)
      << "docs/hugging-face.md must have this table:\n"
      << hugging_face_rules();
}

TEST(HuggingFace, NamesTheKeyThatHasNoPlaceThere) {
  const std::string gpt2 = "norm: layernorm, position: learned, ";
  const std::pair<std::string, const char*> cases[] = {
      {"norm: layernorm, hidden_act: gelu, norm_offset: 0.5", "model.norm_offset"},
      {gpt2 + "hidden_act: swiglu", "model.hidden_act"},
      {gpt2 + "hidden_act: gelu, qk_norm: true", "model.qk_norm"},
      {gpt2 + "hidden_act: gelu, num_key_value_heads: 2", "model.num_key_value_heads"},
      {gpt2 + "hidden_act: gelu, head_dim: 48", "model.head_dim"},
      {"position: learned", "model.position"},
      {"position: none", "model.position"},
      {"qk_norm: true, mlp_bias: true", "model.mlp_bias"},
      {"attention_kind: ccgqa", "model.attention_kind"},
      {"mor: {recursions: 2}", "model.mor.recursions"},
      {"sliding_window: 4, attention_bias: true, attention_output_bias: false", "data.tokenizer"},
      {"sliding_window: 4, attention_bias: true", "model.sliding_window"},
      {"block: parallel", "model.norm"},
      {"norm_placement: output", "model.qk_norm"},
      {"norm_placement: output, qk_norm: true, mlp_bias: true", "model.mlp_bias"},
      {"norm_placement: both, norm_offset: 1", "model.embedding_scale"},
      {"qk_norm: true, qk_norm_scope: projection", "model.qk_norm_scope"},
      {"embedding_scale: 2, norm_offset: 1", "model.embedding_scale"},
      {"norm_offset: 0.5", "model.norm_offset"},
      {"attention_scale: 5, norm_placement: output, qk_norm: true", "model.attention_scale"},
      {"attention_softcap: 5", "model.attention_softcap"},
  };
  for (const auto& [keys, key] : cases) {
    const HuggingFaceModel model = model_of(keys);
    EXPECT_EQ(model.family, nullptr) << keys;
    EXPECT_EQ(model.key, key) << keys;
    EXPECT_NE(model.reason, "") << keys;
  }
}

}  // namespace
}  // namespace hydrac::spec
