#include "cli/checkpoint_files.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "models/adapter.h"
#include "models/parameters.h"
#include "runtime/data/hash.h"
#include "spec/key_table.h"
#include "spec/print.h"

namespace hydrac::cli {

namespace {

using Json = nlohmann::ordered_json;

// A gated mlp has the name of what its gate goes through.
std::string activation_name(const spec::Spec& spec) {
  switch (spec.model.hidden_act.word) {
    case spec::Activation::gelu:
    case spec::Activation::geglu:
      return "gelu";
    case spec::Activation::gelu_tanh:
      return "gelu_new";
    case spec::Activation::geglu_tanh:
      return "gelu_pytorch_tanh";
    case spec::Activation::silu:
    case spec::Activation::swiglu:
      return "silu";
    case spec::Activation::relu2:
      return "relu2";
  }
  throw std::logic_error("an activation without a name in config.json");
}

// Tokens that begin and end texts are in generation_config.json; without a word here, transformers would take
// the ids that the family's own tokenizer has.
void name_no_special_tokens(Json& config) {
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
}

const char* stored_type(const spec::Spec& spec) {
  return spec.optimizations.weights == spec::WeightType::bf16 ? "bfloat16" : "float32";
}

Json gpt2_config(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", m.vocab_size},
          {"n_positions", m.max_position_embeddings},
          {"n_embd", m.hidden_size},
          {"n_layer", m.num_hidden_layers},
          {"n_head", m.num_attention_heads},
          {"n_inner", m.intermediate_size},
          {"activation_function", activation_name(spec)},
          {"layer_norm_epsilon", m.norm_eps},
          {"resid_pdrop", m.dropout},
          {"embd_pdrop", m.dropout},
          {"attn_pdrop", m.attention_dropout},
          {"tie_word_embeddings", m.tie_word_embeddings},
          {"initializer_range", m.initializer_range},
          {"torch_dtype", stored_type(spec)}};
}

Json layer_types(const spec::Model& m) {
  Json types = Json::array();
  for (int64_t layer = 1; layer <= m.num_hidden_layers; ++layer) {
    const bool is_full = m.sliding_window_pattern > 0 && layer % m.sliding_window_pattern == 0;
    types.push_back(is_full ? "full_attention" : "sliding_attention");
  }
  return types;
}

Json llama_like_config(const spec::Spec& spec, const std::string& architecture) {
  const spec::Model& m = spec.model;
  Json config = {{"model_type", architecture},
                 {"vocab_size", m.vocab_size},
                 {"hidden_size", m.hidden_size},
                 {"num_hidden_layers", m.num_hidden_layers},
                 {"num_attention_heads", m.num_attention_heads},
                 {"num_key_value_heads", m.num_key_value_heads},
                 {"head_dim", m.head_dim},
                 {"intermediate_size", m.intermediate_size},
                 {"max_position_embeddings", m.max_position_embeddings},
                 {"hidden_act", activation_name(spec)},
                 {"rms_norm_eps", m.norm_eps},
                 {"rope_theta", m.rope_theta},
                 {"attention_dropout", m.attention_dropout},
                 {"tie_word_embeddings", m.tie_word_embeddings},
                 {"initializer_range", m.initializer_range},
                 {"torch_dtype", stored_type(spec)}};
  const std::map<std::string, std::string> classes = {{"llama", "LlamaForCausalLM"},
                                                      {"mistral", "MistralForCausalLM"},
                                                      {"qwen2", "Qwen2ForCausalLM"},
                                                      {"qwen3", "Qwen3ForCausalLM"}};
  config["architectures"] = {classes.at(architecture)};
  if (architecture == "llama" || architecture == "qwen3")
    config["attention_bias"] = m.attention_bias || m.attention_output_bias;
  if (architecture == "llama") config["mlp_bias"] = m.mlp_bias;
  if (architecture == "mistral") {
    // Without the key it would be 4096.
    config["sliding_window"] = m.sliding_window > 0 ? Json(m.sliding_window) : Json(nullptr);
  } else if (m.sliding_window > 0) {
    config["sliding_window"] = m.sliding_window;
    config["use_sliding_window"] = true;
    config["max_window_layers"] = 0;
    config["layer_types"] = layer_types(m);
  }
  if (const spec::RopeScaling& s = m.rope_scaling; s.factor != 1) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", s.factor},
                              {"low_freq_factor", s.low_freq_factor},
                              {"high_freq_factor", s.high_freq_factor},
                              {"original_max_position_embeddings", s.original_max_position_embeddings}};
  }
  return config;
}

void flatten(const Json& json, const std::string& path, std::map<std::string, std::string>& out) {
  if (!json.is_object()) {
    out[path] = json.dump();
    return;
  }
  for (const auto& [key, value] : json.items()) flatten(value, path.empty() ? key : path + "." + key, out);
}

// A function is what its file says, wherever that lies.
void identify_functions(const spec::Spec& spec, std::map<std::string, std::string>& keys) {
  spec::visit_keys(spec, [&](const spec::KeyRow& row, const auto& field) {
    if constexpr (spec::is_word_or_function<std::decay_t<decltype(field)>>) {
      if (!field.function) return;
      for (const char* part : {".cpp", ".function", ".text"}) keys.erase(row.path + part);
      const uint64_t text = runtime::Hash64().add(field.function->text).value();
      keys[row.path] = fmt::format("{} of a file with fingerprint {:016x}", field.function->function, text);
    }
  });
}

bool decides_results(const std::string& key) {
  // docs/runs.md lists these for users.
  static constexpr std::string_view free_keys[] = {
      "name",
      "target",
      "extends",
      "data.cache_dir",
      "train.global_batch_size",
      "train.max_steps",
      "train.lr_scheduler.decay_steps",
      "train.eval_steps",
      "train.eval_batches",
      "train.save_steps",
      "train.save_minutes",
      "train.save_best",
      "train.save_total_limit",
      "train.log_steps",
      "train.cpu_affinity",
      "output.dir",
      "optimizations.threads",
      "optimizations.fit",
      "optimizations.recompute",
      "optimizations.recompute_layers",
      "optimizations.memory_limit",
      "optimizations.offload.activations",
      "optimizations.offload.optimizer_state",
      "optimizations.offload.weights",
      "model.from",
      "adapter.from",
  };
  for (std::string_view free : free_keys) {
    if (key == free) return false;
  }
  static constexpr std::string_view free_sections[] = {"sample.", "tune.", "profile.", "parallel."};
  return std::ranges::none_of(free_sections,
                              [&](std::string_view section) { return key.starts_with(section); });
}

}  // namespace

std::string config_json(const spec::Spec& spec) {
  const std::string architecture = models::checkpoint_architecture(spec);
  Json config;
  if (architecture == "gpt2")
    config = gpt2_config(spec);
  else if (architecture != "hydrac")
    config = llama_like_config(spec, architecture);
  else {
    // No Hugging Face architecture says this model; the spec's own keys do.
    config = Json::parse(spec::to_json(spec))["model"];
    config.erase("weights");  // those of the checkpoint are others
    config["model_type"] = "hydrac";
  }
  if (architecture != "hydrac") name_no_special_tokens(config);
  return config.dump(2) + "\n";
}

// PEFT takes target_modules as hydrac does, but for "all-linear", which it expands where an adapter is made.
std::string adapter_config_json(const spec::Spec& spec) {
  const auto& a = spec.adapter;
  const bool is_whole = std::floor(a.alpha) == a.alpha;
  Json config = {{"peft_type", "LORA"},
                 {"task_type", "CAUSAL_LM"},
                 {"base_model_name_or_path", nullptr},
                 {"r", a.r},
                 {"lora_alpha", is_whole ? Json(static_cast<int64_t>(a.alpha)) : Json(a.alpha)},
                 {"use_rslora", a.rslora},
                 {"lora_dropout", a.dropout},
                 {"target_modules", models::target_modules(spec)},
                 {"fan_in_fan_out", models::checkpoint_architecture(spec) == "gpt2"},
                 {"bias", "none"},
                 {"init_lora_weights", true},
                 {"inference_mode", true},
                 {"modules_to_save", nullptr}};
  if (spec::begins_with_weights(spec)) config["base_model_name_or_path"] = spec.model.weights;
  return config.dump(2) + "\n";
}

std::map<std::string, std::string> all_keys(const spec::Spec& spec) {
  std::map<std::string, std::string> keys;
  flatten(Json::parse(spec::to_json(spec)), "", keys);
  identify_functions(spec, keys);
  return keys;
}

std::map<std::string, std::string> result_keys(const spec::Spec& spec) {
  std::map<std::string, std::string> keys = all_keys(spec);
  const bool adapts = models::has_adapters(spec), samples = spec::has_objective(spec);
  std::erase_if(keys, [&](const auto& entry) {
    return !decides_results(entry.first) || (entry.first.starts_with("adapter.") && !adapts) ||
           (entry.first.starts_with("objective.") && !samples) ||
           (entry.first.starts_with("train.sequence_warmup.") && !spec::warms_sequences_up(spec)) ||
           (entry.first.starts_with("data.curriculum.") && spec.data.curriculum.steps == 0);
  });
  // Ranks share the micro-batches of a step: how many there are of each is not what decides.
  keys["train.gradient_accumulation_steps"] =
      std::to_string(spec.train.gradient_accumulation_steps * spec.parallel.data);
  return keys;
}

}  // namespace hydrac::cli
