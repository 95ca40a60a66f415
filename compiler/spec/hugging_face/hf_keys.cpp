#include "spec/hugging_face/hf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "diag/render.h"
#include "spec/reader/scalar.h"

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

const Node* HfKeys::so_far(std::string_view ours) const {
  const Entry* entry = written_.find(ours);
  if (entry == nullptr) entry = model_.find(ours);
  return entry != nullptr ? &entry->value : nullptr;
}

std::optional<double> HfKeys::number(std::string_view ours) const {
  const Node* node = so_far(ours);
  return node != nullptr ? number_of(*node) : std::nullopt;
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
  const size_t dot = ours.find('.');
  if (dot == std::string_view::npos) return model_.set({std::string(ours), where, std::move(value)});
  const std::string section(ours.substr(0, dot));
  if (model_.find(section) == nullptr)
    model_.set({section, where, {.kind = Node::Kind::map, .where = where}});
  model_.find(section)->value.set({std::string(ours.substr(dot + 1)), where, std::move(value)});
}

void HfKeys::constant(std::string_view ours, std::string_view text) {
  set(ours, family_, {.kind = Node::Kind::scalar, .where = family_, .text = std::string(text)});
}

void HfKeys::set_number(std::string_view ours, const diag::Location& where, size_t number) {
  set(ours, where, {.kind = Node::Kind::scalar, .where = where, .text = std::to_string(number)});
}

void HfKeys::computed(std::string_view theirs, std::string_view ours, std::string_view if_absent,
                      double (*compute)(double)) {
  const Entry* entry = take(theirs);
  const Node absent{.kind = Node::Kind::scalar, .where = family_, .text = std::string(if_absent)};
  const Node& value = entry != nullptr ? entry->value : absent;
  const std::optional<double> number = number_of(value);
  set(ours, value.where,
      {.kind = Node::Kind::scalar,
       .where = value.where,
       .text = number ? yaml_number(compute(*number)) : value.text});
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

void HfKeys::experts(std::string_view theirs, std::string_view if_absent) {
  const std::string_view other = theirs == "num_experts" ? "num_local_experts" : "num_experts";
  map(take(theirs) == nullptr && take(other) != nullptr ? other : theirs, "moe.experts", if_absent);
}

void HfKeys::same_dropouts(std::string_view residual, std::string_view if_absent) {
  const std::string_view embedding = residual == "resid_pdrop" ? "embd_pdrop" : "embedding_dropout";
  const Entry *of_branches = take(residual), *of_embedding = take(embedding);
  const Node absent{.kind = Node::Kind::scalar, .text = std::string(if_absent)};
  const auto share = [&](const Entry* entry) {
    return number_of(entry != nullptr ? entry->value : absent).value_or(-1);
  };
  if (share(of_branches) != share(of_embedding) && !is_written("dropout"))
    unsupported(of_branches != nullptr ? of_branches->where : of_embedding->where,
                fmt::format("{} and {} differ; hydrac has one dropout for both", residual, embedding),
                "write model.dropout in the spec");
  map(residual, "dropout", if_absent);
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
