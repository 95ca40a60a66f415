// The kTop largest logits of each row in order, equal ones by column; the sum of all exponentials; and a
// sampled column. The first kernel reads the logits once and keeps the largest of each group of columns. The
// kTop largest logits lie in the kTop groups with the largest maxima, and those in the kTop spans of groups
// with the largest maxima: the second kernel narrows a row down to them, one key a thread.
#pragma once
#include <cstdint>

#include "cuda/reduce.cuh"
#include "cuda/top_geometry.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {
namespace detail {

// Larger for larger logits, and of equal ones for the smaller column; 0 is no logit's.
__device__ inline std::uint64_t top_key(float logit, int column) {
  const std::uint32_t bits = float_bits(logit == 0.0f ? 0.0f : logit);
  const std::uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return std::uint64_t{ordered} << 32 | ~static_cast<std::uint32_t>(column);
}
__device__ inline float top_logit(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return float_from_bits((ordered & 0x80000000u) != 0 ? ordered & 0x7FFFFFFFu : ~ordered);
}
__device__ inline int top_column(std::uint64_t key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key));
}

// Combines the results of all threads of the block of kTopThreads in a tree of fixed form; `scratch` has room
// for as many.
template <typename Combine>
__device__ float combine_block(float value, float* scratch, Combine combine) {
  __syncthreads();  // all have read what was in `scratch`
  scratch[threadIdx.x] = value;
  for (int half = kTopThreads / 2; half > 0; half /= 2) {
    __syncthreads();  // the values that this round combines are there
    if (static_cast<int>(threadIdx.x) < half)
      scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
  }
  __syncthreads();  // the last round is done
  return scratch[0];
}

// Shared memory of the second kernel.
struct SelectShared {
  std::uint64_t keys[kTop];  // the chosen ones, in the order of their threads; 0 behind the last
  int counts[kSelectThreads / 32];
  double sums[kSelectThreads], groups[kSelectThreads / 32], parts[kMostTopParts];
};

// Leaves in shared.keys the kTop largest of the block's keys, one a thread; keys differ unless they are 0.
// The threshold, the largest number that kTop keys reach, is found bit by bit.
__device__ inline void choose_top(std::uint64_t key, SelectShared& shared) {
  std::uint64_t threshold = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const std::uint64_t raised = threshold | std::uint64_t{1} << bit;
    const int count = __syncthreads_count(key >= raised);
    if (count >= kTop) threshold = raised;
    if (count == kTop) break;
  }
  const bool is_chosen = key != 0 && key >= threshold;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const unsigned chosen = __ballot_sync(0xFFFFFFFFu, is_chosen);
  if (lane == 0) shared.counts[warp] = __popc(chosen);
  if (threadIdx.x < kTop) shared.keys[threadIdx.x] = 0;
  __syncthreads();  // each warp's count is there, and empty keys
  int place = __popc(chosen & ((1u << lane) - 1));
  for (int w = 0; w < warp; ++w) place += shared.counts[w];
  if (is_chosen) shared.keys[place] = key;
  __syncthreads();  // all chosen keys are there
}

// The index of the weight that `left` falls into; `left` is reduced by the weights before it. If rounding
// puts it past the end, the last weight that is not 0, and `left` is its end.
__device__ inline int fall_into(const double* weights, int count, double& left) {
  int last = 0;
  for (int i = 0; i < count; ++i) {
    if (weights[i] == 0) continue;
    last = i;
    if (left < weights[i]) return i;
    left -= weights[i];
  }
  left += weights[last];
  return last;
}

// The column into whose share of the row's sum `uniform` in [0, 1) falls, in the order of columns: first the
// part, then the column in it. For thread 0. `largest`: of the row; `statistics`: of its parts.
template <int columns>
__device__ int draw_column(const float* row, int end, const float* statistics, float largest,
                           float inverse_temperature, double uniform, SelectShared& shared) {
  constexpr int kParts = top_parts(columns), kEach = kTopColumns / kSelectThreads;
  constexpr int kGroups = kSelectThreads / 32;
  const auto weight = [&](float logit) { return double{exp((logit - largest) * inverse_temperature)}; };
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kParts) shared.parts[thread] = statistics[2 * thread + 1] * weight(statistics[2 * thread]);
  __syncthreads();  // each part's sum is there
  double left = 0;
  for (int part = 0; part < kParts; ++part) left += shared.parts[part];
  left *= uniform;
  const int first = fall_into(shared.parts, kParts, left) * kTopColumns;
  double own[kEach], sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int column = first + thread * kEach + i;
    sum += own[i] = column < end ? weight(row[column]) : 0;
  }
  shared.sums[thread] = sum;
  __syncthreads();  // each thread's sum is there
  if (thread < kGroups) {
    sum = 0;
    for (int i = 0; i < 32; ++i) sum += shared.sums[thread * 32 + i];
    shared.groups[thread] = sum;
  }
  __syncthreads();  // each group's sum is there
  const int group = fall_into(shared.groups, kGroups, left);
  const int span = group * 32 + fall_into(shared.sums + group * 32, 32, left);
  __syncthreads();  // all have read `groups`, which is used again
  if (thread == span) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) shared.groups[i] = own[i];
  }
  __syncthreads();  // the span of the draw is there
  return first + span * kEach + fall_into(shared.groups, kEach, left);
}

}  // namespace detail

// The first kernel, in blocks of kTopThreads, one for each part of each row of logits [rows, columns], of
// which the first `vocabulary` columns count. Writes the largest logit of each group of columns, and the
// part's largest logit and its sum, to `workspace`.
template <int columns>
__device__ void top_logits_parts(const float* logits, const float* inverse_temperature,
                                 const std::int32_t* vocabulary, float* workspace) {
  constexpr int kParts = top_parts(columns);
  __shared__ float scratch[kTopThreads];
  const int row = static_cast<int>(blockIdx.x) / kParts, part = static_cast<int>(blockIdx.x) % kParts;
  const int end = *vocabulary < columns ? *vocabulary : columns;
  const int first = part * kTopColumns + static_cast<int>(threadIdx.x) * kTopGroup;
  const float* from = logits + static_cast<std::int64_t>(row) * columns + first;
  float own[kTopGroup], largest = kLowest, group_largest = minus_infinity();
#pragma unroll
  for (int i = 0; i < kTopGroup; ++i) {
    own[i] = first + i < end ? from[i] : minus_infinity();
    group_largest = larger(group_largest, own[i]);
  }
  workspace[static_cast<std::int64_t>(blockIdx.x) * kTopThreads + threadIdx.x] = group_largest;
  largest = detail::combine_block(larger(largest, group_largest), scratch, Larger());
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kTopGroup; ++i) sum += exp((own[i] - largest) * *inverse_temperature);
  sum = detail::combine_block(sum, scratch, Add());
  if (threadIdx.x == 0) {
    float* statistics = workspace + static_cast<std::int64_t>(gridDim.x) * kTopThreads + 2 * blockIdx.x;
    statistics[0] = largest;
    statistics[1] = sum;
  }
}

// The second kernel, with a block of kSelectThreads a row. It writes values and ids [rows, kTop], kLowest and
// -1 where there are fewer; and sums [rows] of exp((logit - values[0]) * inverse_temperature). drawn [rows]
// is the sampled column: the one into whose share the row's random number falls. That number is the sum of
// the row's two `uniforms` [rows, 2]; if it is negative, drawn is ids[0].
template <int columns>
__device__ void top_logits(const float* logits, const float* inverse_temperature,
                           const std::int32_t* vocabulary, const float* uniforms, const float* workspace,
                           float* values, std::int32_t* ids, float* sums, std::int32_t* drawn) {
  constexpr int kParts = top_parts(columns), kGroups = kParts * kTopThreads;
  constexpr int kEach = (kGroups + kSelectThreads - 1) / kSelectThreads;  // groups of a span
  static_assert(finds_top(columns));
  static_assert(kTop * kEach <= kSelectThreads && kTop * kTopGroup <= kSelectThreads);
  __shared__ detail::SelectShared shared;
  const int row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int end = *vocabulary < columns ? *vocabulary : columns;
  const int groups = (end + kTopGroup - 1) / kTopGroup;  // that have columns
  const float* of_groups = workspace + static_cast<std::int64_t>(row) * kGroups;
  const float* from = logits + static_cast<std::int64_t>(row) * columns;

  float largest = minus_infinity();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int group = thread * kEach + i;
    if (group < groups) largest = larger(largest, of_groups[group]);
  }
  detail::choose_top(thread * kEach < groups ? detail::top_key(largest, thread) : 0, shared);

  const std::uint64_t span = thread < kTop * kEach ? shared.keys[thread / kEach] : 0;
  const int group = span == 0 ? groups : detail::top_column(span) * kEach + thread % kEach;
  __syncthreads();  // all have read the keys, which are chosen again
  detail::choose_top(group < groups ? detail::top_key(of_groups[group], group) : 0, shared);

  const std::uint64_t chosen = thread < kTop * kTopGroup ? shared.keys[thread / kTopGroup] : 0;
  const int column = chosen == 0 ? end : detail::top_column(chosen) * kTopGroup + thread % kTopGroup;
  __syncthreads();  // all have read the keys, which are chosen again
  detail::choose_top(column < end ? detail::top_key(from[column], column) : 0, shared);

  const double uniform = double{uniforms[2 * row]} + double{uniforms[2 * row + 1]};
  if (thread < kTop) {
    const std::uint64_t key = shared.keys[thread];
    int before = 0;  // keys that are larger
    for (int i = 0; i < kTop; ++i) before += shared.keys[i] > key;
    const int place = row * kTop + (key == 0 ? thread : before);  // keys come before zeros
    values[place] = key == 0 ? kLowest : detail::top_logit(key);
    ids[place] = key == 0 ? -1 : detail::top_column(key);
    if (uniform < 0 && place == row * kTop) drawn[row] = ids[place];
  }

  const float* statistics = workspace + static_cast<std::int64_t>(gridDim.x) * kGroups + 2 * row * kParts;
  largest = kLowest;
  for (int part = 0; part < kParts; ++part) largest = larger(largest, statistics[2 * part]);
  if (thread == 0) {
    float sum = 0;
    for (int part = 0; part < kParts; ++part)
      sum += statistics[2 * part + 1] * exp((statistics[2 * part] - largest) * *inverse_temperature);
    sums[row] = sum;
  }
  if (uniform < 0) return;
  const int id =
      detail::draw_column<columns>(from, end, statistics, largest, *inverse_temperature, uniform, shared);
  if (thread == 0) drawn[row] = id;
}

}  // namespace hydrac::cuda
