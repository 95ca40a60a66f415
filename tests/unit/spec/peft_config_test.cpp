// adapter_config.json as PEFT writes it: every key of its LoraConfig has an effect, is refused, or has none.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "support.h"

namespace hydrac::spec {
namespace {

using Json = nlohmann::json;

// A file that PEFT 0.21.2 saved: all fields of LoraConfig, each with its default but for target_modules.
const Json kSaved = Json::parse(R"({
  "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
  "base_model_name_or_path": "models/base", "bias": "none", "corda_config": null, "ensure_weight_tying": false,
  "eva_config": null, "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
  "init_lora_weights": true, "kasa_config": null, "layer_replication": null, "layers_pattern": null,
  "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 8, "lora_bias": false, "lora_dropout": 0.0,
  "lora_ga_config": null, "megatron_config": null, "megatron_core": "megatron.core", "modules_to_save": null,
  "monteclora_config": null, "peft_type": "LORA", "peft_version": "0.21.2", "qalora_group_size": 16, "r": 8,
  "rank_pattern": {}, "revision": null, "target_modules": ["v_proj", "q_proj"], "target_parameters": null,
  "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_bdlora": null, "use_dora": false,
  "use_qalora": false, "use_rslora": false, "velora_config": null
})");

Loaded from(const Json& config, const std::string& more = "") {
  const Folder folder;
  folder.write("adapter/adapter_config.json", config.dump(1));
  Loaded loaded;
  loaded.spec = load_spec(folder.write("spec.yaml", kSmall + "adapter: {from: adapter" + more + "}\n"), {},
                          loaded.diagnostics);
  return loaded;
}

Loaded with(const std::string& key, const Json& value) {
  Json config = kSaved;
  config[key] = value;
  return from(config);
}

void expect_saved_adapter(const Loaded& loaded, const std::string& what) {
  ASSERT_TRUE(loaded.spec) << what << "\n" << loaded.text();
  const auto& adapter = loaded.spec->adapter;
  EXPECT_EQ(adapter.type, AdapterType::lora) << what;
  EXPECT_EQ(adapter.r, 8) << what;
  EXPECT_EQ(adapter.alpha, 8) << what;
  EXPECT_EQ(adapter.dropout, 0) << what;
  EXPECT_FALSE(adapter.rslora) << what;
  EXPECT_EQ(adapter.target_modules, (StringList{"v_proj", "q_proj"})) << what;
}

// Refused by a message that begins with its place and names it.
void expect_refused(const Loaded& loaded, const std::string& key) {
  EXPECT_FALSE(loaded.spec) << key;
  EXPECT_NE(loaded.text().find("[adapter-unsupported]"), std::string::npos) << key << "\n" << loaded.text();
  EXPECT_NE(loaded.text().find(key), std::string::npos) << loaded.text();
}

enum class Role { becomes, one_of, off, free };
const std::vector<std::pair<std::string, Role>> kRows = {
#define BECOMES(theirs, ours, fallback) {#theirs, Role::becomes},
#define ONE_OF(theirs, values, help) {#theirs, Role::one_of},
#define OFF(theirs) {#theirs, Role::off},
#define FREE(theirs) {#theirs, Role::free},
#include "spec/hugging_face/peft_keys.def"
#undef BECOMES
#undef ONE_OF
#undef OFF
#undef FREE
};

TEST(PeftConfig, EveryFieldHasARow) {
  std::set<std::string> rows;
  for (const auto& [name, role] : kRows) EXPECT_TRUE(rows.insert(name).second) << name << " has two";
  for (const auto& [name, value] : kSaved.items()) EXPECT_TRUE(rows.contains(name)) << name << " has none";
}

TEST(PeftConfig, AMissingKeyIsPeftsDefault) {
  expect_saved_adapter(from(kSaved), "all keys");
  for (const auto& [name, value] : kSaved.items()) {
    Json config = kSaved;
    config.erase(name);
    if (name == "target_modules" || name == "peft_type")
      expect_refused(from(config), "has no " + name);
    else
      expect_saved_adapter(from(config), "without " + name);
  }
}

TEST(PeftConfig, KeysTakeEffectAreRefusedOrHaveNone) {
  for (const auto& [name, role] : kRows) {
    if (role == Role::free) expect_saved_adapter(with(name, {{"odd", 3}}), name);
    if (role == Role::one_of) expect_refused(with(name, "other"), name + " is the text \"other\"");
    if (role != Role::off) continue;
    for (const Json& value : {Json(true), Json(7), Json("text"), Json{"x"}, Json{{"x", 1}}})
      expect_refused(with(name, value), name);
    for (const Json& value : {Json(nullptr), Json(false), Json::array(), Json::object()})
      expect_saved_adapter(with(name, value), name);
  }
  expect_refused(with("a_key_of_later", 1), "a_key_of_later");
  EXPECT_EQ(with("r", 3).spec->adapter.r, 3);
  EXPECT_EQ(with("lora_alpha", 4.5).spec->adapter.alpha, 4.5);
  EXPECT_EQ(with("lora_dropout", 0.25).spec->adapter.dropout, 0.25);
  EXPECT_TRUE(with("use_rslora", true).spec->adapter.rslora);
  EXPECT_EQ(with("target_modules", {"up_proj"}).spec->adapter.target_modules, StringList{"up_proj"});
}

TEST(PeftConfig, InitializationsThatChangeTheModelAreRefused) {
  for (const Json& leaves :
       {Json(true), Json(false), Json(nullptr), Json("gaussian"), Json("orthogonal"), Json("eva")})
    expect_saved_adapter(with("init_lora_weights", leaves), leaves.dump());
  for (const char* changes :
       {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", "mica", "", "true false"})
    expect_refused(with("init_lora_weights", changes), "init_lora_weights");
}

TEST(PeftConfig, TheSpecsOwnKeysWin) {
  Json config = kSaved;
  config.erase("target_modules");
  const Loaded loaded = from(config, ", target_modules: [up_proj], alpha: 3");
  ASSERT_TRUE(loaded.spec) << loaded.text();
  EXPECT_EQ(loaded.spec->adapter.target_modules, StringList{"up_proj"});
  EXPECT_EQ(loaded.spec->adapter.alpha, 3);
}

}  // namespace
}  // namespace hydrac::spec
