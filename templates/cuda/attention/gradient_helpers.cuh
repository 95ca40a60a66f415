// The warps of attention_gradients that serve those which compute: two load tiles, a thread of the third
// waits for the block's turn to add to a tile of d_q, one of the fourth passes the turn on.
#pragma once
#include "cuda/attention/gradient_order.cuh"
#include "cuda/attention/gradient_shared.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/stream.cuh"

namespace hydrac::cuda {

// Places of what a block's warps share.
template <class Config>
struct GradientTypes {
  using Shared =
      GradientShared<Config::rows, Config::columns, Config::head_dim, Config::stages, Config::warps>;
};

// Two warps, one for k, q and lse2, the other for v, d_out and delta: copy them to shared memory, as far
// ahead as there is room. The first one takes the pieces of work. Threads wait for their own copies and make
// them visible to matmuls, so that those who multiply need not: a tile is announced when the next one's
// copies have begun.
template <class Config>
__device__ __forceinline__ void load_gradient_tiles(const AttentionShape& shape,
                                                    const typename GradientTypes<Config>::Shared& shared,
                                                    const GradientWorkspace& workspace,
                                                    Heads<const typename Config::Storage> keys,
                                                    Heads<const typename Config::Storage> queries,
                                                    bool is_second) {
  constexpr int columns = Config::columns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto announce = [](std::uint32_t barrier) {
    ptx::fence_shared_memory();
    barrier::arrive(barrier);
  };
  int count = 0;
  for (int piece = 0;; ++piece) {
    barrier::wait(shared.piece_empty(piece), piece / 2 - 1);
    if (!is_second && lane == 0) {
      const int taken = static_cast<int>(atomicAdd(workspace.next_piece, 1u));
      const int number = taken < GradientPiece::count(shape) ? taken : -1;
      ptx::store_shared(shared.number(piece), static_cast<std::uint32_t>(number));
      barrier::arrive(shared.piece_full(piece));
    }
    barrier::block_sync<64>(1);  // the number is there for the other warp
    const int number = shared.read_number(piece);
    if (number < 0) {
      barrier::arrive(shared.piece_full(piece));
      break;
    }
    const GradientPiece work = GradientPiece::of<typename Config::Mask>(shape, number);
    GradientTile tile = work.first;
    start_rows<Config::rows>(is_second ? shared.values(piece) : shared.keys(piece),
                             keys.at(tile.batch, tile.first_key(), tile.kv_head), keys.token_stride,
                             valid_rows<Config::rows>(shape.tokens, tile.first_key()));
    ptx::commit_copies();
    for (int i = 0; i < work.tiles; ++i, ++count) {
      barrier::wait(shared.tile_empty(count), count / Config::stages - 1);
      const int query = tile.first_query(), valid = valid_queries(shape.tokens, query);
      start_rows<columns>(is_second ? shared.d_outs(count) : shared.queries(count),
                          queries.at(tile.batch, query, tile.head), queries.token_stride, valid);
      const QueryTerms* from = workspace.terms + static_cast<std::int64_t>(tile.row(shape)) * shape.tokens;
#pragma unroll
      for (int first = 0; first < columns; first += 32) {
        const int column = first + lane;
        const QueryTerms* term = from + (column < valid ? query + column : 0);
        ptx::copy_to_shared<4>(shared.terms(count) + ((is_second ? columns : 0) + column) * 4,
                               is_second ? &term->delta : &term->lse2, column < valid);
      }
      ptx::commit_copies();
      ptx::wait_copies<1>();
      announce(i == 0 ? shared.piece_full(piece) : shared.tile_full(count - 1));
      tile.advance(shape);
    }
    ptx::wait_copies<0>();
    announce(shared.tile_full(count - 1));
  }
}

// Calls visit(count, tile) for each tile of the block's pieces.
template <class Config, class Visit>
__device__ __forceinline__ void for_gradient_tiles(const AttentionShape& shape,
                                                   const typename GradientTypes<Config>::Shared& shared,
                                                   Visit&& visit) {
  int count = 0;
  for (int piece = 0;; ++piece) {
    barrier::wait(shared.piece_full(piece), piece / 2);
    const int number = shared.read_number(piece);
    if (number < 0) break;
    const GradientPiece work = GradientPiece::of<typename Config::Mask>(shape, number);
    GradientTile tile = work.first;
    for (int i = 0; i < work.tiles; ++i, ++count) {
      visit(count, tile);
      tile.advance(shape);
    }
    barrier::arrive(shared.piece_empty(piece));
  }
}

// Waits until the blocks of keys before this one have added to a tile. For the last one it fetches their sum.
template <class Config>
__device__ __forceinline__ void wait_for_turns(const AttentionShape& shape,
                                               const typename GradientTypes<Config>::Shared& shared,
                                               const GradientWorkspace& workspace) {
  for_gradient_tiles<Config>(shape, shared, [&](int count, const GradientTile& tile) {
    using Mask = typename Config::Mask;
    const int turn = tile.block - tile.template first_block<Mask>(shape);
    const bool takes_sum = turn > 0 && tile.block == tile.template last_block<Mask>(shape);
    // There are four barriers, and two places for sums.
    const int free = takes_sum ? count + 2 : count;
    barrier::wait(shared.has_passed_on(free), free / 4 - 1);
    const std::int64_t index = tile.index(shape);
    // Ends: pieces are taken in the order in which they add. So the one that is waited for was taken before,
    // by a block that runs and waits for still earlier ones only.
    while (ptx::load_acquire(workspace.turns + index) != static_cast<unsigned>(turn)) {
    }
    if (takes_sum) {
      constexpr int bytes = GradientTypes<Config>::Shared::kSumBytes;
      ptx::fence_async_proxy();
      barrier::arrive_with_copy(shared.has_turn(count), shared.sum(count),
                                workspace.sums + index * (bytes / 4), bytes);
    } else {
      barrier::arrive(shared.has_turn(count));
    }
  });
}

// Once this block has added to a tile, it is the turn of the next block of keys.
template <class Config>
__device__ __forceinline__ void pass_turns_on(const AttentionShape& shape,
                                              const typename GradientTypes<Config>::Shared& shared,
                                              const GradientWorkspace& workspace) {
  for_gradient_tiles<Config>(shape, shared, [&](int count, const GradientTile& tile) {
    barrier::wait(shared.has_added(count), count / 4);
    const int turn = tile.block - tile.template first_block<typename Config::Mask>(shape);
    ptx::store_release(workspace.turns + tile.index(shape), static_cast<unsigned>(turn + 1));
    barrier::arrive(shared.has_passed_on(count));
  });
}

}  // namespace hydrac::cuda
