#include "cli/output/checkpoint_files.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/adapter.h"
#include "runtime/data/hash.h"
#include "spec/hugging_face/hugging_face.h"
#include "spec/keys/key_table.h"
#include "spec/print.h"

namespace hydrac::cli {

namespace {

using Json = nlohmann::ordered_json;

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

// The contents of data are compared, and not its place.
bool is_path_of_source(const std::string& key) {
  return key.starts_with("data.val.") || (key.starts_with("data.mix.") && key.ends_with(".path"));
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
                 {"fan_in_fan_out", spec::family_of(spec).stores_in_out},
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
  const bool adapts = models::has_adapters(spec), has_objective = spec::has_objective(spec);
  std::erase_if(keys, [&](const auto& entry) {
    return !decides_results(entry.first) || (entry.first.starts_with("adapter.") && !adapts) ||
           (entry.first.starts_with("objective.") && !has_objective) ||
           (entry.first.starts_with("train.sequence_warmup.") && !spec::warms_sequences_up(spec)) ||
           (entry.first.starts_with("data.curriculum.") && spec.data.curriculum.steps == 0) ||
           is_path_of_source(entry.first);
  });
  // Ranks share the micro-batches of a step: how many there are of each is not what decides.
  keys["train.gradient_accumulation_steps"] =
      std::to_string(spec.train.gradient_accumulation_steps * spec.parallel.data);
  return keys;
}

}  // namespace hydrac::cli
