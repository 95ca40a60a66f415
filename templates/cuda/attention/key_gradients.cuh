// The second half of attention's backward: d_k and d_v. d_s is that of
// cuda/attention/query_gradients.cuh; d_v = (f P)^T d_out and d_k = scale * d_s^T q.
//
// A block of threads owns rows of keys and goes through the queries that may see them, of every head that
// shares the kv head, in one order: the gradients of grouped heads are summed in registers. Matmuls are
// transposed (k q^T), so that again what one leaves in registers is what the next takes.
#pragma once
#include "cuda/attention/pipeline.cuh"
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

// Runs behind attention_query_gradients, which writes `terms` [B,H,T] (cuda/attention/geometry.h has the
// launch). Writes all of d_k and d_v.
template <class Config, class Shape>
__device__ __forceinline__ void attention_key_gradients(
    const Shape& shape, Heads<const typename Config::Storage> q, Heads<const typename Config::Storage> k,
    Heads<const typename Config::Storage> v, Heads<const typename Config::Storage> d_out,
    const QueryTerms* terms, Heads<typename Config::Storage> d_k, Heads<typename Config::Storage> d_v,
    const AttentionDropout& dropout) {
  using Matmul = typename MatmulOf<Config>::Type;
  constexpr int row_tiles = Config::row_tiles, columns = Config::columns, stages = Config::tile.stages;
  constexpr int row_bytes = Config::rows * Config::row_bytes, column_bytes = columns * Config::row_bytes;
  constexpr int part_dim = (Config::padded_dim / Config::tile.parts + 15) / 16 * 16;
  extern __shared__ __align__(1024) unsigned char shared[];
  const std::uint32_t keys = ptx::shared_address(shared);
  const std::uint32_t values = keys + row_bytes;
  const std::uint32_t queries = values + row_bytes;
  const std::uint32_t d_outs = queries + stages * column_bytes;
  const std::uint32_t column_terms = d_outs + stages * column_bytes;

  const Place place;
  const KeyBlock<Config> block(shape);
  const int group = shape.heads / shape.kv_heads;
  RowLoader<Config, Matmul, Config::rows>(k.token_stride)
      .start(keys, k.at(block.batch, block.first, block.kv_head), block.count);
  RowLoader<Config, Matmul, Config::rows>(v.token_stride)
      .start(values, v.at(block.batch, block.first, block.kv_head), block.count);
  const RowLoader<Config, Matmul, columns> load_queries(q.token_stride), load_d_outs(d_out.token_stride);

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
    Matmul::template wait<0>();  // d_k of the tile before: its operand's registers are needed
    Matmul::begin();
    Matmul::template scores<columns>(scores, place, keys, queries + stage * column_bytes);
    Matmul::commit();
    Matmul::template scores<columns>(gradients, place, values, d_outs + stage * column_bytes);
    Matmul::commit();
    const TransposedTile<Config> tile{place, block.batch, head, block.first, query};
    const std::uint32_t tile_terms = column_terms + stage * columns * static_cast<int>(sizeof(QueryTerms));
    ColumnTerms<columns> lse2, delta;
    Matmul::template wait<1>();  // probabilities are made while d_out v^T is computed
    Matmul::fence_operands(scores);
    Fragment<row_tiles, columns> value_weights;
    lse2.load(tile_terms, place);
    tile.make_probabilities(scores, value_weights, lse2, shape, dropout,
                            !sees_all<typename Config::Mask>(shape, {query, query + columns},
                                                             {block.first, block.first + Config::rows}));
    typename Matmul::template Weights<columns> weights;
    Matmul::round(weights, value_weights);
    Matmul::fence_operands(value_sums);
    Matmul::begin();
    Matmul::template accumulate<columns>(value_sums, place, weights, d_outs + stage * column_bytes,
                                         first_column, index > 0);
    Matmul::commit();
    Matmul::template wait<0>();
    Matmul::fence_operands(gradients);
    delta.load(tile_terms + columns * 4, place);
    tile.make_d_scores(gradients, scores, delta, dropout);
    typename Matmul::template Weights<columns> d_weights;
    Matmul::round(d_weights, gradients);
    Matmul::fence_operands(key_sums);
    Matmul::begin();
    Matmul::template accumulate<columns>(key_sums, place, d_weights, queries + stage * column_bytes,
                                         first_column, index > 0);
    Matmul::commit();
    query += columns;
    if (query >= block.end_query) query = first_query, ++head;
  };
  const auto first = [&](int stage) { compute(0, stage); };
  Matmul::clear(key_sums);
  Matmul::clear(value_sums);
  stream_tiles<Config, Matmul>(group * block.tiles, start, first, compute);
  Matmul::template wait<0>();
  Matmul::fence_operands(key_sums);
  Matmul::fence_operands(value_sums);

  float key_factor[row_tiles][2], value_factor[row_tiles][2];
#pragma unroll
  for (int m = 0; m < row_tiles; ++m) {
    key_factor[m][0] = key_factor[m][1] = shape.scale;
    value_factor[m][0] = value_factor[m][1] = Config::has_dropout ? dropout.keep_scale : 1.0f;
  }
  store_rows<Config>(d_k.at(block.batch, block.first, block.kv_head), d_k.token_stride, block.count, place,
                     first_column, key_sums, key_factor);
  store_rows<Config>(d_v.at(block.batch, block.first, block.kv_head), d_v.token_stride, block.count, place,
                     first_column, value_sums, value_factor);
}

}  // namespace hydrac::cuda
