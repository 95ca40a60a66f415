// Refusals for what the target cannot do.
#include <fmt/format.h>

#include <string>

#include "diag/suggest.h"
#include "spec/checks/attention_tiles.h"
#include "spec/checks/check.h"
#include "spec/checks/fp8_attention.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

using diag::Kind;
using targets::Target;

bool has(const Target& target, Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return true;
    case Precision::tf32:
      return target.has_tf32();
    case Precision::bf16:
      return target.has_bf16();
    case Precision::fp16:
      return target.has_fp16();
    case Precision::fp8:
      return target.has_fp8();
  }
  return false;
}

void check_precision(Draft& draft, const Target& target) {
  const Precision precision = draft.spec.optimizations.precision;
  if (!draft.usable({"optimizations.precision"}) || has(target, precision)) return;
  const char* instead = target.is_cpu() || precision == Precision::tf32 ? "fp32"
                        : target.has_bf16()                             ? "bf16"
                                                                        : "fp16";
  draft.report(Kind::precision_unsupported, {"optimizations.precision", "target"},
               fmt::format("{} has no {}", target.name, to_string(precision)),
               fmt::format("write {}", instead));
}

void refuse(Draft& draft, std::string_view path, std::string_view value, std::string_view instead) {
  draft.report(Kind::option_unsupported, {path, "target"},
               fmt::format("{}: {} is not possible on cpu", path, value), fmt::format("write {}", instead));
}

using Tiles = SpecKeys::Optimizations::AttentionTiles;
struct TilesOfKernel {
  std::string_view path;
  TileShape Tiles::*shape;
  cuda::AttentionKernel kernel;
};
constexpr TilesOfKernel kTiles[] = {
    {"optimizations.attention_tiles.forward", &Tiles::forward, cuda::AttentionKernel::forward},
    {"optimizations.attention_tiles.dq", &Tiles::dq, cuda::AttentionKernel::query_gradients},
    {"optimizations.attention_tiles.dkv", &Tiles::dkv, cuda::AttentionKernel::key_gradients}};

// On several hosts too they are an error, but then of the run.
void check_exchange(Draft& draft) {
  const char* exchange = "parallel.exchange";
  const auto& spec = draft.spec;
  if (!draft.usable({exchange, "parallel.data"}) || spec.parallel.data == 1 ||
      spec.parallel.exchange != Exchange::copies)
    return;
  const auto report = [&](const char* other, const std::string& why) {
    draft.report(Kind::option_unsupported, {exchange, other}, why, "write exchange: nccl");
  };
  if (spec.parallel.data > kMostCopyingRanks)
    report("parallel.data",
           fmt::format("exchange: copies is for at most {} ranks, and there are {} (parallel.data)",
                       kMostCopyingRanks, spec.parallel.data));
  const auto& offload = spec.optimizations.offload;
  const std::pair<const char*, bool> offloads[] = {
      {"optimizations.offload.optimizer_state", offload.optimizer_state.any()},
      {"optimizations.offload.activations", offload.activations},
      {"optimizations.offload.weights", offload.weights > 0}};
  for (const auto& [key, is_used] : offloads)
    if (is_used && draft.usable({key}))
      report(key, "exchange: copies needs all memory on the GPU: ranks read the memory of each other");
}

void check_cpu(Draft& draft) {
  const auto& o = draft.spec.optimizations;
  if (draft.usable({"optimizations.attention"}) && o.attention == AttentionKernel::cudnn)
    refuse(draft, "optimizations.attention", "cudnn", "auto or generated");
  if (draft.usable({"optimizations.weights"}) && o.weights != WeightType::fp32)
    refuse(draft, "optimizations.weights", to_string(o.weights), "fp32");
  if (draft.usable({"optimizations.optimizer_state"}) && o.optimizer_state == StateType::bf16)
    refuse(draft, "optimizations.optimizer_state", "bf16", "fp32 or int8");
  if (draft.usable({"optimizations.offload.optimizer_state"}) && o.offload.optimizer_state.any())
    refuse(draft, "optimizations.offload.optimizer_state", "true", "false");
  if (draft.usable({"optimizations.offload.activations"}) && o.offload.activations)
    refuse(draft, "optimizations.offload.activations", "true", "false");
  if (draft.usable({"optimizations.offload.weights"}) && o.offload.weights > 0)
    refuse(draft, "optimizations.offload.weights", std::to_string(o.offload.weights), "0");
  if (draft.usable({"optimizations.cuda_graph"}) && o.cuda_graph)
    refuse(draft, "optimizations.cuda_graph", "true", "false");
  if (draft.usable({"optimizations.exact_accumulation"}) && !o.exact_accumulation)
    refuse(draft, "optimizations.exact_accumulation", "false", "true");
  if (draft.usable({"optimizations.streams"}) && o.streams > 1)
    refuse(draft, "optimizations.streams", "2", "1");
  if (draft.usable({"optimizations.fused_matmuls"}) && o.fused_matmuls == FusedMatmuls::all)
    refuse(draft, "optimizations.fused_matmuls", "all", "auto or none");
  for (const TilesOfKernel& kernel : kTiles) {
    const TileShape shape = o.attention_tiles.*kernel.shape;
    if (draft.usable({kernel.path}) && shape != TileShape::auto_)
      refuse(draft, kernel.path, to_string(shape), "auto");
  }
  if (draft.usable({"optimizations.own_matmuls"}) && !o.own_matmuls.empty())
    draft.report(Kind::option_unsupported, {"optimizations.own_matmuls", "target"},
                 "hydrac has no matmul kernel for the cpu", "remove it");
}

// Kernels on GPUs count a micro-batch's positions in 32 bits.
void check_batch(Draft& draft) {
  constexpr int64_t kMost = INT32_MAX;
  const auto& t = draft.spec.train;
  const int64_t batch = t.micro_batch_size;
  if (!draft.usable({"train.micro_batch_size", "train.sequence_len"}) || batch == 0 ||
      t.sequence_len <= kMost / batch)
    return;
  draft.report(
      Kind::batch_too_large, {"train.micro_batch_size", "train.sequence_len"},
      fmt::format("micro_batch_size ({}) times sequence_len ({}) is {} positions, and kernels on GPUs count "
                  "up to {}",
                  batch, t.sequence_len, batch * t.sequence_len, kMost),
      fmt::format("micro_batch_size can be {} at most", kMost / t.sequence_len));
}

void check_cudnn(Draft& draft, const Target& target) {
  const auto& o = draft.spec.optimizations;
  if (!draft.usable({"optimizations.attention"}) || o.attention != AttentionKernel::cudnn) return;
  if (!target.has_bf16())
    return draft.report(Kind::option_unsupported, {"optimizations.attention", "target"},
                        fmt::format("cuDNN has no fused attention for {} ({})", target.name, target.arch),
                        "write auto or generated");
  const auto& m = draft.spec.model;
  const auto not_by_cudnn = [&](std::string_view key, bool is_set, std::string_view instead = "") {
    if (draft.usable({key}) && is_set)
      draft.report(Kind::option_unsupported, {"optimizations.attention", key},
                   fmt::format("hydrac asks cuDNN for no {}", key),
                   fmt::format("write attention: auto or generated{}", instead));
  };
  not_by_cudnn("model.sliding_window", has_windows(draft.spec));
  not_by_cudnn("model.attention_softcap", m.attention_softcap > 0);
  not_by_cudnn("data.document_mask", draft.spec.data.document_mask, ", or document_mask: false");
  if (draft.usable({"train.sequence_warmup.steps"}) && warms_sequences_up(draft.spec))
    draft.report(Kind::option_unsupported, {"optimizations.attention", "train.sequence_warmup.steps"},
                 "hydrac asks cuDNN for no documents within a row, and sequence_warmup cuts rows into such",
                 "write attention: auto or generated, or remove sequence_warmup");
  if (draft.usable({"optimizations.precision"}) && computes_in_32_bits(o.precision))
    draft.report(Kind::cudnn_needs_half, {"optimizations.attention", "optimizations.precision"},
                 fmt::format("cuDNN's attention computes in half precision, and precision is {}",
                             to_string(o.precision)),
                 "write attention: auto, or precision: bf16");
}

// Matmuls read the weights themselves.
void check_weights(Draft& draft) {
  const auto& o = draft.spec.optimizations;
  if (!draft.usable({"optimizations.weights", "optimizations.precision"}) || o.weights == WeightType::fp32 ||
      o.precision == Precision::bf16 || o.precision == Precision::fp8)
    return;
  draft.report(
      Kind::weights_need_bf16, {"optimizations.weights", "optimizations.precision"},
      fmt::format("matmuls read bf16 weights as they are, and precision is {}", to_string(o.precision)),
      "write weights: fp32, or precision: bf16 or fp8");
}

// Our matmul kernel is Hopper's, for 16-bit numbers. `instead`: what to write.
void check_own_matmuls(Draft& draft, const Target& target, std::string_view path,
                       const std::string& instead) {
  if (target.capability != 90)
    return draft.report(Kind::option_unsupported, {path, "target"},
                        fmt::format("hydrac has no matmul kernel for {} ({})", target.name, target.arch),
                        instead);
  const Precision precision = draft.spec.optimizations.precision;
  if (draft.usable({"optimizations.precision"}) && computes_in_32_bits(precision))
    draft.report(
        Kind::option_unsupported, {path, "optimizations.precision"},
        fmt::format("hydrac's matmul kernel takes 16-bit numbers, and precision is {}", to_string(precision)),
        instead + ", or precision: bf16");
}

void check_matmuls(Draft& draft, const Target& target) {
  const auto& o = draft.spec.optimizations;
  if (draft.usable({"optimizations.fused_matmuls"}) && o.fused_matmuls == FusedMatmuls::all)
    check_own_matmuls(draft, target, "optimizations.fused_matmuls", "write auto or none");
  if (draft.usable({"optimizations.own_matmuls"}) && !o.own_matmuls.empty())
    check_own_matmuls(draft, target, "optimizations.own_matmuls", "remove it");
}

// Tiles are those of hydrac's kernels, and the GPU has to have room for them.
void check_tiles(Draft& draft) {
  const auto& o = draft.spec.optimizations;
  for (const TilesOfKernel& kernel : kTiles) {
    const TileShape shape = o.attention_tiles.*kernel.shape;
    if (!draft.usable({kernel.path, "optimizations.precision", "model.head_dim", "train.sequence_len",
                       "model.attention_dropout", "model.attention_softcap"}) ||
        shape == TileShape::auto_)
      continue;
    if (draft.usable({"optimizations.attention"}) && o.attention == AttentionKernel::cudnn) {
      draft.report(Kind::option_unsupported, {kernel.path, "optimizations.attention"},
                   "attention_tiles are those of hydrac's kernels, and attention is cudnn",
                   "write attention: generated or auto, or remove the tile");
      continue;
    }
    const std::string obstacle = tile_obstacle(draft.spec, kernel.kernel, shape);
    if (obstacle.empty()) continue;
    std::vector<std::string> words = possible_tiles(draft.spec, kernel.kernel);
    words.insert(words.begin(), "auto");
    draft.report(Kind::option_unsupported, {kernel.path, "target"}, obstacle,
                 fmt::format("write {}", diag::one_of(words)));
  }
}

void check_fp8_attention(Draft& draft) {
  constexpr const char* key = "optimizations.fp8_attention";
  if (!draft.usable({key, "model.head_dim"}) || !draft.spec.optimizations.fp8_attention) return;
  for (const Fp8AttentionObstacle& obstacle : fp8_attention_obstacles(draft.spec)) {
    if (draft.usable({obstacle.key}))
      draft.report(Kind::option_unsupported, {key, obstacle.key}, obstacle.what, obstacle.instead);
  }
}

void check_recompute(Draft& draft) {
  const char* key = "optimizations.recompute_layers";
  const int64_t wanted = draft.spec.optimizations.recompute_layers,
                layers = draft.spec.model.num_hidden_layers;
  if (!draft.usable({key, "model.num_hidden_layers"}) || wanted <= layers) return;
  draft.report(Kind::option_unsupported, {key, "model.num_hidden_layers"},
               fmt::format("recompute_layers is {}, and the model has {} layers", wanted, layers),
               fmt::format("write {} at most, or 0 for all", layers));
}

}  // namespace

void check_target(Draft& draft) {
  check_recompute(draft);
  if (!draft.usable({"target"})) return;
  const Target& target = *targets::find(draft.spec.target);
  check_precision(draft, target);
  check_fp8_attention(draft);
  if (target.is_cpu()) return check_cpu(draft);
  check_batch(draft);
  check_exchange(draft);
  check_cudnn(draft, target);
  check_weights(draft);
  check_matmuls(draft, target);
  check_tiles(draft);
}

}  // namespace hydrac::spec
