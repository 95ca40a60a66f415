// Every key of keys.def does something: another value changes the program, its batches or its run, or is
// refused. The table has a case for each; a key without one fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "evidence.h"
#include "spec/keys/key_table.h"

namespace hydrac::test {
namespace {

const std::string kTokens =
    "name: base\n"
    "target: cpu\n"
    "model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4}\n"
    "data: {path: a.txt, val_fraction: 0.1}\n"
    "train: {sequence_len: 16, micro_batch_size: 2, max_steps: 8, eval_steps: 4, eval_batches: 2, log_steps: "
    "1}\n"
    "optimizations: {threads: 1}\n"
    "sample: {max_new_tokens: 20, temperature: 1}\n";

const std::string kSeries =
    "name: series\n"
    "target: cpu\n"
    "model: {input: series, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4}\n"
    "data: {path: series.csv, features: [a, b], target: [y], val_fraction: 0.2}\n"
    "train: {sequence_len: 8, micro_batch_size: 2, max_steps: 8}\n"
    "optimizations: {threads: 1}\n";

const std::string kMixed =
    "name: mixed\n"
    "target: cpu\n"
    "model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4}\n"
    "data: {mix: {one: a.txt, two: b.txt}, val_fraction: 0.1}\n"
    "train: {sequence_len: 16, micro_batch_size: 2, max_steps: 8, eval_steps: 4, eval_batches: 2, log_steps: "
    "1}\n"
    "optimizations: {threads: 1}\n"
    "sample: {max_new_tokens: 0}\n";

const std::string kHopper =
    "name: hopper\n"
    "target: h200\n"
    "model: {hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 256}\n"
    "data: {path: a.txt}\n"
    "train: {sequence_len: 128, micro_batch_size: 2, max_steps: 8}\n";

const std::string kReplies =
    "name: replies\n"
    "target: cpu\n"
    "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 32}\n"
    "objective: {name: polychromic, prompts: 2, replies: 2, max_new_tokens: 8}\n"
    "data: {path: pairs.jsonl, format: chat}\n"
    "train: {sequence_len: 48, micro_batch_size: 2, max_steps: 4, log_steps: 1}\n"
    "optimizations: {threads: 1}\n"
    "sample: {max_new_tokens: 0}\n";

const std::string kChat =
    "name: chat\n"
    "target: cpu\n"
    "model: {hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4}\n"
    "data: {path: chat.jsonl, format: chat, chat_template_jinja: own.jinja}\n"
    "train: {sequence_len: 128, micro_batch_size: 2, max_steps: 4}\n"
    "optimizations: {threads: 1}\n"
    "sample: {max_new_tokens: 0}\n";

const std::string kPairs =
    "name: pairs\n"
    "target: cpu\n"
    "model: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 32}\n"
    "objective: {name: simpo}\n"
    "data: {path: preferences.jsonl, format: chat}\n"
    "train: {sequence_len: 64, micro_batch_size: 2, max_steps: 4, log_steps: 1}\n"
    "optimizations: {threads: 1}\n"
    "sample: {max_new_tokens: 0}\n";

// Heads of 8 or 16 in a latent space of half the width, or all of it.
std::vector<std::string> compressed(const std::string& compression = "model.ccgqa.compression=2") {
  return {"model.attention_kind=ccgqa", "model.hidden_size=64", "model.num_key_value_heads=2", compression};
}

struct Case {
  std::string key;
  std::string other;  // another value than the base has
  Shows shows = Shows::program;
  std::string base = kTokens;
  std::vector<std::string> with = {};  // overrides of the base, without and with the other value
  std::string refused = {};            // refusal: the kind
};

// Wavelengths of 8 / 2 frequencies: 6, 63, 628 and 6283 positions. The second is between 64 / 4 and 64 / 1.
const std::vector<std::string> kScaled = {"model.rope_scaling.factor=8",
                                          "model.rope_scaling.original_max_position_embeddings=64"};

// The ramp is from frequency 1 to 3 of the same four.
const std::vector<std::string> kYarn = {"model.rope_scaling.rope_type=yarn", "model.rope_scaling.factor=8",
                                        "model.rope_scaling.original_max_position_embeddings=4096"};

std::vector<std::string> longrope(int original_length) {
  return {"model.rope_scaling.rope_type=longrope", "model.rope_scaling.short_factor=[1, 2, 3, 4]",
          "model.rope_scaling.long_factor=[1, 2, 3, 4]",
          "model.rope_scaling.original_max_position_embeddings=" + std::to_string(original_length)};
}

const std::vector<Case> kCases = {
    {"name", "other", Shows::run},
    {"target", "h100", Shows::program, kHopper, {"target=a100"}},
    {"extends", "below.yaml", Shows::program},
    {"model.from", "config.json"},
    {"model.weights", "zeros.safetensors", Shows::run},
    {"model.input", "tokens", Shows::program, kSeries},
    {"model.num_features", "3", Shows::refusal, kSeries, {}, "labels-mismatch"},
    {"model.head", "classification", Shows::refusal, kSeries, {}, "missing-key"},
    {"model.num_labels",
     "3",
     Shows::program,
     kSeries,
     {"model.head=classification", "model.num_labels=2", "data.target=up"}},
    {"model.hidden_size", "64"},
    {"model.num_hidden_layers", "2"},
    {"model.num_attention_heads", "2"},
    {"model.num_key_value_heads", "2"},
    {"model.head_dim", "16"},
    {"model.attention_kind", "ccgqa", Shows::program, kTokens, {"model.hidden_size=128"}},
    {"model.ccgqa.compression", "2", Shows::program, kTokens, compressed("model.ccgqa.compression=1")},
    {"model.ccgqa.conv_kernel", "2", Shows::program, kTokens, compressed()},
    {"model.ccgqa.head_conv", "false", Shows::program, kTokens, compressed()},
    {"model.ccgqa.channel_conv", "false", Shows::program, kTokens, compressed()},
    {"model.ccgqa.qk_mean", "false", Shows::program, kTokens, compressed()},
    {"model.ccgqa.l2_norm", "false", Shows::program, kTokens, compressed()},
    {"model.ccgqa.temperature", "false", Shows::program, kTokens, compressed()},
    {"model.ccgqa.value_shift", "false", Shows::program, kTokens, compressed()},
    {"model.mor.recursions", "2"},
    {"model.mor.recursions", "2", Shows::program, kHopper},
    {"model.mor.recursions", "2", Shows::refusal, kTokens, {"parallel.tensor=2"}, "tensor-unsupported"},
    {"model.mor.depth_loss_coef", "0.1", Shows::program, kTokens, {"model.mor.recursions=3"}},
    {"model.mor.variance_loss_coef", "0.1", Shows::program, kTokens, {"model.mor.recursions=3"}},
    {"model.mor.logit_loss_coef", "0.5", Shows::program, kTokens, {"model.mor.recursions=3"}},
    {"model.mor.aux_warmup_steps", "0", Shows::program, kTokens, {"model.mor.recursions=3"}},
    {"model.intermediate_size", "48"},
    {"model.vocab_size", "300"},
    {"model.max_position_embeddings", "64", Shows::program, kTokens, {"model.position=learned"}},
    {"model.max_position_embeddings", "64", Shows::run},
    {"model.max_position_embeddings", "8", Shows::refusal, kTokens, {}, "sequence-too-long"},
    {"model.block", "parallel"},
    {"model.block", "parallel", Shows::program, kHopper},
    {"model.block", "parallel_one_norm", Shows::program, kHopper},
    {"model.block", "parallel", Shows::refusal, kTokens, {"model.mor.recursions=2"}, "block-unsupported"},
    {"model.block",
     "parallel_one_norm",
     Shows::refusal,
     kTokens,
     {"model.norm_placement=output"},
     "block-unsupported"},
    {"model.norm", "layernorm"},
    {"model.norm_placement", "output"},
    {"model.norm_placement", "both", Shows::program, kHopper},
    {"model.norm_placement", "both", Shows::refusal, kTokens, {"model.mor.recursions=2"}, "norm-unsupported"},
    {"model.norm_placement",
     "output",
     Shows::refusal,
     kTokens,
     {"model.num_hidden_layers=2", "model.mod.capacity=0.5"},
     "mod-unsupported"},
    {"model.norm_offset", "1"},
    {"model.norm_eps", "0.001"},
    {"model.norm_bias", "false", Shows::program, kTokens, {"model.norm=layernorm"}},
    {"model.hidden_act", "gelu"},
    {"model.position", "none"},
    {"model.rope_interleave", "true"},
    {"model.rope_theta", "500"},
    {"model.partial_rotary_factor", "0.5"},
    {"model.packed_weights", "qkv_gate_up", Shows::run},
    {"model.packed_weights", "qkv_by_head"},
    {"model.packed_weights", "qkv_by_head", Shows::program, kHopper},
    {"model.no_rope_pattern", "2"},
    {"model.rope_local_theta",
     "500",
     Shows::program,
     kTokens,
     {"model.sliding_window=5", "model.sliding_window_pattern=2"}},
    {"model.rope_local_theta", "500", Shows::refusal, kTokens, {}, "rope-layers"},
    {"model.rope_scaling.rope_type", "yarn", Shows::program, kTokens, kScaled},
    {"model.rope_scaling.rope_type",
     "dynamic",
     Shows::program,
     kTokens,
     {"model.rope_scaling.factor=8", "model.rope_scaling.original_max_position_embeddings=8"}},
    {"model.rope_scaling.rope_type", "longrope", Shows::refusal, kTokens, {}, "rope-factors rope-factors"},
    {"model.rope_scaling.short_factor", "[1, 2, 3, 5]", Shows::program, kTokens, longrope(16)},
    {"model.rope_scaling.long_factor", "[1, 2, 3, 5]", Shows::program, kTokens, longrope(15)},
    {"model.rope_scaling.attention_factor", "2", Shows::program, kTokens, kYarn},
    {"model.rope_scaling.beta_fast", "3", Shows::program, kTokens, kYarn},
    {"model.rope_scaling.beta_slow", "0.5", Shows::program, kTokens, kYarn},
    {"model.rope_scaling.truncate", "false", Shows::program, kTokens, kYarn},
    {"model.rope_scaling.factor", "2", Shows::program, kTokens, kScaled},
    {"model.rope_scaling.low_freq_factor", "0.5", Shows::program, kTokens, kScaled},
    {"model.rope_scaling.high_freq_factor", "8", Shows::program, kTokens, kScaled},
    {"model.rope_scaling.original_max_position_embeddings", "128", Shows::program, kTokens, kScaled},
    {"model.qk_norm", "true"},
    {"model.qk_norm_scope", "projection", Shows::program, kTokens, {"model.qk_norm=true"}},
    {"model.qk_norm_scope", "projection", Shows::program, kHopper, {"model.qk_norm=true"}},
    {"model.qk_norm_scope",
     "projection",
     Shows::refusal,
     kTokens,
     {"model.qk_norm=true", "parallel.tensor=2"},
     "tensor-unsupported"},
    {"model.attention_scale", "0.3"},
    {"model.head_bias", "true"},
    {"model.head_bias", "true", Shows::program, kHopper},
    {"model.embedding_scale", "5"},
    {"model.residual_scale", "0.5"},
    {"model.logit_scale", "0.5"},
    {"model.attention_mask", "none", Shows::program, kSeries},
    {"model.sliding_window", "5"},
    {"model.sliding_window_pattern", "2", Shows::program, kTokens, {"model.sliding_window=5"}},
    {"model.moe.experts", "4"},
    {"model.moe.experts", "4", Shows::refusal, kTokens, {"parallel.tensor=2"}, "moe-unsupported"},
    {"model.moe.top_k", "3", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.moe.intermediate_size", "24", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.moe.scoring", "sigmoid", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.moe.normalize_top_k", "false", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.moe.routed_scale", "2.5", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.moe.aux_loss_coef", "0.1", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.moe.z_loss_coef", "0.1", Shows::program, kTokens, {"model.moe.experts=4"}},
    {"model.mod.capacity", "0.5", Shows::program, kTokens, {"model.num_hidden_layers=2"}},
    {"model.mod.predictor_weight",
     "0.5",
     Shows::program,
     kTokens,
     {"model.num_hidden_layers=2", "model.mod.capacity=0.5"}},
    {"model.mod.every",
     "3",
     Shows::program,
     kTokens,
     {"model.num_hidden_layers=6", "model.mod.capacity=0.5"}},
    {"model.attention_softcap", "20"},
    {"model.logit_softcap", "20"},
    {"model.attention_bias", "true"},
    {"model.attention_output_bias", "true"},
    {"model.mlp_bias", "true"},
    {"model.tie_word_embeddings", "false"},
    {"model.dropout", "0.1"},
    {"model.attention_dropout", "0.1"},
    {"model.initializer_range", "0.05"},
    {"adapter.type", "lora"},
    {"adapter.from", "peft"},
    {"adapter.weights", "peft", Shows::run, kTokens, {"adapter.type=lora"}},
    {"adapter.r", "8", Shows::program, kTokens, {"adapter.type=lora"}},
    {"adapter.alpha", "8", Shows::program, kTokens, {"adapter.type=lora"}},
    {"adapter.rslora", "true", Shows::program, kTokens, {"adapter.type=lora"}},
    {"adapter.dropout", "0.1", Shows::program, kTokens, {"adapter.type=lora"}},
    {"adapter.base",
     "nf4",
     Shows::program,
     kTokens,
     {"adapter.type=lora", "model.hidden_size=64", "model.intermediate_size=64"}},
    {"adapter.target_modules", "[q_proj, v_proj]", Shows::program, kTokens, {"adapter.type=lora"}},
    {"objective.name", "none", Shows::program, kReplies},
    {"objective.name", "dpo", Shows::program, kPairs},
    {"objective.name", "dpo", Shows::refusal, kTokens, {}, "objective-unsupported"},
    {"objective.beta", "0.5", Shows::program, kPairs},
    {"objective.gamma", "0.1", Shows::program, kPairs},
    {"objective.label_smoothing", "0.2", Shows::program, kPairs},
    {"objective.prompts", "3", Shows::program, kReplies},
    {"objective.replies", "3", Shows::program, kReplies},
    {"objective.weight", "1", Shows::run, kReplies},
    {"objective.kl", "0.1", Shows::program, kReplies, {"adapter.type=lora"}},
    {"objective.kl", "0.1", Shows::run, kReplies, {"adapter.type=lora"}},
    {"objective.kl", "0.1", Shows::refusal, kReplies, {}, "objective-needs-adapter"},
    {"objective.prompt_tokens", "20", Shows::program, kReplies},
    {"objective.prompt_tokens", "1", Shows::refusal, kReplies, {}, "data"},
    {"objective.max_new_tokens", "16", Shows::program, kReplies},
    {"objective.max_new_tokens", "4", Shows::run, kReplies},
    {"objective.temperature", "3", Shows::run, kReplies},
    {"objective.top_k", "1", Shows::run, kReplies},
    {"objective.top_p", "0.01", Shows::run, kReplies},
    {"objective.seed", "7", Shows::run, kReplies},
    {"objective.embed", "encoder", Shows::program, kReplies},
    {"objective.embed", "minilm", Shows::refusal, kReplies, {}, "unreadable-file"},
    {"objective.embed_layer", "1", Shows::program, kReplies},
    {"objective.reward.command",
     "[seq, \"4\"]",
     Shows::run,
     kReplies,
     {"objective.name=grpo", "objective.reward.command=[printf, \"3\\\\n1\\\\n2\\\\n2\\\\n\"]"}},
    {"objective.reward.command",
     "[]",
     Shows::refusal,
     kReplies,
     {"objective.name=grpo", "objective.reward.command=true"},
     "objective-needs-reward"},
    {"objective.reward.timeout",
     "0",
     Shows::refusal,
     kReplies,
     {"objective.name=grpo", "objective.reward.command=true"},
     "out-of-range"},
    {"data.path", "b.txt", Shows::batches},
    {"data.mix", "{one: {path: a.txt, weight: 3}, two: b.txt}", Shows::batches, kMixed},
    {"data.mix", "{one: a.txt, two: {path: b.txt, epochs: 1}}", Shows::emitted, kMixed},
    {"data.mix", "{one: a.txt, two: c.jsonl}", Shows::run, kMixed},
    {"data.mix", "{one: a.txt}", Shows::refusal, kSeries, {}, "mix-unsupported"},
    {"data.val", "{one: b.txt}", Shows::batches},
    {"data.val", "{one: b.txt}", Shows::emitted},
    {"data.val", "{one: b.txt}", Shows::run},
    {"data.format",
     "auto",
     Shows::refusal,
     kTokens,
     {"data.path=raw.bin", "data.format=uint16", "data.tokenizer=byte"},
     "data"},
    {"data.tokenizer", "char", Shows::batches},
    {"data.val_fraction", "0.3", Shows::batches},
    {"data.val_path", "b.txt", Shows::batches},
    {"data.text_key", "other", Shows::batches, kTokens, {"data.path=c.jsonl"}},
    {"data.document_mask", "false", Shows::program, kTokens, {"data.path=c.jsonl"}},
    {"data.document_mask", "false", Shows::batches, kTokens, {"data.path=c.jsonl"}},
    {"data.format", "chat", Shows::batches, kTokens, {"data.path=c.jsonl", "train.sequence_len=128"}},
    {"data.train_on", "all", Shows::batches, kTokens, {"data.path=pairs.jsonl", "data.format=chat"}},
    {"data.chat_template",
     "chatml",
     Shows::refusal,
     kTokens,
     {"data.path=pairs.jsonl", "data.format=chat"},
     "data"},
    {"data.train_on", "last", Shows::batches, kChat},
    {"data.chat_template", "none", Shows::refusal, kChat, {}, "data"},
    {"data.chat_template_jinja", "other.jinja", Shows::batches, kChat},
    {"data.chat_template_kwargs", "{name: Ann}", Shows::batches, kChat},
    {"data.chat_template_kwargs", "{nme: Ann}", Shows::refusal, kChat, {}, "data"},
    {"data.chat_date", "2026-11-28", Shows::batches, kChat},
    {"data.chat_date", "2026-02-30", Shows::refusal, kChat, {}, "unknown-value"},
    {"data.fields",
     "{prompt: completion, completion: prompt}",
     Shows::batches,
     kTokens,
     {"data.path=pairs.jsonl", "data.format=chat"}},
    {"data.fields", "{promt: completion}", Shows::refusal, kChat, {}, "unknown-key"},
    {"data.too_long", "cut", Shows::batches, kTokens, {"data.path=pairs.jsonl", "data.format=chat"}},
    {"data.shuffle", "false", Shows::batches},
    {"data.shuffle", "false", Shows::batches, kSeries},
    {"data.curriculum.steps", "4", Shows::batches},
    {"data.curriculum.steps", "4", Shows::emitted},
    {"data.curriculum.steps", "4", Shows::run},
    {"data.curriculum.steps", "4", Shows::refusal, kSeries, {}, "curriculum-unsupported"},
    {"data.curriculum.start", "0.5", Shows::batches, kTokens, {"data.curriculum.steps=8"}},
    {"data.curriculum.by",
     "rarity",
     Shows::batches,
     kTokens,
     {"data.path=pairs.jsonl", "data.format=chat", "data.curriculum.steps=8"}},
    {"data.curriculum.by",
     "rarity",
     Shows::refusal,
     kTokens,
     {"data.curriculum.steps=8"},
     "curriculum-unsupported"},
    {"data.cache_dir", "elsewhere", Shows::batches},
    {"data.features", "[b, a]", Shows::batches, kSeries},
    {"data.target", "[up]", Shows::batches, kSeries},
    {"train.sequence_len", "8", Shows::batches},
    {"train.sequence_warmup.start",
     "8",
     Shows::batches,
     kTokens,
     {"train.sequence_warmup={start: 4, steps: 6}"}},
    {"train.sequence_warmup.start",
     "16",
     Shows::refusal,
     kTokens,
     {"train.sequence_warmup={start: 4, steps: 6}"},
     "sequence-warmup-start"},
    {"train.sequence_warmup.steps", "6", Shows::program, kTokens, {"train.sequence_warmup.start=4"}},
    {"train.sequence_warmup.steps", "6", Shows::batches, kTokens, {"train.sequence_warmup.start=4"}},
    {"train.sequence_warmup.steps", "6", Shows::run, kTokens, {"train.sequence_warmup.start=4"}},
    {"train.sequence_warmup.steps", "6", Shows::emitted, kHopper},
    {"train.global_batch_size", "4"},
    {"train.global_batch_tokens", "64"},
    {"train.micro_batch_size", "3", Shows::batches},
    {"train.gradient_accumulation_steps", "2"},
    {"train.gradient_accumulation_steps", "2", Shows::run},
    {"train.max_steps", "6", Shows::run},
    {"train.epochs", "0.5", Shows::run},
    {"train.freeze", "model.embed_tokens.weight"},
    {"train.optimizer.name", "lion"},
    {"train.optimizer.learning_rate", "0.01"},
    {"train.optimizer.learning_rate", "auto"},
    {"train.optimizer.betas", "[0.8, 0.9]"},
    {"train.optimizer.eps", "1.0e-6"},
    {"train.optimizer.weight_decay", "0.3"},
    {"train.optimizer.momentum", "0.5", Shows::program, kTokens, {"train.optimizer.name=sgd"}},
    {"train.lr_scheduler.name", "linear"},
    {"train.lr_scheduler.warmup_steps", "2"},
    {"train.lr_scheduler.min_ratio", "0.3"},
    {"train.lr_scheduler.decay_steps", "3"},
    {"train.lr_scheduler.name", "adaptive"},
    {"train.lr_scheduler.patience", "7", Shows::program, kTokens, {"train.lr_scheduler.name=adaptive"}},
    {"train.lr_scheduler.threshold", "0.01", Shows::program, kTokens, {"train.lr_scheduler.name=adaptive"}},
    {"train.lr_scheduler.factor", "0.3", Shows::program, kTokens, {"train.lr_scheduler.name=adaptive"}},
    {"train.loss", "mse", Shows::refusal, kTokens, {}, "loss-needs-head"},
    {"train.max_grad_norm", "0.5"},
    {"train.label_smoothing", "0.1"},
    {"train.seed", "7"},
    {"train.seed", "7", Shows::batches},
    {"train.eval_steps", "2", Shows::run},
    {"train.eval_batches", "4", Shows::run},
    {"train.save_steps", "2", Shows::run},
    {"train.save_minutes", "1.0e-9", Shows::run},
    {"train.save_best", "true", Shows::run},
    {"train.save_total_limit", "1", Shows::run, kTokens, {"train.save_steps=2"}},
    {"train.log_steps", "3", Shows::run},
    {"train.cpu_affinity",
     "[0-1]",
     Shows::program,
     kTokens,
     {"optimizations.threads=0", "train.cpu_affinity=0"}},
    {"train.cpu_affinity", "[0-1]", Shows::emitted},
    {"optimizations.precision", "fp16", Shows::program, kHopper},
    {"optimizations.precision", "fp8", Shows::program, kHopper, {"optimizations.fp8_matmuls=all"}},
    {"optimizations.fp8_matmuls", "all", Shows::program, kHopper, {"optimizations.precision=fp8"}},
    {"optimizations.fp8_head",
     "true",
     Shows::program,
     kHopper,
     {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all"}},
    {"optimizations.fp8_attention",
     "true",
     Shows::program,
     kHopper,
     {"optimizations.precision=fp8", "optimizations.fp8_matmuls=all"}},
    {"optimizations.fp8_attention", "true", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.residual", "compute", Shows::program, kHopper},
    {"optimizations.weights", "bf16", Shows::program, kHopper},
    {"optimizations.gradients", "compute", Shows::program, kHopper},
    {"optimizations.attention", "generated", Shows::program, kHopper, {"target=a100"}},
    {"optimizations.attention_tiles.forward", "128x64", Shows::program, kHopper},
    {"optimizations.attention_tiles.dq", "64x128", Shows::program, kHopper},
    {"optimizations.attention_tiles.dkv", "128x64", Shows::program, kHopper},
    {"optimizations.attention_tiles.dkv", "64x64", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.own_matmuls", "[mlp.up]", Shows::program, kHopper, {"optimizations.fused_matmuls=none"}},
    {"optimizations.own_matmuls", "[mlp.up]", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.library_matmuls",
     "[mlp.up]",
     Shows::program,
     kHopper,
     {"optimizations.fused_matmuls=all"}},
    {"optimizations.fused_matmuls", "all", Shows::program, kHopper, {"optimizations.fused_matmuls=none"}},
    {"optimizations.loss",
     "fused_linear",
     Shows::program,
     kTokens,
     {"model.vocab_size=50000", "train.micro_batch_size=64"}},
    {"optimizations.recompute", "block"},
    {"optimizations.recompute_layers",
     "1",
     Shows::program,
     kTokens,
     {"optimizations.recompute=block", "model.num_hidden_layers=2"}},
    {"optimizations.recompute_layers", "2", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.optimizer_state", "bf16", Shows::program, kHopper},
    {"optimizations.optimizer_state", "int8", Shows::program, kTokens, {"model.vocab_size=500"}},
    {"optimizations.embedding_state",
     "fp32",
     Shows::program,
     kTokens,
     {"model.vocab_size=500", "optimizations.optimizer_state=int8"}},
    {"optimizations.memory_limit",
     "0.002",
     Shows::program,
     kTokens,
     {"optimizations.recompute=auto", "model.num_hidden_layers=4", "train.micro_batch_size=64"}},
    {"optimizations.fit",
     "auto",
     Shows::program,
     kTokens,
     {"optimizations.memory_limit=0.01", "model.num_hidden_layers=4", "train.micro_batch_size=64"}},
    {"optimizations.exact_accumulation",
     "true",
     Shows::program,
     kHopper,
     {"train.gradient_accumulation_steps=2"}},
    {"optimizations.exact_accumulation", "false", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.offload.activations",
     "true",
     Shows::emitted,
     kHopper,
     {"train.micro_batch_size=64", "optimizations.recompute=none"}},
    {"optimizations.offload.activations", "true", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.offload.optimizer_state", "true", Shows::emitted, kHopper},
    {"optimizations.offload.optimizer_state", "0.5", Shows::emitted, kHopper},
    {"optimizations.offload.weights", "1", Shows::emitted, kHopper},
    {"optimizations.offload.weights", "1", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.offload.optimizer_state", "true", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.cuda_graph", "true", Shows::refusal, kTokens, {}, "option-unsupported"},
    {"optimizations.cuda_graph", "false", Shows::emitted, kHopper},
    {"optimizations.streams", "1", Shows::program, kHopper},
    {"optimizations.threads", "2"},
    {"parallel.data", "2"},
    {"parallel.data", "2", Shows::program, kHopper},
    {"parallel.tensor", "2"},
    {"parallel.tensor", "2", Shows::program, kHopper},
    {"parallel.tensor", "2", Shows::program, kHopper, {"optimizations.precision=fp16"}},
    {"parallel.tensor", "2", Shows::emitted, kTokens, {"parallel.data=2"}},
    {"parallel.tensor", "2", Shows::emitted, kHopper, {"parallel.data=2", "parallel.zero=1"}},
    {"parallel.tensor",
     "2",
     Shows::program,
     kHopper,
     {"optimizations.weights=bf16", "optimizations.optimizer_state=bf16"}},
    {"parallel.tensor", "4", Shows::refusal, kTokens, {"model.intermediate_size=126"}, "tensor-divides"},
    {"parallel.tensor",
     "2",
     Shows::refusal,
     kTokens,
     {"parallel.data=2", "parallel.zero=2"},
     "tensor-unsupported"},
    {"parallel.zero", "1", Shows::program, kTokens, {"parallel.data=2"}},
    {"parallel.zero", "1", Shows::program, kHopper, {"parallel.data=2"}},
    {"parallel.zero", "2", Shows::program, kTokens, {"parallel.data=2"}},
    {"parallel.zero", "2", Shows::program, kHopper, {"parallel.data=2"}},
    {"parallel.zero", "3", Shows::program, kTokens, {"parallel.data=2"}},
    {"parallel.zero", "3", Shows::program, kHopper, {"parallel.data=2"}},
    {"parallel.zero",
     "3",
     Shows::refusal,
     kTokens,
     {"parallel.data=2", "adapter.type=lora", "adapter.base=nf4"},
     "zero-unsupported"},
    {"parallel.zero", "1", Shows::program, kTokens, {"parallel.data=2", "train.optimizer.name=muon"}},
    {"parallel.exchange", "nccl", Shows::emitted, kHopper, {"parallel.data=2"}},
    {"parallel.exchange", "copies", Shows::emitted, kHopper, {"parallel.data=2"}},
    {"parallel.exchange",
     "copies",
     Shows::refusal,
     kTokens,
     {"target=h100", "parallel.data=2", "optimizations.offload.activations=true"},
     "option-unsupported"},
    {"sample.prompt", "12", Shows::run},
    {"sample.max_new_tokens", "10", Shows::run},
    {"sample.temperature", "0", Shows::run},
    {"sample.top_k", "1", Shows::run},
    {"sample.top_p", "0.01", Shows::run},
    {"sample.min_p", "0.99", Shows::run},
    {"sample.repetition_penalty", "5", Shows::run},
    {"sample.stop", "[\"1\", \"2\", \"3\"]", Shows::run},
    {"sample.seed", "7", Shows::run},
    {"sample.cache_memory", "0.00002", Shows::generation},
    {"profile.start", "3", Shows::run, kTokens, {"profile.steps=2", "train.max_steps=12"}},
    {"profile.steps", "2", Shows::run, kTokens, {"profile.start=3"}},
    {"tune.numerics", "true", Shows::tuning, kHopper},
    {"output.dir", "elsewhere/run", Shows::run},
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.key << ": " << c.other;
}

class EveryKey : public testing::TestWithParam<Case> {};

TEST_P(EveryKey, ChangesWhatIsMadeOrIsRefused) {
  const Case& c = GetParam();
  std::string yaml = c.base;
  std::vector<std::string> overrides = c.with;
  const std::string before = evidence(c.shows, c.base, c.with);
  if (c.key == "extends")  // is no override
    yaml = "extends: " + c.other + "\n" + yaml;
  else
    overrides.push_back(c.key + "=" + c.other);
  const std::string after = evidence(c.shows, yaml, overrides);
  if (c.shows == Shows::refusal) {
    EXPECT_EQ(before, "");
    EXPECT_EQ(after, c.refused + " ");
    return;
  }
  EXPECT_EQ(evidence(c.shows, c.base, c.with), before) << "differs by itself";
  EXPECT_NE(after, before) << c.key << ": " << c.other << " changes nothing";
}

INSTANTIATE_TEST_SUITE_P(Keys, EveryKey, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.key + "_" + std::to_string(info.index);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST_P(EveryKey, IsPrintedAsASpecThatIsAccepted) {
  const Case& c = GetParam();
  if (c.shows == Shows::refusal || c.key == "extends") return;
  std::vector<std::string> overrides = c.with;
  overrides.push_back(c.key + "=" + c.other);
  const auto [once, twice] = printed(c.base, overrides);
  EXPECT_EQ(twice, once);
}

TEST(KeyCases, AreThereForEveryKey) {
  std::set<std::string> tried;
  for (const Case& c : kCases) tried.insert(c.key);
  for (const spec::KeyRow& row : spec::key_rows())
    EXPECT_EQ(tried.erase(row.path), 1u) << row.path << " has no case that shows what it does";
  EXPECT_EQ(tried, std::set<std::string>()) << "no keys";
}

}  // namespace
}  // namespace hydrac::test
