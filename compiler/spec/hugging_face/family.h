// A family of Hugging Face's models as a table: its keys of config.json beside ours, in both directions, and
// its names of tensors. One file a family in families/; reading, writing and the documentation loop over
// them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/spec.h"

namespace hydrac::spec {

class HfKeys;

// One line of the table. A row may read config.json, write it, restrict which models the family has, or all
// three. families/rows.h makes the usual ones.
struct FamilyRow {
  std::string_view theirs;  // config.json's key; "" for none
  std::string_view ours;    // "model.hidden_size"; "" for none
  std::string_view value;   // what an absent key stands for, or what all models of the family have
  void (*read)(HfKeys&, const FamilyRow&) = nullptr;
  // The key's value as JSON; "" leaves the key out.
  std::string (*write)(const Spec&, const FamilyRow&) = nullptr;
  bool (*holds)(const Spec&, const FamilyRow&) = nullptr;
  std::string_view has = {};  // what `holds` asks for, in words, after "have"
};

// A module by our name ("attn.q") and by the checkpoint's, in which {} stands for the layer. Modules of ours
// that share a name there are packed into one tensor.
struct ModuleName {
  std::string_view ours, theirs;
};

// Biases and position embeddings that checkpoints have: those of the model; all of attention's or none;
// always all. Those that the model lacks are stored as zeros.
enum class StoredBiases { as_modeled, attention_together, always };

struct Family {
  std::string_view model_type;  // "qwen3"
  std::string_view name;        // "Qwen3"
  std::vector<FamilyRow> rows;  // in the order in which config.json is written
  std::vector<ModuleName> modules;
  StoredBiases biases = StoredBiases::as_modeled;
  bool stores_in_out = false;    // linear layers of blocks are [in, out] in files
  bool qwen2_tokenizer = false;  // transformers splits text as Qwen2 does, whatever tokenizer.json says

  // "attn.q.weight" -> "model.layers.{}.self_attn.q_proj.weight". A module that the family lacks is our bug.
  std::string tensor(std::string_view ours) const;
};

// Hugging Face's; a model that fits several is the first.
std::span<const Family> families();
// Models that none of those can express: config.json has the spec's own keys.
const Family& own_family();
const Family* find_family(std::string_view model_type);

}  // namespace hydrac::spec
