// Warnings: what works, but slower than it could, and what was written in vain.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "spec/check.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void advise_width(Draft& draft, std::string_view path, int64_t width) {
  constexpr int64_t kMultiple = 64;
  if (!draft.usable({path}) || width % kMultiple == 0) return;
  const int64_t above = round_up(width, kMultiple);
  draft.report(Kind::width_alignment, {path, "model.hidden_size"},
               fmt::format("{} ({}) is not a multiple of {}, which is slow", path, width, kMultiple),
               above > kMultiple ? fmt::format("{} or {} would be faster", above - kMultiple, above)
                                 : fmt::format("{} would be faster", above));
}

void advise_vocabulary(Draft& draft) {
  constexpr int64_t kMultiple = 64;
  constexpr double kBadly = 1.05;
  const int64_t vocab = draft.spec.model.vocab_size;
  if (!draft.usable({"target", "model.vocab_size"}) || targets::find(draft.spec.target)->is_cpu() ||
      vocab == 0)
    return;
  const int64_t padded = round_up(vocab, kMultiple);
  if (static_cast<double>(padded) > kBadly * static_cast<double>(vocab))
    draft.report(
        Kind::vocab_alignment, {"model.vocab_size"},
        fmt::format("vocab_size ({}) pads to {}, and {:.0f}% of the head's work is wasted", vocab, padded,
                    100.0 * static_cast<double>(padded - vocab) / static_cast<double>(padded)),
        fmt::format("a multiple of {} wastes nothing", kMultiple));
}

void advise_recompute(Draft& draft) {
  const std::string_view key = "optimizations.recompute";
  if (draft.usable({key, "model.qk_norm"}) && draft.spec.optimizations.recompute.qk_norm &&
      !draft.spec.model.qk_norm)
    draft.report(Kind::no_effect, {key},
                 fmt::format("qk_norm in {} has no effect: model.qk_norm is false", key),
                 "remove it from the list");
}

// Keys that change nothing while `idle` holds.
struct Vain {
  bool idle;
  std::string because;
  std::vector<std::string_view> paths;
};

std::vector<Vain> vain_model_keys(const SpecKeys& spec) {
  const auto& m = spec.model;
  const bool series = m.input == Input::series;
  return {
      {m.position != Position::rope,
       fmt::format("position is {}", to_string(m.position)),
       {"model.rope_theta", "model.rope_scaling.factor", "model.rope_scaling.low_freq_factor",
        "model.rope_scaling.high_freq_factor", "model.rope_scaling.original_max_position_embeddings"}},
      {series,
       "the input is series",
       {"model.vocab_size", "model.tie_word_embeddings", "data.tokenizer", "data.format", "data.text_key",
        "sample.prompt", "sample.max_new_tokens", "sample.temperature", "sample.top_k", "sample.top_p"}},
      {!series,
       "the input is tokens",
       {"model.num_features", "model.num_labels", "data.features", "data.target"}},
      {m.head == Head::regression, "the head is regression", {"train.label_smoothing", "optimizations.loss"}},
  };
}

std::vector<Vain> vain_run_keys(const SpecKeys& spec) {
  const Optimizer optimizer = spec.train.optimizer.name;
  const LearningRateCurve& curve = spec.train.lr_scheduler.name;
  const std::string optimizer_is = fmt::format("the optimizer is {}", to_string(optimizer));
  return {
      {optimizer == Optimizer::sgd, optimizer_is, {"train.optimizer.betas"}},
      {optimizer != Optimizer::adamw, optimizer_is, {"train.optimizer.eps"}},
      {optimizer != Optimizer::sgd, optimizer_is, {"train.optimizer.momentum"}},
      {curve == Schedule::constant || curve.function,
       curve.function ? "the schedule is a function" : "the schedule is constant",
       {"train.lr_scheduler.min_ratio", "train.lr_scheduler.decay_steps"}},
      {spec.data.format == DataFormat::uint16, "data.format is uint16", {"data.text_key"}},
      {!spec.data.val_path.empty(), "data.val_path is given", {"data.val_fraction"}},
      {spec.train.eval_steps == 0, "eval_steps is 0", {"train.eval_batches"}},
      {spec.sample.temperature == 0, "temperature is 0", {"sample.top_k", "sample.top_p", "sample.seed"}},
      {!targets::find(spec.target)->is_cpu(), "the target is a GPU", {"optimizations.threads"}},
  };
}

void advise_vain(Draft& draft, const std::vector<Vain>& rules) {
  for (const Vain& rule : rules)
    for (const std::string_view path : rule.paths)
      if (rule.idle && draft.chosen(path) && draft.usable({path}))
        draft.report(Kind::no_effect, {path}, fmt::format("{} has no effect: {}", path, rule.because),
                     "remove it");
}

}  // namespace

void advise(Draft& draft) {
  advise_width(draft, "model.hidden_size", draft.spec.model.hidden_size);
  advise_width(draft, "model.intermediate_size", draft.spec.model.intermediate_size);
  advise_vocabulary(draft);
  // Whether a key is in vain depends on others: with any of them broken it would be a guess.
  if (!draft.broken.empty()) return;
  advise_recompute(draft);
  advise_vain(draft, vain_model_keys(draft.spec));
  advise_vain(draft, vain_run_keys(draft.spec));
}

}  // namespace hydrac::spec
