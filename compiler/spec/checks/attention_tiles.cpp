#include "spec/checks/attention_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "targets/target.h"

namespace hydrac::spec {

namespace {

using cuda::AttentionProblem;
using cuda::TileObstacle;

constexpr std::array kShapes = {TileShape::t64x32,  TileShape::t64x64,  TileShape::t64x128,
                                TileShape::t128x32, TileShape::t128x64, TileShape::t128x128};

cuda::TileShape sizes_of(TileShape shape) {
  switch (shape) {
    case TileShape::auto_:
      return {};
    case TileShape::t64x32:
      return {64, 32};
    case TileShape::t64x64:
      return {64, 64};
    case TileShape::t64x128:
      return {64, 128};
    case TileShape::t128x32:
      return {128, 32};
    case TileShape::t128x64:
      return {128, 64};
    case TileShape::t128x128:
      return {128, 128};
  }
  return {};
}

// The batch may not be known yet: which tiles are possible does not depend on it.
AttentionProblem problem_of(const SpecKeys& spec) {
  const Precision precision = spec.optimizations.precision;
  return {.capability = targets::find(spec.target)->capability,
          .element_bytes = computes_in_32_bits(precision) ? 4 : 2,
          .is_bf16 = precision == Precision::bf16 || precision == Precision::fp8,
          .has_dropout = spec.model.attention_dropout > 0,
          .batch = std::max<int64_t>(spec.train.micro_batch_size, 1),
          .tokens = spec.train.sequence_len,
          .heads = spec.model.num_attention_heads,
          .kv_heads = spec.model.num_key_value_heads,
          .head_dim = spec.model.head_dim,
          .causal = spec.model.attention_mask == AttentionMask::causal,
          .has_softcap = spec.model.attention_softcap > 0,
          .has_documents = reads_documents(spec)};
}

}  // namespace

cuda::AttentionTiles attention_tiles(const SpecKeys& spec) {
  const auto& tiles = spec.optimizations.attention_tiles;
  return {sizes_of(tiles.forward), sizes_of(tiles.dq), sizes_of(tiles.dkv)};
}

bool asks_for_tiles(const SpecKeys& spec) {
  const cuda::AttentionTiles tiles = attention_tiles(spec);
  return tiles.forward.is_given() || tiles.ask_for_pair();
}

bool has_kernel(const SpecKeys& spec, cuda::AttentionKernel kernel) {
  const AttentionProblem problem = problem_of(spec);
  return kernel == cuda::AttentionKernel::forward ||
         !(attention_owns_heads(problem) || attention_fuses_gradients(problem));
}

std::vector<std::string> possible_tiles(const SpecKeys& spec, cuda::AttentionKernel kernel) {
  const AttentionProblem problem = problem_of(spec);
  const AttentionTile now = cuda::attention_tile(problem, kernel);
  const bool is_used = has_kernel(spec, kernel);
  std::vector<std::string> words;
  for (const TileShape shape : kShapes) {
    const cuda::TileShape sizes = sizes_of(shape);
    const AttentionTile tile = cuda::detail::shaped_tile(problem, kernel, sizes);
    const bool is_now = is_used && tile.warps == now.warps && tile.row_tiles == now.row_tiles &&
                        tile.columns == now.columns && tile.blocks_per_sm == now.blocks_per_sm;
    if (!is_now && cuda::tile_obstacle(problem, kernel, sizes) == TileObstacle::none)
      words.emplace_back(to_string(shape));
  }
  return words;
}

std::string tile_obstacle(const SpecKeys& spec, cuda::AttentionKernel kernel, TileShape shape) {
  const AttentionProblem problem = problem_of(spec);
  const targets::Target& target = *targets::find(spec.target);
  switch (cuda::tile_obstacle(problem, kernel, sizes_of(shape))) {
    case TileObstacle::none:
      return "";
    case TileObstacle::kernel:
      return fmt::format("attention in {} on {} ({}) has kernels without a choice of tiles",
                         to_string(spec.optimizations.precision), target.name, target.arch);
    case TileObstacle::width:
      return fmt::format("{} takes 32 rows at a time, and the kernels of {} take 64 or 128", to_string(shape),
                         target.arch);
    case TileObstacle::registers:
      return fmt::format("{} with a head_dim of {} takes more registers than a thread has", to_string(shape),
                         spec.model.head_dim);
    case TileObstacle::shared:
      return fmt::format("{} with a head_dim of {} takes more shared memory than a block has on {} ({} KiB)",
                         to_string(shape), spec.model.head_dim, target.arch,
                         cuda::shared_bytes_of_block(target.capability) >> 10);
  }
  return "";
}

}  // namespace hydrac::spec
