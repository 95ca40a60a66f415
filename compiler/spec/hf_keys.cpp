#include "spec/hf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "diag/render.h"
#include "spec/scalar.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

constexpr auto kIrrelevant = std::to_array<std::string_view>({
    "architectures",
    "auto_map",
    "bos_token_id",
    "chunk_size_feed_forward",
    "dtype",
    "eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "label2id",
    "n_ctx",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "return_dict",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "use_bfloat16",
    "use_cache",
});

// Hugging Face's names of activations (ACT2FN), and ours of a plain and of a gated mlp. The first row with
// one of ours is how it is written.
struct ActivationNames {
  std::string_view theirs, plain, gated;
};
constexpr auto kActivations = std::to_array<ActivationNames>({
    {"gelu", "gelu", "geglu"},
    {"gelu_python", "gelu", "geglu"},
    // One formula, written in five ways.
    {"gelu_pytorch_tanh", "", "geglu_tanh"},
    {"gelu_new", "gelu_tanh", "geglu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh", ""},
    {"gelu_python_tanh", "gelu_tanh", "geglu_tanh"},
    {"gelu_fast", "gelu_tanh", "geglu_tanh"},
    {"gelu_accurate", "gelu_tanh", "geglu_tanh"},
    {"silu", "silu", "swiglu"},
    {"swish", "silu", "swiglu"},
    {"relu2", "relu2", ""},
});

}  // namespace

std::string_view activation_there(const HiddenAct& act) {
  const std::string_view ours = to_string(act.word);
  const auto has_it = [&](const ActivationNames& names) {
    return names.plain == ours || names.gated == ours;
  };
  return std::ranges::find_if(kActivations, has_it)->theirs;
}

HfKeys::HfKeys(const Node& config, const Node& written, diag::Diagnostics& diagnostics)
    : config_(config), written_(written), diagnostics_(diagnostics) {
  const Entry* family = take("model_type");
  family_ = family != nullptr ? family->value.where : config_.where;
  model_.where = family_;
}

void HfKeys::unsupported(const diag::Location& where, std::string message, std::string suggestion) {
  diagnostics_.report(Kind::config_unsupported, where, std::move(message), std::move(suggestion));
}

const Entry* HfKeys::take(std::string_view theirs) {
  known_.insert(theirs);
  const Entry* entry = config_.find(theirs);
  return entry == nullptr || entry->value.kind == Node::Kind::null ? nullptr : entry;
}

void HfKeys::set(std::string_view ours, const diag::Location& where, Node value) {
  model_.set({std::string(ours), where, std::move(value)});
}

void HfKeys::constant(std::string_view ours, std::string_view text) {
  set(ours, family_, {.kind = Node::Kind::scalar, .where = family_, .text = std::string(text)});
}

void HfKeys::map(std::string_view theirs, std::string_view ours, std::string_view if_absent) {
  if (const Entry* entry = take(theirs))
    set(ours, entry->where, entry->value);
  else if (!if_absent.empty())
    constant(ours, if_absent);
}

void HfKeys::map_needed(std::string_view theirs, std::string_view ours) {
  map(theirs, ours);
  if (model_.find(ours) == nullptr && !is_written(ours))
    unsupported(family_, fmt::format("this config.json has no {}", theirs),
                fmt::format("write model.{} in the spec", ours));
}

void HfKeys::activation(std::string_view theirs, bool gated, std::string_view if_absent) {
  const Entry* entry = take(theirs);
  if (entry == nullptr) return constant("hidden_act", if_absent);
  for (const ActivationNames& names : kActivations) {
    const std::string_view ours = gated ? names.gated : names.plain;
    if (entry->value.text == names.theirs && !ours.empty())
      return set("hidden_act", entry->where,
                 {.kind = Node::Kind::scalar, .where = entry->value.where, .text = std::string(ours)});
  }
  if (!is_written("hidden_act"))
    unsupported(entry->value.where,
                fmt::format("{} {} is not supported", theirs, diag::printable(entry->value.text)),
                "write model.hidden_act in the spec");
}

void HfKeys::key_value_heads(std::string_view if_absent) {
  const bool written = config_.find("num_key_value_heads") != nullptr;
  map("num_key_value_heads", "num_key_value_heads", written ? "" : if_absent);
}

void HfKeys::must_be(std::string_view theirs, std::string_view wanted, std::string_view otherwise) {
  const Entry* entry = take(theirs);
  if (entry != nullptr && entry->value.text != wanted)
    unsupported(entry->value.where, std::string(otherwise));
}

void HfKeys::windows(bool needs_switch) {
  const Entry* window = take("sliding_window");
  const Entry* used = take("use_sliding_window");
  const Entry* first = take("max_window_layers");
  const Entry* types = take("layer_types");
  const bool is_on = used != nullptr ? used->value.text == "true" : !needs_switch;
  if (is_written("sliding_window")) return;
  if (types != nullptr) return layer_types(*types, window);
  if (!is_on || window == nullptr) return;
  // Qwen's layers before max_window_layers see everything.
  const Entry* layers = config_.find("num_hidden_layers");
  const auto number = [](const Entry* entry) {
    const Scalar value = scalar_value(entry->value);
    const auto* whole = std::get_if<int64_t>(&value);
    return whole != nullptr ? *whole : -1;
  };
  if (needs_switch && (first == nullptr || number(first) != 0)) {
    if (first != nullptr && layers != nullptr && number(first) >= number(layers)) return;
    return unsupported(
        first != nullptr ? first->where : window->where,
        "a sliding window of the last layers only is not supported",
        "write model.sliding_window in the spec, or max_window_layers: 0 or num_hidden_layers");
  }
  set("sliding_window", window->where, window->value);
}

// A list of full_attention and sliding_attention: all of one kind, or every n-th layer full.
void HfKeys::layer_types(const Entry& types, const Entry* window) {
  const std::vector<Node>& items = types.value.items;
  size_t period = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].text != "full_attention" && items[i].text != "sliding_attention")
      return unsupported(items[i].where,
                         fmt::format("layers of type {} are not supported", diag::printable(items[i].text)));
    if (period == 0 && items[i].text == "full_attention") period = i + 1;
  }
  if (period == 1 && std::ranges::all_of(items, [](const Node& n) { return n.text == "full_attention"; }))
    return;
  for (size_t i = 0; i < items.size(); ++i)
    if ((items[i].text == "full_attention") != (period > 0 && (i + 1) % period == 0))
      return unsupported(items[i].where, "these layer_types are no pattern that hydrac has",
                         "it has windows in all layers, and in all but every n-th one");
  if (window == nullptr)
    return unsupported(types.where, "this config.json has sliding_attention and no sliding_window",
                       "write model.sliding_window in the spec");
  set("sliding_window", window->where, window->value);
  if (period > 0)
    set("sliding_window_pattern", types.where,
        {.kind = Node::Kind::scalar, .where = types.where, .text = std::to_string(period)});
}

bool HfKeys::refuses_part_of_head(const Entry* partial) {
  if (partial == nullptr || partial->value.text == "1.0" || partial->value.text == "1") return false;
  unsupported(partial->value.where, "rope on a part of a head is not supported");
  return true;
}

void HfKeys::rope(const Node& parameters) {
  if (parameters.kind != Node::Kind::map)
    return unsupported(parameters.where, fmt::format("rope_scaling is {}, not a map", describe(parameters)));
  const Entry* type = parameters.find("rope_type");
  if (type == nullptr) type = parameters.find("type");
  if (const Entry* theta = parameters.find("rope_theta")) set("rope_theta", theta->where, theta->value);
  if (is_written("rope_scaling")) return;
  if (type == nullptr && parameters.find("factor") != nullptr)
    return unsupported(parameters.where, "this rope_scaling has a factor and no rope_type",
                       "llama3 is known, and model.rope_scaling: {factor: 1} turns it off");
  if (refuses_part_of_head(parameters.find("partial_rotary_factor"))) return;
  if (type == nullptr || type->value.text == "default") return;
  if (type->value.text != "llama3")
    return unsupported(
        type->value.where,
        fmt::format("rope scaling of type {} is not supported", diag::printable(type->value.text)),
        "llama3 is, and model.rope_scaling: {factor: 1} turns it off");
  Node scaling{.kind = Node::Kind::map, .where = parameters.where};
  scaling.entries.push_back({"rope_type", type->where, type->value});
  for (const std::string_view key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    const Entry* entry = parameters.find(key);
    if (entry != nullptr)
      scaling.entries.push_back(*entry);
    else
      unsupported(parameters.where, fmt::format("this rope_scaling has no {}", key));
  }
  set("rope_scaling", parameters.where, std::move(scaling));
}

void HfKeys::same_dropouts() {
  const Entry* residual = take("resid_pdrop");
  const Entry* embedding = take("embd_pdrop");
  const auto number = [](const Entry* entry) {
    const Scalar value = scalar_value(entry->value);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    const auto* whole = std::get_if<int64_t>(&value);
    return whole != nullptr ? static_cast<double>(*whole) : -1.0;
  };
  constexpr double kHuggingFaceDefault = 0.1;
  const double a = residual != nullptr ? number(residual) : kHuggingFaceDefault;
  const double b = embedding != nullptr ? number(embedding) : kHuggingFaceDefault;
  if (a != b && !is_written("dropout"))
    unsupported(residual != nullptr ? residual->where : embedding->where,
                "resid_pdrop and embd_pdrop differ; hydrac has one dropout for both",
                "write model.dropout in the spec");
  map("resid_pdrop", "dropout", "0.1");
}

bool HfKeys::is_irrelevant(std::string_view theirs) {
  return std::ranges::find(kIrrelevant, theirs) != kIrrelevant.end();
}

void HfKeys::report_unknown() {
  for (const Entry& entry : config_.entries) {
    if (is_irrelevant(entry.key) || known_.contains(entry.key) || entry.key.starts_with('_')) continue;
    diagnostics_.report(Kind::config_key_ignored, entry.where,
                        fmt::format("{} is not known and has no effect", diag::printable(entry.key)));
  }
}

}  // namespace hydrac::spec
