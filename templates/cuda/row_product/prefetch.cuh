// The warps of a row product that multiply nothing bring the epilogue's operands to the second-level cache.
#pragma once
#include "cuda/previous_kernel.cuh"
#include "cuda/row_product/epilogue.cuh"

namespace hydrac::cuda {

// By 96 threads: loads what the block's epilogue will, and forgets it.
template <class Config, class Epilogue>
__device__ __forceinline__ void prefetch_rows(std::int64_t rows, const RowProductPlace& place,
                                              const Epilogue& epilogue) {
  if constexpr (!__is_empty(typename Epilogue::Operands)) {
    wait_for_previous_kernel();
    launch_next_kernel();
    const std::int64_t below = rows - place.row;
    const int vectors = Config::row_threads * static_cast<int>(below < Config::rows ? below : Config::rows);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % 128 - 32; i < vectors; i += 96) {
      RowOperands<Epilogue> operands;
      operands.load(epilogue, place.row + i / Config::row_threads, i % Config::row_threads * 8);
      operands.forget();
    }
  }
}

}  // namespace hydrac::cuda
