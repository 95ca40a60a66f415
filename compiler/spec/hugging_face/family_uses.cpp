#include "spec/hugging_face/family_uses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "spec/hugging_face/family.h"
#include "spec/hugging_face/hf_keys.h"
#include "spec/load.h"

namespace hydrac::spec {
namespace {

// A model that is small and that GPUs like.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kSizes = {{
    {"model.vocab_size", "512"},
    {"model.hidden_size", "256"},
    {"model.num_hidden_layers", "12"},
    {"model.num_attention_heads", "4"},
    {"model.num_key_value_heads", "4"},
    {"model.head_dim", "64"},
    {"model.intermediate_size", "512"},
    {"model.max_position_embeddings", "128"},
}};

Node scalar(std::string_view text) {
  return {.kind = Node::Kind::scalar, .text = std::string(text)};
}

// "{vocab_size: 512, moe: {experts: 8}}"
std::string flow_text(const Node& node) {
  if (node.kind != Node::Kind::map) return node.text;
  std::vector<std::string> entries;
  for (const Entry& entry : node.entries)
    entries.push_back(fmt::format("{}: {}", entry.key, flow_text(entry.value)));
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

// The keys of `model` that a config.json of these sizes stands for; all else is what absent keys are.
std::string small_model(const Family& family) {
  Node config{.kind = Node::Kind::map};
  for (const FamilyRow& row : family.rows)
    for (const auto& [ours, size] : kSizes)
      if (row.ours == ours && !row.theirs.empty()) config.set({std::string(row.theirs), {}, scalar(size)});
  const Node nothing{.kind = Node::Kind::map};
  diag::Diagnostics diagnostics;
  HfKeys keys(config, nothing, diagnostics);
  for (const FamilyRow& row : family.rows)
    if (row.read != nullptr) row.read(keys, row);
  return flow_text(keys.take_model());
}

struct FamilyUse {
  std::string_view name;
  std::vector<std::string> overrides;
};

const std::vector<FamilyUse>& uses() {
  static const std::vector<FamilyUse> all = {
      {"train", {}},
      {"LoRA", {"adapter.type=lora"}},
      {"QLoRA", {"adapter.type=lora", "adapter.base=nf4"}},
      {"fp8", {"optimizations.precision=fp8"}},
      {"ZeRO 3", {"parallel.data=2", "parallel.zero=3"}},
      {"tensor", {"parallel.tensor=2"}},
      {"GRPO", {"objective.name=grpo", "objective.reward.command=[score]", "data.format=chat"}},
  };
  return all;
}

bool can(const std::string& model, const FamilyUse& use) {
  diag::Diagnostics diagnostics;
  return load_spec_text("spec.yaml",
                        "name: x\ntarget: h100\nmodel: " + model +
                            "\ndata: {path: x.jsonl, tokenizer: byte}\n"
                            "train: {sequence_len: 128, micro_batch_size: 2, max_steps: 1}\n",
                        use.overrides, diagnostics)
      .has_value();
}

}  // namespace

std::string families_markdown() {
  std::string table = "| model_type | family |", line = "\n| --- | --- |";
  for (const FamilyUse& use : uses()) {
    table += fmt::format(" {} |", use.name);
    line += " --- |";
  }
  table += line + "\n";
  for (const Family& family : families()) {
    const std::string model = small_model(family);
    table += fmt::format("| {} | {} |", family.model_type, family.name);
    for (const FamilyUse& use : uses()) table += can(model, use) ? " yes |" : " no |";
    table += "\n";
  }
  return table;
}

}  // namespace hydrac::spec
