// The second half of attention's backward: d_k and d_v. d_s is that of
// cuda/attention/query_gradients.cuh; d_v = (f P)^T d_out and d_k = scale * d_s^T q.
//
// A block of threads owns rows of keys and goes through the queries that may see them, of every head that
// reads them, in one order: their gradients are summed in registers. Matmuls are transposed (k q^T), so that
// again what one leaves in registers is what the next takes.
#pragma once
#include "cuda/attention/matmul.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/attention/stream.cuh"
#include "cuda/attention/transposed_scores.cuh"

namespace hydrac::cuda {

// The block of key rows that a thread block owns, and the query tiles that it goes through for each head.
template <class Config>
struct KeyBlock {
  int batch, kv_head, part;
  int first;       // key
  int count;       // keys that exist, at least 1
  int first_tile;  // of queries
  int tiles;
  int end_query;

  template <class Shape>
  __device__ __forceinline__ explicit KeyBlock(const Shape& shape) {
    const int blocks = (shape.tokens + Config::rows - 1) / Config::rows;
    const int index = static_cast<int>(blockIdx.x);
    part = index % Config::tile.parts;
    const int block = index / Config::tile.parts % blocks, row = index / Config::tile.parts / blocks;
    batch = row / shape.kv_heads;
    kv_head = row % shape.kv_heads;
    first = block * Config::rows;
    count = valid_rows<Config::rows>(shape.tokens, first);
    const TokenRange seeing = queries_of_any<typename Config::Mask>(shape, first, first + count - 1);
    first_tile = seeing.first / Config::columns;
    tiles = (seeing.end + Config::columns - 1) / Config::columns - first_tile;
    end_query = seeing.end;
  }
};

// The sequence of the block's keys: the one whose documents a kernel has to be given.
template <class Config>
__device__ __forceinline__ int sequence_of_keys(const SequenceShape& shape) {
  const int blocks = (shape.tokens + Config::rows - 1) / Config::rows;
  return static_cast<int>(blockIdx.x) / Config::tile.parts / blocks / shape.kv_heads;
}

template <class Config>
HYDRAC_FN constexpr KeyGradientPlaces places_of_key_gradients() {
  return key_gradient_places(Config::rows, Config::columns, Config::stages, Config::row_bytes);
}

template <class Config>
HYDRAC_FN constexpr AttentionBlock block_of_key_gradients() {
  return {Config::rows, Config::threads, places_of_key_gradients<Config>().bytes};
}

// Runs behind attention_query_gradients, which writes `terms` [B,H,T] (cuda/attention/geometry.h has the
// launch). Writes all of d_k and d_v.
template <class Config>
__device__ __forceinline__ void attention_key_gradients(
    const typename Config::Sequence& shape, Heads<const typename Config::Storage> q,
    Heads<const typename Config::Storage> k, Heads<const typename Config::Storage> v,
    Heads<const typename Config::Storage> d_out, const QueryTerms* terms, Heads<typename Config::Storage> d_k,
    Heads<typename Config::Storage> d_v, const AttentionDropout& dropout) {
  using Matmul =
      MatmulOf<Config::family, typename Config::Storage, Config::row_tiles, Config::rows, Config::head_dim>;
  constexpr int row_tiles = Config::row_tiles, columns = Config::columns;
  constexpr int column_bytes = columns * Config::row_bytes;
  const KeyGradientPlaces places = places_of_key_gradients<Config>();
  constexpr int part_dim = (Config::padded_dim / Config::tile.parts + 15) / 16 * 16;
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t keys = ptx::shared_address(shared);
  const std::uint32_t values = keys + places.values;
  const std::uint32_t queries = keys + places.queries;
  const std::uint32_t d_outs = keys + places.d_outs;
  const std::uint32_t column_terms = keys + places.terms;

  const Place place;
  const KeyBlock<Config> block(shape);
  const int group = shape.heads / shape.kv_heads;
  RowLoader<Matmul, Config::rows, Config::head_dim, Config::threads>(k.token_stride)
      .start(keys, k.at(block.batch, block.first, block.kv_head), block.count);
  RowLoader<Matmul, Config::rows, Config::head_dim, Config::threads>(v.token_stride)
      .start(values, v.at(block.batch, block.first, block.kv_head), block.count);
  const RowLoader<Matmul, columns, Config::head_dim, Config::threads> load_queries(q.token_stride),
      load_d_outs(d_out.token_stride);

  // Queries past the sequence are zeros with zero terms, and add nothing.
  const int first_query = block.first_tile * columns;
  int next_head = block.kv_head * group, next_query = first_query;
  const auto start = [&](int, int stage) {
    const int valid = valid_rows<columns>(shape.tokens, next_query);
    load_queries.start(queries + stage * column_bytes, q.at(block.batch, next_query, next_head), valid);
    load_d_outs.start(d_outs + stage * column_bytes, d_out.at(block.batch, next_query, next_head), valid);
    load_column_terms<columns, Config::threads>(
        column_terms + stage * columns * static_cast<int>(sizeof(QueryTerms)),
        terms + (static_cast<std::int64_t>(block.batch) * shape.heads + next_head) * shape.tokens +
            next_query,
        valid);
    next_query += columns;
    if (next_query >= block.end_query) next_query = first_query, ++next_head;
  };
  start(0, 0);

  // Parts overlap where the head dimension does not split evenly; both then store the same values.
  const int first_column = block.part == 0 ? 0 : Config::padded_dim - part_dim;
  Fragment<row_tiles, part_dim> key_sums, value_sums;
  int head = block.kv_head * group, query = first_query;
  const auto compute = [&](int index, int stage) {
    Fragment<row_tiles, columns> scores, gradients;
    Matmul::wait_for_all();  // d_k of the tile before
    Matmul::begin();
    Matmul::scores(scores, place, keys, queries + stage * column_bytes);
    Matmul::commit();
    Matmul::scores(gradients, place, values, d_outs + stage * column_bytes);
    Matmul::commit();
    const TransposedTile<Config> tile{place, block.batch * shape.heads + head, block.first, query};
    const std::uint32_t tile_terms = column_terms + stage * columns * static_cast<int>(sizeof(QueryTerms));
    ColumnTerms<columns> lse2, delta;
    Matmul::wait_for_all_but_last();  // all but d_out v^T
    Matmul::fence_operands(scores);
    Fragment<row_tiles, columns> value_weights;
    lse2.load(tile_terms, place);
    tile.make_probabilities(scores, value_weights, lse2, shape, dropout,
                            !sees_all<typename Config::Mask>(shape, {query, query + columns},
                                                             {block.first, block.first + Config::rows}));
    WeightsOf<Matmul, columns> weights;
    Matmul::round(weights, value_weights);
    Matmul::fence_operands(value_sums);
    Matmul::begin();
    Matmul::accumulate(value_sums, place, weights, d_outs + stage * column_bytes, index > 0, first_column);
    Matmul::commit();
    Matmul::wait_for_all();
    Matmul::fence_operands(gradients);
    delta.load(tile_terms + columns * 4, place);
    tile.make_d_scores(gradients, scores, delta, dropout);
    WeightsOf<Matmul, columns> d_weights;
    Matmul::round(d_weights, gradients);
    Matmul::fence_operands(key_sums);
    Matmul::begin();
    Matmul::accumulate(key_sums, place, d_weights, queries + stage * column_bytes, index > 0, first_column);
    Matmul::commit();
    query += columns;
    if (query >= block.end_query) query = first_query, ++head;
  };
  const auto first = [&](int stage) { compute(0, stage); };
  Matmul::clear(key_sums);
  Matmul::clear(value_sums);
  stream_tiles<Matmul, Config::stages>(group * block.tiles, start, first, compute);
  Matmul::wait_for_all();
  Matmul::fence_operands(key_sums);
  Matmul::fence_operands(value_sums);

  const float value_scale = Config::has_dropout ? dropout.keep_scale : 1.0f;
  store_rows<Config::head_dim>(d_k.at(block.batch, block.first, block.kv_head), d_k.token_stride, block.count,
                               place, first_column, key_sums, shape.scale);
  store_rows<Config::head_dim>(d_v.at(block.batch, block.first, block.kv_head), d_v.token_stride, block.count,
                               place, first_column, value_sums, value_scale);
}

}  // namespace hydrac::cuda
