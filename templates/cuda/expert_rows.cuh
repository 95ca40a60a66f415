// Rows sorted by the expert that was chosen for them: a stable counting sort, the same on every run. A block
// counts its slice of the choices; a second kernel adds up the counts of the slices before and places the
// slice's choices. Atomics count in shared memory alone, where their order changes nothing.
#pragma once
#include <cstdint>

#include "cuda/expert_geometry.h"
#include "cuda/types.cuh"

namespace hydrac::cuda {

// Adds the choices from `first` on, as many as warps have slices, to counts in shared memory, a row for each
// of `rows` groups of warps.
template <ExpertChoices c, int rows>
__device__ inline void count_slices(const int* chosen, int (&counts)[rows][c.experts]) {
  constexpr int slice = expert_slice(c);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int e = static_cast<int>(threadIdx.x); e < rows * c.experts; e += kExpertThreads)
    counts[e / c.experts][e % c.experts] = 0;
  __syncthreads();  // all counts are 0
  const int first = (static_cast<int>(blockIdx.x) * kExpertWarps + warp) * slice;
  for (int i = first + lane; i < first + slice && i < c.choices; i += 32)
    atomicAdd(&counts[rows == 1 ? 0 : warp][chosen[i]], 1);
  __syncthreads();  // all choices are counted
}

// workspace i32 [expert_blocks(c), experts]: the counts.
template <ExpertChoices c>
__device__ void count_experts(const int* chosen, float* workspace) {
  __shared__ int of_block[1][c.experts];
  count_slices<c>(chosen, of_block);
  for (int e = static_cast<int>(threadIdx.x); e < c.experts; e += kExpertThreads)
    reinterpret_cast<int*>(workspace)[static_cast<int>(blockIdx.x) * c.experts + e] = of_block[0][e];
}

// begins[e], by one warp: the rows of all experts before e, each rounded up to whole units; totals[e] are
// there.
template <ExpertChoices c>
__device__ inline void find_beginnings(const int (&totals)[c.experts], int (&begins)[c.experts + 1]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int before = 0;  // of all experts of the 32 before
  for (int first = 0; first < c.experts; first += 32) {
    const int e = first + lane;
    const int rows = e < c.experts ? (totals[e] + c.unit - 1) / c.unit * c.unit : 0;
    int sum = rows;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFFu, sum, step);
      if (lane >= step) sum += other;
    }
    if (e < c.experts) begins[e] = before + sum - rows;
    before += __shfl_sync(0xFFFFFFFFu, sum, 31);
  }
  if (lane == 0) begins[c.experts] = before;
}

// source [rows]: the choice that stands in a row, -1 in rows that pad an expert's and behind all; place
// [choices]: its inverse; offsets [experts + 1]: where each expert's rows begin.
template <ExpertChoices c>
__device__ void place_experts(const int* chosen, const float* workspace, int* source, int* place,
                              int* offsets) {
  const int* const counts = reinterpret_cast<const int*>(workspace);
  constexpr int blocks = expert_blocks(c), slice = expert_slice(c);
  __shared__ int next[kExpertWarps][c.experts];  // first the slice's counts, then where its next row goes
  __shared__ int totals[c.experts], before[c.experts], begins[c.experts + 1];
  const int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  for (int e = thread; e < c.experts; e += kExpertThreads) {
    int total = 0, earlier = 0;
#pragma unroll 16
    for (int b = 0; b < blocks; ++b) {
      const int count = counts[b * c.experts + e];
      total += count;
      earlier += b < block ? count : 0;
    }
    totals[e] = total, before[e] = earlier;
  }
  count_slices<c>(chosen, next);
  if (warp == 0) find_beginnings<c>(totals, begins);
  __syncthreads();  // begins are there
  for (int e = thread; e < c.experts; e += kExpertThreads) {
    int at = begins[e] + before[e];
#pragma unroll
    for (int w = 0; w < kExpertWarps; ++w) {
      const int count = next[w][e];
      next[w][e] = at;
      at += count;
    }
  }
  __syncthreads();  // every slice's rows are known
  const int first = (block * kExpertWarps + warp) * slice;
  for (int from = first; from < first + slice && from < c.choices; from += 32) {
    const int i = from + lane, expert = i < c.choices ? chosen[i] : -1;
    const unsigned same = __match_any_sync(0xFFFFFFFFu, expert);
    const int earlier = __popc(same & ((1u << lane) - 1u));
    if (expert >= 0) {
      const int row = next[warp][expert] + earlier;
      source[row] = i, place[i] = row;
    }
    __syncwarp();  // all have read where their expert's rows go on
    if (expert >= 0 && earlier == 0) next[warp][expert] += __popc(same);
    __syncwarp();  // the next 32 see it
  }
  for (int e = block; e < c.experts; e += blocks) {
    for (int row = begins[e] + totals[e] + thread; row < begins[e + 1]; row += kExpertThreads)
      source[row] = -1;
  }
  for (int row = begins[c.experts] + block * kExpertThreads + thread; row < c.rows;
       row += blocks * kExpertThreads)
    source[row] = -1;
  if (block > 0) return;
  for (int e = thread; e <= c.experts; e += kExpertThreads) offsets[e] = begins[e];
}

}  // namespace hydrac::cuda
