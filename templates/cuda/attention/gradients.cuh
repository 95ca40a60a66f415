// Attention's backward in one kernel on Hopper: d_q, d_k and d_v, with scores and d_out v^T computed once.
// With P the probabilities, p = d_out v^T and delta = rowsum(d_out * out):
//   d_v = P^T d_out,  d_s = P * (p - delta),  d_q = scale * d_s k,  d_k = scale * d_s^T q.
//
// A block has two warpgroups that compute, each with 64 of the block's keys, and four warps that serve them.
// Matmuls are transposed (k q^T), so that what one leaves in registers is what the next takes; d_s goes
// through shared memory, because d_q sums over the keys of both. The warpgroups take turns: while one's
// matmuls run, the other makes probabilities.
#pragma once
#include "cuda/attention/gradient_helpers.cuh"
#include "cuda/attention/matmul.cuh"
#include "cuda/attention/transposed_scores.cuh"

namespace hydrac::cuda {

// Outputs of gradients.
template <class Storage>
struct GradientOutputs {
  Heads<Storage> d_q, d_k, d_v;
  float* query_sums;  // GradientWorkspace::sums
};

// A tile on its way through the matmuls: scores first, then d_k and d_v, then d_q.
struct TileInWork {
  bool exists, is_first, is_last;  // of its piece
  int piece;
  GradientTile tile;
};

// One of the two warpgroups that compute.
template <class Config>
class GradientWarpgroup {
 public:
  using Storage = typename Config::Storage;
  using Matmul = WgmmaMatmul<Storage, Config::rows, Config::head_dim>;
  using Shared = typename GradientTypes<Config>::Shared;

  __device__ __forceinline__ GradientWarpgroup(const AttentionShape& shape, const Shared& shared,
                                               const GradientOutputs<Storage>& to)
      : shape_(shape), shared_(shared), to_(to), own_(place_.warp / 4), in_group_(place_) {
    in_group_.warp = place_.warp % 4;
    Matmul::round(weights_, Fragment<1, kColumns>{});
    Matmul::round(d_weights_, Fragment<1, kColumns>{});
  }

  // Takes the tiles of all pieces. In round n the matmuls of three tiles run: scores of tile n, d_k and d_v
  // of the one before, d_q of the one before that.
  __device__ __forceinline__ void run(const AttentionDropout& dropout) {
    TileInWork now{}, before{}, oldest{};
    int left = 0, piece = -1;
    bool more = true;
    if (own_ == 1) barrier::block_arrive<Config::threads>(kMyMatmuls);
#pragma unroll 1
    for (int count = 0; count == 0 || now.exists || before.exists; ++count) {
      oldest = before, before = now;
      if (left > 0) {
        now.is_first = false;
        now.tile.advance(shape_);
      } else if (more) {
        ++piece;
        barrier::wait(shared_.piece_full(piece), piece / 2);
        const int number = shared_.read_number(piece);
        more = number >= 0;
        if (more) {
          const GradientPiece work = GradientPiece::of<typename Config::Mask>(shape_, number);
          now = {true, true, false, piece, work.first};
          left = work.tiles;
        }
      }
      now.exists = more;
      if (more) {
        now.is_last = --left == 0;
        barrier::wait(shared_.tile_full(count), count / Config::stages);
      }
      // Its turn: the other warpgroup has begun its round's matmuls.
      barrier::block_sync<Config::threads>(kMyMatmuls + own_);
      begin_matmuls(count, now, before, oldest);
      // The last round of the second has no other behind it.
      if (own_ == 0 || now.exists || before.exists)
        barrier::block_arrive<Config::threads>(kMyMatmuls + 1 - own_);
      Terms lse2;  // on their way while the matmuls run
      lse2.load(shared_.terms(count), in_group_);
      wgmma::wait<2>();  // scores, value sums and gradients
      make_d_scores(count, now, lse2, dropout);
      Matmul::wait_for_all_but_last();  // key sums: their operand's registers are needed
      Matmul::round(d_weights_, gradients_);
      store_d_scores(count);
      Matmul::wait_for_all();
      if (place_.lane == 0) {
        if (before.exists) barrier::arrive(shared_.tile_empty(count - 1));
        if (oldest.exists && oldest.is_last) barrier::arrive(shared_.piece_empty(oldest.piece));
      }
      if (oldest.exists) add_query_sum(count - 2, oldest.tile);
      if (before.exists && before.is_last) store_key_sums(before.tile, dropout);
    }
  }

 private:
  using Terms = ColumnTerms<Config::columns>;
  static constexpr int kColumns = Config::columns, kDim = Config::head_dim;
  static constexpr int kMyMatmuls = 2;  // and 3: the block's barriers at which warpgroups wait for their turn

  // Inputs of masks and score rules.
  __device__ __forceinline__ const SequenceShape& sequence() const {
    return shape_;
  }

  // Without a tile there, the matmuls of that place are not used: the first tile of a piece overwrites its
  // sums.
  __device__ __forceinline__ void begin_matmuls(int count, const TileInWork& now, const TileInWork& before,
                                                const TileInWork& oldest) {
    Matmul::fence_operands(value_sums_);
    Matmul::fence_operands(key_sums_);
    Matmul::begin();
    Matmul::scores(scores_, place_, shared_.keys(now.piece), shared_.queries(count));
    Matmul::commit();
    Matmul::accumulate(value_sums_, place_, weights_, shared_.d_outs(count - 1), !before.is_first);
    Matmul::commit();
    Matmul::scores(gradients_, place_, shared_.values(now.piece), shared_.d_outs(count));
    Matmul::commit();
    Matmul::accumulate(key_sums_, place_, d_weights_, shared_.queries(count - 1), !before.is_first);
    Matmul::commit();
    // d_s k, half of the columns.
#pragma unroll
    for (int k = 0; k < Config::rows / 16; ++k) {
      const int panel = k / 4 * (kColumns * 128), column_bytes = k % 4 * 32;
      wgmma::multiply_rows<Storage, kDim / 2>(
          query_sum_.at[0], wgmma::descriptor(shared_.d_scores(count - 2), 0, panel + column_bytes),
          wgmma::descriptor(shared_.keys(oldest.piece) + own_ * kDim, 0, k * 16 * 128), k > 0);
    }
    Matmul::commit();
  }

  // From scores and d_out v^T to probabilities, rounded, and d_s. Zeros where no query sees a key of the
  // warpgroup, such as the second one's last tile of a piece under the causal mask. Its matmuls run all the
  // same; left out by a branch, the kernel was as fast (-0.5% to +1.5% on an H200).
  __device__ __forceinline__ void make_d_scores(int count, const TileInWork& now, const Terms& lse2,
                                                const AttentionDropout& dropout) {
    Matmul::fence_operands(scores_);
    Matmul::fence_operands(gradients_);
    const int query = now.tile.first_query(), own_key = now.tile.first_key() + own_ * 64;
    if (!now.exists ||
        !sees_any<typename Config::Mask>(sequence(), {query, query + kColumns}, {own_key, own_key + 64})) {
      scores_.clear();
      gradients_.clear();
      Matmul::round(weights_, scores_);
      return;
    }
    const TransposedTile<Config> tile{in_group_, now.tile.row(shape_), own_key, query};
    Fragment<1, kColumns> value_weights;
    tile.make_probabilities(
        scores_, value_weights, lse2, sequence(), dropout,
        !sees_all<typename Config::Mask>(sequence(), {query, query + kColumns}, {own_key, own_key + 64}));
    Matmul::round(weights_, value_weights);
    Terms delta;
    delta.load(shared_.terms(count) + kColumns * 4, in_group_);
    tile.make_d_scores(gradients_, scores_, delta, dropout);
  }

  // The warpgroup's panel of d_s, queries as rows.
  __device__ __forceinline__ void store_d_scores(int count) {
    store_transposed(shared_.d_scores(count) + own_ * (kColumns * 128), in_group_, d_weights_.at[0]);
    Matmul::publish_tiles();
  }

  // Adds the warpgroup's half of a tile's d_q to the sum in memory, when it is the block's turn. The first
  // block of keys that the queries see stores, the last one adds the sum to its own and writes d_q.
  __device__ __forceinline__ void add_query_sum(int count, const GradientTile& tile) {
    Matmul::fence_operands(query_sum_);
    barrier::wait(shared_.has_turn(count), count / 4);
    const int thread = own_ * (kColumns * kDim / 2) + static_cast<int>(threadIdx.x) % 128 * 4;
    const bool is_first = tile.block == tile.template first_block<typename Config::Mask>(shape_);
    if (tile.block < tile.template last_block<typename Config::Mask>(shape_)) {
      float* to = to_.query_sums + tile.index(shape_) * (kColumns * kDim) + thread;
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        const float(&x)[4] = query_sum_.at[0][n];
        if (!is_first) {
          ptx::add_to_memory(to + n * 512, x);
        } else {
          store(to + n * 512, Vector<float, 4>{{x[0], x[1], x[2], x[3]}});
        }
      }
    } else {
      if (!is_first) {
#pragma unroll
        for (int n = 0; n < kDim / 16; ++n) {
          const auto sum = ptx::load_shared<4>(shared_.sum(count) + (thread + n * 512) * 4);
#pragma unroll
          for (int e = 0; e < 4; ++e) query_sum_.at[0][n][e] += float_from_bits(sum.at[e]);
        }
      }
      store_rows<Config::head_dim>(to_.d_q.at(tile.batch, tile.first_query(), tile.head),
                                   to_.d_q.token_stride, valid_queries(shape_.tokens, tile.first_query()),
                                   in_group_, own_ * (kDim / 2), query_sum_, shape_.scale);
    }
    __syncwarp();  // all lanes have added before the warp says so
    if (place_.lane == 0) barrier::arrive(shared_.has_added(count));
  }

  // d_k and d_v of a piece's keys.
  __device__ __forceinline__ void store_key_sums(const GradientTile& tile, const AttentionDropout& dropout) {
    Matmul::fence_operands(key_sums_);
    Matmul::fence_operands(value_sums_);
    const int first = tile.first_key(), valid = valid_rows<Config::rows>(shape_.tokens, first);
    const float value_scale = Config::has_dropout ? dropout.keep_scale : 1.0f;
    store_rows<Config::head_dim>(to_.d_k.at(tile.batch, first, tile.kv_head), to_.d_k.token_stride, valid,
                                 place_, 0, key_sums_, shape_.scale);
    store_rows<Config::head_dim>(to_.d_v.at(tile.batch, first, tile.kv_head), to_.d_v.token_stride, valid,
                                 place_, 0, value_sums_, value_scale);
  }

  const AttentionShape& shape_;
  const Shared& shared_;
  const GradientOutputs<Storage>& to_;
  Place place_;     // in the block's tile
  int own_;         // which of the two
  Place in_group_;  // in the warpgroup's
  Fragment<1, kColumns> scores_, gradients_;
  Fragment<1, kDim> key_sums_, value_sums_;
  Fragment<1, kDim / 2> query_sum_;
  WeightsOf<Matmul, kColumns> weights_, d_weights_;
};

// Beside the threads that compute, a warpgroup that serves them.
template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_gradients() {
  using Shared = typename GradientTypes<Config>::Shared;
  static_assert(Shared::bytes() == detail::gradients_shared_bytes(Config::tile), "as it is planned");
  return {Config::rows, Config::threads + 128, Shared::bytes()};
}

// Runs behind attention_query_terms with the same workspace (cuda/attention/geometry.h has the launch and the
// bytes). Writes all of d_q, d_k and d_v. A multiprocessor has one block: its 65536 registers are 256
// computing threads of 232 and 128 serving ones of 40.
template <class Config>
__device__ __forceinline__ void attention_gradients(
    const AttentionShape& shape, Heads<const typename Config::Storage> q,
    Heads<const typename Config::Storage> k, Heads<const typename Config::Storage> v,
    Heads<const typename Config::Storage> d_out, Heads<typename Config::Storage> d_q,
    Heads<typename Config::Storage> d_k, Heads<typename Config::Storage> d_v, void* memory,
    const AttentionDropout& dropout) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const typename GradientTypes<Config>::Shared shared{ptx::shared_address(shared_memory)};
  const GradientWorkspace workspace(shape, memory);
  if (threadIdx.x == 0) {
    shared.init_barriers();
    ptx::fence_async_proxy();
  }
  __syncthreads();  // barriers are initialized before anyone waits on them
  const int helper = Place().warp - Config::warps;
  if (helper >= 0) {
    ptx::shrink_registers<40>();
    if (helper == 0) load_gradient_tiles<Config>(shape, shared, workspace, k, q, false);
    if (helper == 1) load_gradient_tiles<Config>(shape, shared, workspace, v, d_out, true);
    if (helper == 2 && threadIdx.x % 32 == 0) wait_for_turns<Config>(shape, shared, workspace);
    if (helper == 3 && threadIdx.x % 32 == 0) pass_turns_on<Config>(shape, shared, workspace);
  } else {
    ptx::grow_registers<232>();
    const GradientOutputs<typename Config::Storage> to{d_q, d_k, d_v, workspace.sums};
    GradientWarpgroup<Config>(shape, shared, to).run(dropout);
  }
}

}  // namespace hydrac::cuda
