// Warnings: keys that were written, with a value of their own, and change nothing given the others.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runtime/data/source_kind.h"
#include "spec/checks/check.h"
#include "spec/fit_keys.h"
#include "spec/keys/optimizer_table.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

// Keys that change nothing while `idle` holds.
struct Vain {
  bool idle;
  std::string because;
  std::vector<std::string_view> paths;
};

std::vector<Vain> vain_model_keys(const SpecKeys& spec) {
  const auto& m = spec.model;
  const bool series = m.input == Input::series;
  const auto scales = [&](RopeType type) { return scales_rope(m, type); };
  return {
      {m.position != Position::rope,
       fmt::format("position is {}", to_string(m.position)),
       {"model.rope_theta", "model.rope_local_theta", "model.no_rope_pattern", "model.partial_rotary_factor",
        "model.rope_interleave", "model.rope_scaling.factor"}},
      {m.attention_kind != AttentionKind::ccgqa,
       fmt::format("attention_kind is {}", to_string(m.attention_kind)),
       {"model.ccgqa.compression", "model.ccgqa.conv_kernel", "model.ccgqa.head_conv",
        "model.ccgqa.channel_conv", "model.ccgqa.qk_mean", "model.ccgqa.l2_norm", "model.ccgqa.temperature",
        "model.ccgqa.value_shift"}},
      {m.mod.capacity == 0, "mod.capacity is 0", {"model.mod.every", "model.mod.predictor_weight"}},
      {!m.ccgqa.head_conv && !m.ccgqa.channel_conv, "there is no convolution", {"model.ccgqa.conv_kernel"}},
      {!m.ccgqa.l2_norm, "l2_norm is false", {"model.ccgqa.temperature"}},
      {!has_recursions(spec),
       "mor.recursions is 1",
       {"model.mor.depth_loss_coef", "model.mor.variance_loss_coef", "model.mor.logit_loss_coef",
        "model.mor.aux_warmup_steps"}},
      {!has_experts(spec),
       "moe.experts is 0",
       {"model.moe.top_k", "model.moe.scoring", "model.moe.normalize_top_k", "model.moe.routed_scale",
        "model.moe.aux_loss_coef", "model.moe.z_loss_coef"}},
      {m.mor.depth_loss_coef == 0 && m.mor.variance_loss_coef == 0 && m.mor.logit_loss_coef == 0,
       "there is no auxiliary loss",
       {"model.mor.aux_warmup_steps"}},
      {spec.adapter.type == AdapterType::none,
       "there is no adapter.type",
       {"adapter.weights", "adapter.r", "adapter.alpha", "adapter.rslora", "adapter.dropout",
        "adapter.target_modules", "adapter.base"}},
      // Not those that are derived from other keys: a resolved spec has them written, and is overridden.
      {!samples_replies(spec),
       has_objective(spec) ? fmt::format("objective.name is {}", to_string(spec.objective.name))
                           : "there is no objective.name",
       {"objective.prompts", "objective.replies", "objective.weight", "objective.kl",
        "objective.max_new_tokens", "objective.temperature", "objective.top_k", "objective.top_p",
        "objective.embed"}},
      {spec.objective.embed != "model", "an encoder embeds replies", {"objective.embed_layer"}},
      {spec.objective.name != ObjectiveName::grpo,
       "objective.name is not grpo",
       {"objective.reward.command", "objective.reward.timeout"}},
      {!learns_preferences(spec), "objective.name is none of pairs", {"objective.beta"}},
      {spec.objective.name != ObjectiveName::simpo, "objective.name is not simpo", {"objective.gamma"}},
      {spec.objective.name != ObjectiveName::dpo && spec.objective.name != ObjectiveName::simpo,
       "objective.name is neither dpo nor simpo",
       {"objective.label_smoothing"}},
      {m.rope_scaling.factor == 1 && !scales(RopeType::longrope),
       "rope_scaling.factor is 1",
       {"model.rope_scaling.original_max_position_embeddings"}},
      {!scales(RopeType::llama3),
       "there is no rope_scaling of type llama3",
       {"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"}},
      {!scales(RopeType::yarn),
       "there is no rope_scaling of type yarn",
       {"model.rope_scaling.beta_fast", "model.rope_scaling.beta_slow", "model.rope_scaling.truncate"}},
      {!scales(RopeType::yarn) && !scales(RopeType::longrope),
       "there is no rope_scaling of type yarn or longrope",
       {"model.rope_scaling.attention_factor"}},
      {!scales(RopeType::longrope),
       "there is no rope_scaling of type longrope",
       {"model.rope_scaling.short_factor", "model.rope_scaling.long_factor"}},
      {scales(RopeType::linear),
       "rope_type is linear",
       {"model.rope_scaling.original_max_position_embeddings"}},
      {!m.qk_norm, "qk_norm is false", {"model.qk_norm_scope"}},
      {m.sliding_window == 0, "there is no sliding_window", {"model.sliding_window_pattern"}},
      {series,
       "the input is series",
       {"model.vocab_size", "model.embedding_scale", "model.tie_word_embeddings", "data.tokenizer",
        "data.format", "data.text_key", "data.cache_dir", "sample.prompt", "sample.max_new_tokens",
        "sample.temperature", "sample.top_k", "sample.top_p", "sample.min_p", "sample.repetition_penalty",
        "sample.stop", "sample.seed"}},
      {!series,
       "the input is tokens",
       {"model.num_features", "model.num_labels", "data.features", "data.target"}},
      {m.head != Head::language_model, fmt::format("the head is {}", to_string(m.head)), {"model.head_bias"}},
      {m.head == Head::regression, "the head is regression", {"train.label_smoothing", "optimizations.loss"}},
  };
}

// True if a pattern could name lists of records; one that ends in a wildcard could.
bool may_name_records(const std::string& pattern) {
  const std::string name = pattern.substr(pattern.rfind('/') + 1);
  const size_t dot = name.find_last_of('.');
  return dot == std::string::npos || name.find_first_of("*?[{", dot) != std::string::npos ||
         has_records(runtime::source_kind(name));
}

template <class Predicate>
bool none_of_the_files(const SpecKeys& spec, Predicate predicate) {
  std::vector<std::string> files = train_paths(spec);
  files.insert(files.end(), spec.data.val_path.begin(), spec.data.val_path.end());
  for (const Source& set : spec.data.val) files.insert(files.end(), set.path.begin(), set.path.end());
  return std::ranges::none_of(files, predicate);
}

std::vector<Vain> vain_data_keys(const SpecKeys& spec) {
  const auto is_no_shard = [](const std::string& pattern) {
    return runtime::source_kind(pattern) != runtime::SourceKind::tokens;
  };
  const bool has_val = !spec.data.val_path.empty() || !spec.data.val.empty();
  const bool no_validation = spec.data.val_fraction == 0 && !has_val;
  return {
      {spec.data.format == DataFormat::uint16, "data.format is uint16", {"data.text_key"}},
      {spec.data.format != DataFormat::chat,
       "data.format is not chat",
       {"data.train_on", "data.chat_template", "data.chat_template_jinja", "data.chat_template_kwargs",
        "data.chat_date", "data.fields", "data.too_long"}},
      {spec.data.chat_template != ChatFormat::own,
       "data.chat_template is not own",
       {"data.chat_template_jinja", "data.chat_template_kwargs", "data.chat_date"}},
      {spec.data.curriculum.steps == 0,
       "curriculum.steps is 0",
       {"data.curriculum.start", "data.curriculum.by"}},
      {none_of_the_files(spec, may_name_records), "data.path names no JSONL", {"data.text_key"}},
      {none_of_the_files(spec, is_no_shard), "token shards are read as they are", {"data.cache_dir"}},
      {has_val,
       spec.data.val.empty() ? "data.val_path is given" : "data.val is given",
       {"data.val_fraction"}},
      {no_validation,
       "val_fraction is 0 and there is no val_path",
       {"train.eval_steps", "train.eval_batches"}},
      {spec.train.eval_steps == 0, "eval_steps is 0", {"train.eval_batches"}},
  };
}

// True if no step of the run has a decayed learning rate.
bool never_decays(const SpecKeys& spec) {
  const LrScheduler& s = spec.train.lr_scheduler;
  if (waits_for_data(spec)) return false;
  return s.name == Schedule::wsd ? s.decay_steps == 0 : s.warmup_steps >= spec.train.max_steps;
}

std::vector<Vain> vain_training_keys(const SpecKeys& spec) {
  const OptimizerRow& optimizer = row_of(spec.train.optimizer.name);
  const LearningRateCurve& curve = spec.train.lr_scheduler.name;
  const std::string optimizer_is = fmt::format("the optimizer is {}", to_string(optimizer.name));
  return {
      {!optimizer.reads_betas, optimizer_is, {"train.optimizer.betas"}},
      {!optimizer.reads_eps, optimizer_is, {"train.optimizer.eps"}},
      {!optimizer.reads_momentum, optimizer_is, {"train.optimizer.momentum"}},
      {curve == Schedule::constant || curve.function,
       curve.function ? "the schedule is a function" : "the schedule is constant",
       {"train.lr_scheduler.min_ratio", "train.lr_scheduler.decay_steps"}},
      {curve == Schedule::adaptive, "the schedule follows the loss", {"train.lr_scheduler.decay_steps"}},
      {!(curve == Schedule::adaptive),
       "the schedule does not follow the loss",
       {"train.lr_scheduler.patience", "train.lr_scheduler.threshold", "train.lr_scheduler.factor"}},
      {never_decays(spec), "no step is left for a decay", {"train.lr_scheduler.min_ratio"}},
      {spec.train.save_steps == 0 && spec.train.save_minutes == 0 && !spec.train.save_best,
       "save_steps and save_minutes are 0, so that a run without interruptions saves once",
       {"train.save_total_limit"}},
      {!warms_sequences_up(spec), "sequence_warmup.steps is 0", {"train.sequence_warmup.start"}},
      {spec.parallel.data == 1, "parallel.data is 1", {"parallel.zero", "parallel.exchange"}},
      {spec.profile.steps == 0, "profile.steps is 0", {"profile.start"}},
      {spec.sample.max_new_tokens == 0,
       "max_new_tokens is 0",
       {"sample.prompt", "sample.temperature", "sample.top_k", "sample.top_p", "sample.min_p",
        "sample.repetition_penalty", "sample.stop", "sample.seed"}},
      {spec.sample.temperature == 0,
       "temperature is 0",
       {"sample.top_k", "sample.top_p", "sample.min_p", "sample.seed"}},
  };
}

// Anything that a cpu cannot do at all is an error (target.cpp).
std::vector<Vain> vain_optimizations(const Spec& spec) {
  const auto& o = spec.optimizations;
  const bool cpu = targets::find(spec.target)->is_cpu();
  return {
      {!cpu, "the target is a GPU", {"optimizations.threads"}},
      {cpu, "ranks on processors share memory", {"parallel.exchange"}},
      {cpu && o.attention == AttentionKernel::generated,
       "the cpu has no other attention",
       {"optimizations.attention"}},
      {cpu && o.fused_matmuls == FusedMatmuls::none, "the cpu has none", {"optimizations.fused_matmuls"}},
      {targets::find(spec.target)->capability != 90 || computes_in_32_bits(o.precision),
       "all matmuls are the library's",
       {"optimizations.library_matmuls"}},
      {o.precision != Precision::fp8,
       fmt::format("precision is {}", to_string(o.precision)),
       {"optimizations.fp8_matmuls", "optimizations.fp8_head"}},
      {computes_in_32_bits(o.precision),
       fmt::format("precision is {}", to_string(o.precision)),
       {"optimizations.residual", "optimizations.gradients"}},
      {o.recompute.mode == Recompute::Mode::none && !open_keys(spec).recompute,
       "recompute is none",
       {"optimizations.recompute_layers"}},
      {o.recompute.mode == Recompute::Mode::block && !open_keys(spec).recompute_layers &&
           (o.recompute_layers == 0 || o.recompute_layers == spec.model.num_hidden_layers),
       "recompute is block, which keeps nothing else",
       {"optimizations.offload.activations"}},
      {!open_keys(spec).any(), "every key that it chooses is written", {"optimizations.fit"}},
      {o.optimizer_state != StateType::int8 && !open_keys(spec).optimizer_state,
       fmt::format("optimizer_state is {}", to_string(o.optimizer_state)),
       {"optimizations.embedding_state"}},
  };
}

}  // namespace

void advise_no_effect(Draft& draft) {
  std::set<std::string_view> reported;
  for (const auto& rules : {vain_model_keys(draft.spec), vain_data_keys(draft.spec),
                            vain_training_keys(draft.spec), vain_optimizations(draft.spec)}) {
    for (const Vain& rule : rules) {
      for (const std::string_view path : rule.paths) {
        if (!rule.idle || !draft.chosen(path) || !draft.usable({path}) || !reported.insert(path).second)
          continue;
        draft.report(diag::Kind::no_effect, {path}, fmt::format("{} has no effect: {}", path, rule.because),
                     "remove it");
      }
    }
  }
}

}  // namespace hydrac::spec
