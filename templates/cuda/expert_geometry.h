// How the choices of experts become rows that are sorted by expert: sizes that the compiler and the kernels
// of cuda/expert_rows.cuh share. Plain C++; no CUDA.
#pragma once
#include <cstdint>

#include "hydrac/math.h"

namespace hydrac::cuda {

// `choices`: of all tokens together, each an expert below `experts`. `rows`: the most that there may be, with
// every expert's rows padded to a multiple of `unit`.
struct ExpertChoices {
  int choices, experts, unit, rows;
};

inline constexpr int kExpertThreads = 256, kExpertWarps = kExpertThreads / 32;

// A warp's slice of the choices, whole warps of them; and the blocks, few enough that each may add up what
// all before it have counted.
HYDRAC_FN constexpr int expert_slice(const ExpertChoices& c) {
  constexpr int most_warps = 64 * kExpertWarps;
  return (c.choices + most_warps * 32 - 1) / (most_warps * 32) * 32;
}
HYDRAC_FN constexpr int expert_blocks(const ExpertChoices& c) {
  const int block_choices = expert_slice(c) * kExpertWarps;
  return (c.choices + block_choices - 1) / block_choices;
}
HYDRAC_FN constexpr std::int64_t expert_workspace_bytes(const ExpertChoices& c) {
  return std::int64_t{4} * expert_blocks(c) * c.experts;
}

}  // namespace hydrac::cuda
