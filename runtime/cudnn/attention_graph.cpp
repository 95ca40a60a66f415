#include "runtime/cudnn/attention_graph.h"

#include <limits>

namespace hydrac::runtime::cudnn {
namespace {

using abi::DataType;
using abi::PointwiseMode;
using abi::ReductionOperator;

// cuDNN wants [batch, head, token, element]; a transposed key or value is [batch, head, element, token].
Shape strides_of(const Strides& strides) {
  return {strides.batch, strides.head, strides.token, 1};
}
Shape swapped(const Shape& shape) {
  return {shape[0], shape[1], shape[3], shape[2]};
}

class AttentionBuilder {
 public:
  AttentionBuilder(const Library& library, const AttentionProblem& problem)
      : graph(library),
        p(problem),
        type(problem.bf16 ? DataType::bf16 : DataType::f16),
        q_shape{p.batch, p.heads, p.tokens, p.head_dim},
        kv_shape{p.batch, p.kv_heads, p.tokens, p.head_dim},
        scores_shape{p.batch, p.heads, p.tokens, p.tokens},
        rows_shape{p.batch, p.heads, p.tokens, 1} {}

  Tensor like_q(TensorId id, const Strides& strides) {
    return graph.external(id, type, q_shape, strides_of(strides));
  }
  Tensor like_kv(TensorId id, const Strides& strides) {
    return graph.external(id, type, kv_shape, strides_of(strides));
  }
  Tensor like_kv_transposed(TensorId id, const Strides& strides) {
    return graph.external(id, type, swapped(kv_shape), swapped(strides_of(strides)));
  }
  Tensor rows(TensorId id) {
    return graph.external(id, DataType::f32, rows_shape, dense_strides(rows_shape));
  }
  Tensor inside_rows() { return graph.inside(rows_shape, dense_strides(rows_shape)); }
  Tensor inside_scores() { return graph.inside(scores_shape, dense_strides(scores_shape)); }
  Tensor lengths(TensorId id) { return graph.external(id, DataType::i32, {p.batch, 1, 1, 1}, {1, 1, 1, 1}); }

  // Keys later than the query become -inf.
  Tensor causal_mask(const Tensor& scores) {
    const Tensor row = graph.index(scores, 2, DataType::f32);
    const Tensor column = graph.index(scores, 3, DataType::f32);
    const Tensor seen = graph.test(PointwiseMode::greater_equal, row, column);
    return graph.select(seen, scores, minus_infinity());
  }

  // Rows and columns past the end become -inf.
  Tensor length_mask(const Tensor& scores, const Tensor& q_lengths, const Tensor& kv_lengths) {
    const Tensor row = graph.index(scores, 2, DataType::i32);
    const Tensor column = graph.index(scores, 3, DataType::i32);
    const Tensor row_counts = graph.test(PointwiseMode::less, row, q_lengths);
    const Tensor column_counts = graph.test(PointwiseMode::less, column, kv_lengths);
    const Tensor counts = graph.test(PointwiseMode::logical_and, row_counts, column_counts);
    return graph.select(counts, scores, minus_infinity());
  }

  // x^T of [batch, head, query, key], in the type of the tensors, as the left factor of a matmul.
  Tensor transposed_factor(const Tensor& x) {
    const Tensor y = graph.inside(swapped(scores_shape), swapped(dense_strides(scores_shape)), type);
    graph.reshape(x, y);
    return y;
  }

  // a b, summed over each group of query heads when they share a key head.
  void key_gradient(const Tensor& a, const Tensor& b, const Tensor& result, const MatmulSizes& counted) {
    if (p.heads == p.kv_heads) return graph.matmul(a, b, result, counted);
    const Tensor of_each_head = graph.inside(q_shape, dense_strides(q_shape), type);
    graph.matmul(a, b, of_each_head, counted);
    graph.reduce(ReductionOperator::add, of_each_head, result);
  }

  GraphBuilder graph;
  const AttentionProblem& p;
  const DataType type;
  const Shape q_shape, kv_shape, scores_shape, rows_shape;

 private:
  Tensor minus_infinity() { return graph.scalar(-std::numeric_limits<float>::infinity()); }
};

}  // namespace

std::int64_t row_sums_bytes(const AttentionProblem& p) {
  return p.batch * p.heads * p.tokens * 4;
}
std::int64_t d_q_sums_bytes(const AttentionProblem& p) {
  return p.deterministic ? 0 : p.batch * p.heads * p.tokens * p.head_dim * 4;
}
std::int64_t lengths_bytes(const AttentionProblem& p) {
  return p.batch * 4;
}

bool needs_lengths(const AttentionProblem& p, int version) {
  return version <= 91500 && p.tokens % 128 != 0;
}

OperationGraph forward_graph(const Library& library, abi::Handle handle, const AttentionProblem& problem) {
  AttentionBuilder b(library, problem);
  GraphBuilder& graph = b.graph;
  const Tensor q = b.like_q(kQ, problem.q);
  const Tensor k = b.like_kv_transposed(kK, problem.k);
  const Tensor v = b.like_kv(kV, problem.v);

  Tensor scores = b.inside_scores();
  graph.matmul(q, k, scores);
  scores = graph.map(PointwiseMode::multiply, scores, graph.scalar(problem.scale));
  if (problem.causal) scores = b.causal_mask(scores);

  const Tensor max = b.inside_rows();
  graph.reduce(ReductionOperator::max, scores, max);
  const Tensor shifted = graph.map(PointwiseMode::subtract, scores, max);
  const Tensor exps = graph.map(PointwiseMode::exp, shifted);
  const Tensor sum = b.inside_rows();
  graph.reduce(ReductionOperator::add, exps, sum);
  const Tensor log_sum = graph.map(PointwiseMode::log, sum);
  graph.pointwise(PointwiseMode::add, max, &log_sum, nullptr, b.rows(kLse));
  const Tensor weights = graph.inside(b.scores_shape, dense_strides(b.scores_shape), b.type);
  graph.pointwise(PointwiseMode::divide, exps, &sum, nullptr, weights);

  graph.matmul(weights, v, b.like_q(kOut, problem.out));
  return graph.finish(handle);
}

OperationGraph backward_graph(const Library& library, abi::Handle handle, const AttentionProblem& problem,
                              bool with_lengths) {
  AttentionBuilder b(library, problem);
  GraphBuilder& graph = b.graph;
  const Tensor q = b.like_q(kQ, problem.q);
  const Tensor k = b.like_kv_transposed(kK, problem.k);
  const Tensor v = b.like_kv_transposed(kV, problem.v);
  const Tensor out = b.like_q(kOut, problem.out);
  const Tensor d_out = b.like_q(kDOut, problem.d_out);
  const Tensor lse = b.rows(kLse);
  const Tensor scale = graph.scalar(problem.scale);
  std::optional<Tensor> q_lengths, kv_lengths;
  if (with_lengths) {
    q_lengths = b.lengths(kLengths);
    kv_lengths = b.lengths(kKvLengths);
  }
  const Tensor* rows_count = q_lengths ? &*q_lengths : nullptr;
  const Tensor* keys_count = kv_lengths ? &*kv_lengths : nullptr;

  // row_sums = sum(d_out * out), times 1: engines expect a factor there, the one of dropout's scale.
  const Tensor matmuls = graph.inside(b.q_shape, dense_strides(b.q_shape));
  graph.pointwise(PointwiseMode::multiply, d_out, &out, nullptr, matmuls);
  const Tensor sums = b.inside_rows();
  graph.reduce(ReductionOperator::add, matmuls, sums);
  const Tensor row_sums = b.rows(kRowSums);
  const Tensor one = graph.scalar(1.0f);
  graph.pointwise(PointwiseMode::multiply, sums, &one, nullptr, row_sums);

  // weights = exp(scale q k^T - lse), masked; d_v = weights^T d_out
  Tensor scores = b.inside_scores();
  graph.matmul(q, k, scores, {.rows = rows_count, .columns = keys_count});
  scores = graph.map(PointwiseMode::multiply, scores, scale);
  if (with_lengths) scores = b.length_mask(scores, *q_lengths, *kv_lengths);
  scores = graph.map(PointwiseMode::subtract, scores, lse);
  if (problem.causal) scores = b.causal_mask(scores);
  const Tensor weights = graph.map(PointwiseMode::exp, scores);
  const MatmulSizes of_keys{.rows = keys_count, .summands = rows_count};
  b.key_gradient(b.transposed_factor(weights), d_out, b.like_kv(kDV, problem.d_v), of_keys);

  // d_scores = scale weights (d_out v^T - row_sums); d_k = d_scores^T q
  Tensor d_scores = b.inside_scores();
  graph.matmul(d_out, v, d_scores, {.rows = rows_count, .columns = keys_count});
  d_scores = graph.map(PointwiseMode::subtract, d_scores, row_sums);
  d_scores = graph.map(PointwiseMode::multiply, d_scores, weights);
  d_scores = graph.map(PointwiseMode::multiply, d_scores, scale);
  b.key_gradient(b.transposed_factor(d_scores), q, b.like_kv(kDK, problem.d_k), of_keys);

  // d_q = d_scores k; summed in memory in any order unless it is to be deterministic
  const Tensor keys = graph.inside(b.kv_shape, strides_of(problem.k), b.type);
  graph.reshape(k, keys);
  const MatmulSizes of_queries{.rows = rows_count, .summands = keys_count};
  const Tensor d_q = b.like_q(kDQ, problem.d_q);
  if (problem.deterministic) {
    graph.matmul(d_scores, keys, d_q, of_queries);
  } else {
    const Tensor d_q_sums = graph.external(kDQSums, DataType::f32, b.q_shape, dense_strides(b.q_shape));
    graph.matmul(d_scores, keys, d_q_sums, of_queries);
    graph.pointwise(PointwiseMode::identity, d_q_sums, nullptr, nullptr, d_q);
  }
  return graph.finish(handle);
}

}  // namespace hydrac::runtime::cudnn
