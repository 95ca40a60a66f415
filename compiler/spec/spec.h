// A spec as C++: one field a key, `spec.model.hidden_size`, made from keys.def. After load_spec every field
// holds its final value: defaults and derived values filled in, `extends` and `model.from` applied, checked
// against the others.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "diag/location.h"
#include "spec/hugging_face/encoder.h"
#include "spec/keys/enums.h"
#include "spec/keys/rule.h"
#include "spec/keys/values.h"

namespace hydrac::spec {

// All keys. Compares by value; where a value came from does not count.
struct SpecKeys {
#define SECTION(path, member, Type, doc) struct Type {
#define KEY(section, name, type, fallback, rule, doc) type name = Default<type>(fallback).value;
#define END_SECTION(Type, member)               \
  bool operator==(const Type&) const = default; \
  }                                             \
  member;
#include "spec/keys/keys.def"
#undef SECTION
#undef KEY
#undef END_SECTION

  bool operator==(const SpecKeys&) const = default;
};

struct Spec : SpecKeys {
  // The folder that objective.embed names, as read; for specs with an objective that embeds by one.
  std::optional<Encoder> encoder;
  // True if data.tokenizer is a file that splits text as Qwen2's class of transformers does.
  bool qwen2_tokenizer = false;

  // The place of the key at `path` ("train.optimizer.betas") as written; nowhere when it has its default or
  // derived value. For a key that came from a config.json: its place in that file. A path that is no key is
  // our bug: logic_error.
  diag::Location where(std::string_view path) const;

  // True if the user wrote the key (in the spec, a base of it, a config.json, or on the command line).
  bool is_set(std::string_view path) const { return where(path).known(); }

  // Used by the loader: remembers that `path` was written at `location`.
  void set_where(std::string_view path, diag::Location location);

 private:
  std::map<std::string, diag::Location, std::less<>> places_;  // only keys that were written
};

// Sections by their own names.
using Model = SpecKeys::Model;
using RopeScaling = Model::RopeScaling;
using Train = SpecKeys::Train;
using Profile = SpecKeys::Profile;
using Tune = SpecKeys::Tune;
using LrScheduler = Train::LrScheduler;

// True while train.epochs stands for a train.max_steps that only the data can tell (spec/with_data.h).
inline bool waits_for_data(const SpecKeys& spec) {
  return spec.train.epochs > 0;
}

// The files or globs that training reads.
inline StringList train_paths(const SpecKeys& spec) {
  StringList paths = spec.data.path;
  for (const Source& source : spec.data.mix)
    paths.insert(paths.end(), source.path.begin(), source.path.end());
  return paths;
}

// True while planning has yet to choose train.micro_batch_size (driver/fit.h).
inline bool waits_for_plan(const SpecKeys& spec) {
  return spec.train.micro_batch_size.automatic();
}

// True while optimizations.fit stands for keys that planning chooses (driver/fit.h).
inline bool waits_for_fit(const SpecKeys& spec) {
  return spec.optimizations.fit != Fit::none;
}

// True if training begins with weights from files.
inline bool begins_with_weights(const SpecKeys& spec) {
  return !spec.model.weights.empty() && spec.model.weights != "none";
}

// True if an adapter begins with one from a file.
inline bool begins_with_adapter(const SpecKeys& spec) {
  return spec.adapter.type != AdapterType::none && !spec.adapter.weights.empty() &&
         spec.adapter.weights != "none";
}

inline bool has_objective(const SpecKeys& spec) {
  return spec.objective.name != ObjectiveName::none;
}

// True if replies are sampled in each step, and learned from.
inline bool samples_replies(const SpecKeys& spec) {
  return spec.objective.name == ObjectiveName::polychromic || spec.objective.name == ObjectiveName::grpo;
}

// True if the data are pairs of completions, of which the model learns to prefer one.
inline bool learns_preferences(const SpecKeys& spec) {
  return has_objective(spec) && !samples_replies(spec);
}

// True if log-probabilities are compared with those of the weights that training begins with.
inline bool has_reference(const SpecKeys& spec) {
  const ObjectiveName name = spec.objective.name;
  return learns_preferences(spec) && name != ObjectiveName::simpo && name != ObjectiveName::orpo;
}

// True if optimizations.loss can be other than materialized. A pair's loss needs the tokens of both texts
// before the gradient of any.
inline bool can_divide_head(const SpecKeys& spec) {
  return spec.model.head != Head::regression && !learns_preferences(spec);
}

// Room for pairs in a sequence.
inline int64_t pairs_of_sequence(const SpecKeys& spec) {
  return std::max<int64_t>(1, spec.train.sequence_len / 32);
}

// The encoder that embeds them; null: the model's own hidden states do.
inline const Encoder* encoder_of_replies(const Spec& spec) {
  return samples_replies(spec) && spec.encoder ? &*spec.encoder : nullptr;
}

// Prompts of a step that one process replies to.
inline int64_t prompts_of_rank(const SpecKeys& spec) {
  return spec.objective.prompts / spec.parallel.data;
}

// Micro-batches of a process's step that hold its replies, each reply at a place that has room for the
// longest. The batch size is chosen, or counts as 1.
inline int64_t sampled_micro_batches(const SpecKeys& spec) {
  if (!samples_replies(spec)) return 0;
  const auto& o = spec.objective;
  const int64_t batch = std::max<int64_t>(1, spec.train.micro_batch_size);
  const int64_t places =
      batch * std::max<int64_t>(1, spec.train.sequence_len / (o.prompt_tokens + o.max_new_tokens));
  return (prompts_of_rank(spec) * o.replies + places - 1) / places;
}

// All that one optimizer step of a process takes.
inline int64_t micro_batches_of_step(const SpecKeys& spec) {
  return spec.train.gradient_accumulation_steps + sampled_micro_batches(spec);
}

// Processes that train the model together.
inline int64_t rank_count(const SpecKeys& spec) {
  return spec.parallel.data * spec.parallel.tensor;
}

// That exchange numbers by copies between their GPUs: a host has as many at most, as a rule.
inline constexpr int64_t kMostCopyingRanks = 8;

// True if layers of this model can gather their weights from ranks (parallel.zero: 3).
inline bool can_share_weights(const SpecKeys& spec) {
  const bool has_codes = spec.adapter.type != AdapterType::none && spec.adapter.base == AdapterBase::nf4;
  return spec.optimizations.precision != Precision::fp8 && !has_codes;
}

inline bool computes_in_32_bits(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32;
}

// True if model.sliding_window hides a token from another in some layer.
inline bool has_windows(const SpecKeys& spec) {
  const auto& m = spec.model;
  return m.sliding_window > 0 && m.sliding_window < spec.train.sequence_len && m.sliding_window_pattern != 1;
}

// Elements of a head that rope turns.
inline int64_t rope_width(const Model& m) {
  return static_cast<int64_t>(static_cast<double>(m.head_dim) * m.partial_rotary_factor);
}

// True if rope's frequencies are scaled so.
inline bool scales_rope(const Model& m, RopeType type) {
  return m.position == Position::rope && m.rope_scaling.rope_type == type &&
         (m.rope_scaling.factor != 1 || type == RopeType::longrope);
}
inline bool scales_rope(const Model& m) {
  return scales_rope(m, m.rope_scaling.rope_type);
}

// Rope's base at train.sequence_len: rope_type dynamic raises it.
double rope_base(const SpecKeys& spec);

// Longrope's divisors of the frequencies at train.sequence_len; empty without it.
const Numbers& rope_pair_factors(const SpecKeys& spec);

// rope_scaling.attention_factor where it is not written.
double usual_attention_factor(const RopeScaling& scaling);

// Every so many layers, one has other angles than the rest; 0: all have the same.
inline int64_t rope_period(const Model& m) {
  return m.rope_local_theta > 0 ? m.sliding_window_pattern : m.no_rope_pattern;
}

// True if rows are cut into shorter sequences during the first steps.
inline bool warms_sequences_up(const SpecKeys& spec) {
  return spec.train.sequence_warmup.steps > 0;
}

// True if a program reads, with a row's tokens, which of them do not see each other: the data's documents, or
// the sequences that a warm-up cuts rows into.
inline bool reads_documents(const SpecKeys& spec) {
  return spec.data.document_mask || warms_sequences_up(spec);
}

// True if some layers compute only the tokens that a router chooses.
inline bool routes_tokens(const SpecKeys& spec) {
  return spec.model.mod.capacity > 0;
}

// How many of a sequence's tokens these are, one at least. A product that rounding left below a whole number
// is that number.
inline int64_t chosen_tokens(const SpecKeys& spec) {
  constexpr double kRounding = 1e-9;
  const double tokens = spec.model.mod.capacity * static_cast<double>(spec.train.sequence_len);
  return std::max<int64_t>(1, static_cast<int64_t>(tokens + kRounding));
}

// Layers of one iteration of a loop over them: as many as are of different kinds.
inline int layers_of_iteration(const SpecKeys& spec) {
  return routes_tokens(spec) ? static_cast<int>(spec.model.mod.every) : 1;
}

// Iterations that have the model's first `layers`; others of the last one's layers are among them then.
inline int iterations_of(const SpecKeys& spec, int layers) {
  const int step = layers_of_iteration(spec);
  return (layers + step - 1) / step;
}

// True if tokens take passes of their own number through a block's mlp.
inline bool has_recursions(const SpecKeys& spec) {
  return spec.model.mor.recursions > 1;
}

// True if a block has several mlps, of which a router chooses some for each token.
inline bool has_experts(const SpecKeys& spec) {
  return spec.model.moe.experts > 0;
}

// True if the mlp has two input projections. A function's parameters say so.
inline bool is_gated(const HiddenAct& act) {
  if (act.function) return act.function->lifted.parameters.size() == 2;
  return act.word == Activation::swiglu || act.word == Activation::geglu ||
         act.word == Activation::geglu_tanh;
}

}  // namespace hydrac::spec
