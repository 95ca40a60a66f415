// A Hugging Face config.json as it is read: its keys one after another, and the keys of our `model` section
// that they become. Which keys a family of models has is its table's (spec/hugging_face/family.h).
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "diag/diagnostic.h"
#include "spec/keys/values.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// Hugging Face's name of an activation that is no function of the user's.
std::string_view activation_there(const HiddenAct&);

struct RopeKind;

// Errors are reported where they are found; keys that the spec writes itself (`written`) are left to it.
class HfKeys {
 public:
  // All three must outlive it. `config` is the file's map.
  HfKeys(const Node& config, const Node& written, diag::Diagnostics& diagnostics);

  const Node& config() const { return config_; }
  // The place of model_type, or the file's beginning.
  const diag::Location& where() const { return family_; }

  // The entry of a key that is there and not null; from now on the key counts as known.
  const Entry* take(std::string_view theirs);
  // `ours` may be a key of a section: "moe.experts".
  void set(std::string_view ours, const diag::Location& where, Node value);
  // A value that the family has by nature, or that Hugging Face gives a key nobody wrote.
  void constant(std::string_view ours, std::string_view text);
  void map(std::string_view theirs, std::string_view ours, std::string_view if_absent = "");
  void map_needed(std::string_view theirs, std::string_view ours);
  void activation(std::string_view theirs, bool gated, std::string_view if_absent);
  // A null is as many as query heads; a key that nobody wrote is what the family has.
  void key_value_heads(std::string_view if_absent);
  // An error, `otherwise`, where the key is there with another value than the one that hydrac has.
  void must_be(std::string_view theirs, std::string_view wanted, std::string_view otherwise);
  // A number of ours that is computed from theirs; `if_absent` is one of theirs.
  void computed(std::string_view theirs, std::string_view ours, std::string_view if_absent,
                double (*compute)(double));
  // Layers that have a sliding window. `needs_switch`: only if use_sliding_window says so (Qwen).
  void windows(bool needs_switch);
  // The same of families without a switch. `if_absent`: the window of a config.json that has neither this key
  // nor layer_types.
  void windows_or(std::string_view if_absent);
  // Behind that: without layer_types, every how many layers one has no window.
  void window_period(std::string_view if_absent);
  // Layers without rope, of a list of 0 (none) and 1, or every so many.
  void layers_without_rope(std::string_view list, std::string_view interval, std::string_view if_absent);
  // rope_scaling, or rope_parameters: theta, the part of a head and the kind of scaling.
  void rope(const Node& parameters);
  // The same of families whose layers with a window have a base of their own: the two kinds may be maps.
  void rope_by_layer(const Node& parameters);
  // Behind rope and windows: leaves rope_local_theta to models that need it; `if_absent`, or where that is
  // empty rope_theta, stands for an absent one.
  void settle_local_theta(std::string_view if_absent);
  // Rope may turn a part of a head: partial_rotary_factor, here or in rope_parameters.
  void part_of_head(std::string_view theirs, std::string_view if_absent);
  // True if partial_rotary_factor asks for less than a whole head, which is reported.
  bool refuses_part_of_head(const Entry* partial);
  // The number of experts, which has two names: num_experts and num_local_experts.
  void experts(std::string_view theirs, std::string_view if_absent);
  // Dropouts of the residual stream and of the embedding, which are one key of ours: GPT-2's, StarCoder2's.
  void same_dropouts(std::string_view residual, std::string_view if_absent);

  // True if a key says nothing about the architecture: token ids, generation, the library's own bookkeeping.
  static bool is_irrelevant(std::string_view theirs);

  void unsupported(const diag::Location& where, std::string message, std::string suggestion = "");
  // Warns of every key that nothing took, but for irrelevant ones.
  void report_unknown();
  // Warns if the spec writes more positions than the model was trained with, and no rope_scaling.
  void warn_beyond_trained_length();
  // The number that one of our keys has so far.
  std::optional<double> number(std::string_view ours) const;
  // The value of one of our keys so far, or null.
  const Node* so_far(std::string_view ours) const;
  // The map of our keys.
  Node take_model() { return std::move(model_); }

 private:
  void set_number(std::string_view ours, const diag::Location& where, size_t number);
  void rope_scaling(const Node& parameters, const Entry& type, const RopeKind& kind);
  void layer_types(const Entry& types, const Entry* window);
  bool is_written(std::string_view ours) const { return written_.find(ours) != nullptr; }

  const Node& config_;
  const Node& written_;
  diag::Diagnostics& diagnostics_;
  std::set<std::string_view> known_;
  bool may_be_partial_ = false;
  diag::Location family_;  // where model_type stands
  Node model_{.kind = Node::Kind::map};
};

}  // namespace hydrac::spec
