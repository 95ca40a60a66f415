// Steps between the matmuls of attention's backward where keys are a matmul's rows: from k q^T to
// probabilities, and from v d_out^T to d_s. The formulas: cuda/attention/query_gradients.cuh.
#pragma once
#include "cuda/attention/column_terms.cuh"
#include "cuda/attention/dropout.cuh"
#include "cuda/attention/scores.cuh"
#include "cuda/attention/softmax.cuh"

namespace hydrac::cuda {

// A tile of scores, rows keys and columns queries, in its thread's registers.
template <class Config>
struct TransposedTile {
  static constexpr int kColumns = Config::columns;
  using Scores = Fragment<Config::row_tiles, kColumns>;
  using Terms = ColumnTerms<kColumns>;  // of the queries

  Place place;  // of the thread in the rows from first_key on
  int row;      // batch * heads + head
  int first_key, first_query;

  // Matmuls become probabilities, times the derivative of their scores. value_weights: what d_v is made of,
  // but for a factor. `masked`: some query may not see some key.
  template <class Shape>
  __device__ __forceinline__ void make_probabilities(Scores& scores, Scores& value_weights, const Terms& lse2,
                                                     const Shape& shape, const AttentionDropout& dropout,
                                                     bool masked) const {
    using Rule = typename Config::Scores;
    const float scale2 = Rule::factor(shape) * kLog2E;
    if constexpr (!Rule::is_linear) score_matmuls<Rule>(scores, shape);
    for_elements<Config::row_tiles, kColumns>([&](int m, int n, int e) {
      float& x = scores.at[m][n][e];
      const float probability = ptx::exp2(fma(x, scale2, -lse2.at[n][e % 2]));
      if constexpr (Rule::is_linear) {
        x = probability;
      } else {
        value_weights.at[m][n][e] = probability;
        x = probability * Rule::derivative(x);
      }
    });
    if (masked) {
      mask<typename Config::Mask, true>(scores, place, first_key, first_query, shape, 0.0f);
      if constexpr (!Rule::is_linear)
        mask<typename Config::Mask, true>(value_weights, place, first_key, first_query, shape, 0.0f);
    }
    if constexpr (Rule::is_linear) value_weights = scores;
    if constexpr (Config::has_dropout) {
      // Dropped ones turn negative, which says so without another register.
      for_kept<true, Config::row_tiles, kColumns>(
          dropout, dropout_base(shape, row), place, first_key, first_query, shape.tokens,
          [&](int m, int n, int e, bool is_kept) {
            float& x = scores.at[m][n][e];
            float& weight = value_weights.at[m][n][e];
            x = is_kept ? x : -x;
            weight = Rule::is_linear ? fmaxf(x, 0.0f) : is_kept ? weight : 0.0f;
          });
    }
  }

  // v d_out^T becomes d_s.
  __device__ __forceinline__ void make_d_scores(Scores& gradients, const Scores& probabilities,
                                                const Terms& delta, const AttentionDropout& dropout) const {
    for_elements<Config::row_tiles, kColumns>([&](int m, int n, int e) {
      float probability = probabilities.at[m][n][e], gradient = gradients.at[m][n][e];
      if constexpr (Config::has_dropout) {
        gradient = probability > 0.0f ? gradient * dropout.keep_scale : 0.0f;
        probability = abs(probability);
      }
      gradients.at[m][n][e] = probability * (gradient - delta.at[n][e % 2]);
    });
  }
};

}  // namespace hydrac::cuda
