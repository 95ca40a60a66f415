// The kTop largest logits of each row in their order, equal ones by their column, and the sum of the
// exponentials of all: parts of a row first, then the parts' results. Runs of kTop keys are sorted, and then
// merged in pairs that keep the larger half.
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

__device__ inline void order_pair(std::uint64_t& first, std::uint64_t& second, bool descends) {
  if ((first < second) != descends) return;
  const std::uint64_t other = first;
  first = second;
  second = other;
}

// Sorts each run of kTop of the block's `count` keys, largest first.
__device__ inline void sort_runs(std::uint64_t* keys, int count) {
  for (int size = 2; size <= kTop; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < count / 2; pair += kTopThreads) {
        const int i = pair / stride * 2 * stride + pair % stride;
        order_pair(keys[i], keys[i + stride], size == kTop || (i & size) == 0);
      }
    }
  }
}

// The kTop largest of `runs` sorted runs, a power of two of them: sorted, in place of the first.
__device__ inline void merge_runs(std::uint64_t* keys, int runs) {
  for (int apart = 1; apart < runs; apart *= 2) {
    const int pairs = runs / (2 * apart);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < pairs * kTop; i += kTopThreads) {
      std::uint64_t* run = keys + i / kTop * 2 * apart * kTop;
      const std::uint64_t other = run[apart * kTop + kTop - 1 - i % kTop];
      if (run[i % kTop] < other) run[i % kTop] = other;
    }
    for (int stride = kTop / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < pairs * kTop / 2; pair += kTopThreads) {
        const int within = pair % (kTop / 2);
        const int i = pair / (kTop / 2) * 2 * apart * kTop + within / stride * 2 * stride + within % stride;
        order_pair(keys[i], keys[i + stride], true);
      }
    }
  }
  __syncthreads();
}

// What each thread of the block has, combined in a tree of one form; `scratch` of kTopThreads.
template <typename Combine>
__device__ float combine_block(float value, float* scratch, Combine combine) {
  __syncthreads();
  scratch[threadIdx.x] = value;
  for (int half = kTopThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half)
      scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
  }
  __syncthreads();
  return scratch[0];
}

}  // namespace detail

// The first kernel, a block for each part of each row of logits [rows, columns], of which the first
// `vocabulary` count. Leaves the part's keys, its largest logit and its sum in `workspace`.
template <int columns>
__device__ void top_logits_parts(const float* logits, const float* inverse_temperature,
                                 const std::int32_t* vocabulary, float* workspace) {
  constexpr int kParts = top_parts(columns), kEach = kTopColumns / kTopThreads;
  __shared__ std::uint64_t keys[kTopColumns];
  __shared__ float scratch[kTopThreads];
  const int row = static_cast<int>(blockIdx.x) / kParts, part = static_cast<int>(blockIdx.x) % kParts;
  const int end = *vocabulary < columns ? *vocabulary : columns;
  const float* from = logits + static_cast<std::int64_t>(row) * columns;
  float own[kEach], largest = kLowest;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = i * kTopThreads + static_cast<int>(threadIdx.x), column = part * kTopColumns + at;
    own[i] = column < end ? from[column] : minus_infinity();
    largest = larger(largest, own[i]);
    keys[at] = column < end ? detail::top_key(own[i], column) : 0;
  }
  largest = detail::combine_block(largest, scratch, Larger());
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += exp((own[i] - largest) * *inverse_temperature);
  sum = detail::combine_block(sum, scratch, Add());
  detail::sort_runs(keys, kTopColumns);
  detail::merge_runs(keys, kTopColumns / kTop);
  auto* out = reinterpret_cast<std::uint64_t*>(workspace) + static_cast<std::int64_t>(blockIdx.x) * kTop;
  if (threadIdx.x < kTop) out[threadIdx.x] = keys[threadIdx.x];
  if (threadIdx.x == 0) {
    float* statistics = workspace + static_cast<std::int64_t>(gridDim.x) * kTop * 2 + 2 * blockIdx.x;
    statistics[0] = largest;
    statistics[1] = sum;
  }
}

// The second kernel, a block a row: values and ids [rows, kTop], kLowest and -1 where there are fewer, and
// sums [rows] of exp((logit - values[0]) * inverse_temperature).
template <int columns>
__device__ void top_logits(const float* inverse_temperature, const float* workspace, float* values,
                           std::int32_t* ids, float* sums) {
  constexpr int kParts = top_parts(columns), kRuns = power_of_two_from(kParts);
  static_assert(finds_top(columns));
  __shared__ std::uint64_t keys[kRuns * kTop];
  const int row = static_cast<int>(blockIdx.x);
  const auto* from =
      reinterpret_cast<const std::uint64_t*>(workspace) + static_cast<std::int64_t>(row) * kParts * kTop;
  for (int i = static_cast<int>(threadIdx.x); i < kRuns * kTop; i += kTopThreads)
    keys[i] = i < kParts * kTop ? from[i] : 0;
  detail::merge_runs(keys, kRuns);
  if (threadIdx.x < kTop) {
    const std::uint64_t key = keys[threadIdx.x];
    values[row * kTop + threadIdx.x] = key == 0 ? kLowest : detail::top_logit(key);
    ids[row * kTop + threadIdx.x] = key == 0 ? -1 : detail::top_column(key);
  }
  if (threadIdx.x == 0) {
    const float* statistics =
        workspace + static_cast<std::int64_t>(gridDim.x) * kParts * kTop * 2 + 2 * row * kParts;
    float largest = kLowest, sum = 0;
    for (int part = 0; part < kParts; ++part) largest = larger(largest, statistics[2 * part]);
    for (int part = 0; part < kParts; ++part)
      sum += statistics[2 * part + 1] * exp((statistics[2 * part] - largest) * *inverse_temperature);
    sums[row] = sum;
  }
}

}  // namespace hydrac::cuda
