// Reductions of a row over the lanes that share it, and of column sums over the rows that a block shares. All
// are trees of one fixed form: the same bits on every run, and in every lane.
#pragma once
#include "cuda/types.cuh"

namespace hydrac {

constexpr float kLowest = -3.402823466e+38f;  // finite: kLowest - kLowest is 0

HYDRAC_FN float minus_infinity() {
  return float_from_bits(0xFF800000u);
}

// The larger of two floats; b where a is larger than nothing, a where b is NaN.
HYDRAC_FN float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
  return ::fmaxf(a, b);  // one instruction
#else
  return a < b ? b : a;
#endif
}

// One barrier for the `threads` threads (a multiple of 32) that name it.
__device__ inline void named_barrier([[maybe_unused]] int name, [[maybe_unused]] int threads) {
#if defined(__CUDA_ARCH__)
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
#elif defined(HYDRAC_CUDA_EMULATION)
  emulation::named_barrier(name, threads);
#endif
}

__host__ __device__ constexpr int power_of_two_from(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return larger(a, b); }
};

// A block of kRows rows side by side, each held by kLanes lanes: a power of two up to 32, or whole warps. All
// lanes of a row call its functions together; rows need not keep in step.
template <int kLanes, int kRows>
class RowLanes {
 public:
  __device__ RowLanes() : lane(threadIdx.x % kLanes), row(threadIdx.x / kLanes) {}

  static constexpr int count = kLanes;
  const int lane;
  const int row;  // in the block

  // Replaces each value by its sum (largest) over the row's lanes.
  template <typename... Floats>
  __device__ void sum(Floats&... values) {
    reduce<Add>(0.0f, values...);
  }
  template <typename... Floats>
  __device__ void largest(Floats&... values) {
    reduce<Larger>(minus_infinity(), values...);
  }

  // After this, another lane may overwrite what a lane has read before.
  __device__ void sync() const {
    if constexpr (kLanes > 32) {
      row_barrier();
    } else if constexpr (kLanes > 1) {
      __syncwarp(mask());  // the same for a row within a warp
    }
  }

 private:
  static constexpr int kWarps = kLanes > 32 ? kLanes / 32 : 1;

  __device__ unsigned mask() const {
    if constexpr (kLanes >= 32) return 0xFFFFFFFFu;
    return ((1u << (kLanes % 32)) - 1u) << (threadIdx.x % 32 / kLanes * kLanes);
  }

  __device__ void row_barrier() const {
    if constexpr (kRows == 1) {
      __syncthreads();  // every lane of the row is here; the next one may write
    } else {
      named_barrier(row + 1, kLanes);
    }
  }

  template <int kAmong, typename Op>
  __device__ float butterfly(float x) const {
#pragma unroll
    for (int step = kAmong / 2; step > 0; step /= 2) x = Op()(x, __shfl_xor_sync(mask(), x, step));
    return x;
  }

  // Warps exchange in shared memory with one barrier a call. That suffices: the next call but one is the
  // first to write the same places, and its threads have passed the next call's barrier.
  template <typename Op, typename... Floats>
  __device__ void reduce([[maybe_unused]] float neutral, Floats&... values) {
    ((values = butterfly<(kLanes < 32 ? kLanes : 32), Op>(values)), ...);
    if constexpr (kWarps > 1) {
      __shared__ float exchange[2][kRows][sizeof...(Floats)][kWarps];
      const int warp = lane / 32;
      int at = 0;
      if (lane % 32 == 0) ((exchange[turn_][row][at++][warp] = values), ...);
      row_barrier();
      at = 0;
      constexpr int among = power_of_two_from(kWarps);
      const int other = lane % 32 % among;
      ((values = butterfly<among, Op>(other < kWarps ? exchange[turn_][row][at++][other] : (++at, neutral))),
       ...);
      turn_ ^= 1;
    }
  }

  int turn_ = 0;
};

// Adds up the rows' sums of a block, column by column; the lanes of row 0 hold the result. Every thread of
// the block calls it. `sums` are floats and arrays of floats.
template <int kLanes, int kRows, typename... Sums>
__device__ void add_rows(const RowLanes<kLanes, kRows>& lanes, Sums&... sums) {
  if constexpr (kRows > 1) {
    constexpr int kHalf = (kRows + 1) / 2;
    constexpr int kFloats = (static_cast<int>(sizeof(Sums) / sizeof(float)) + ...);
    __shared__ float exchange[kHalf * kFloats * kLanes];
    const auto each = [&](int row, auto work) {  // every float of the thread, and its place in row `row`
      float* place = exchange + row * kFloats * kLanes + lanes.lane;
      const auto all_of = [&](float* floats, int count) {
#pragma unroll
        for (int i = 0; i < count; ++i, place += kLanes) work(floats[i], *place);
      };
      (all_of(reinterpret_cast<float*>(&sums), sizeof(Sums) / sizeof(float)), ...);
    };
#pragma unroll 1
    for (int count = kRows; count > 1;) {
      const int half = (count + 1) / 2;
      __syncthreads();  // those who read these places in the round before are done
      if (lanes.row >= half && lanes.row < count)
        each(lanes.row - half, [](float mine, float& place) { place = mine; });
      __syncthreads();  // rows `half` and later are stored: the others add them
      if (lanes.row + half < count) each(lanes.row, [](float& mine, float place) { mine += place; });
      count = half;
    }
  }
}

// The sum of column `column` over kPartials rows of `width` floats. Every thread of the block (256) calls it:
// thread t with column t % kColumns of the block; the result is valid for t < kColumns.
template <int kColumns, int kPartials>
__device__ float sum_of_partials(const float* workspace, int column, int width) {
  constexpr int kParts = 256 / kColumns, kMine = (kPartials + kParts - 1) / kParts, kAtOnce = 16;
  __shared__ float exchange[kParts][kColumns];
  const int part = threadIdx.x / kColumns;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 1
    for (int first = 0; first < kMine; first += kAtOnce) {
      constexpr int kCount = kMine < kAtOnce ? kMine : kAtOnce;
      float partials[kCount];  // all under way together
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int row = part + (first + i) * kParts;
        partials[i] = row < kPartials ? workspace[static_cast<std::int64_t>(row) * width + column] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum += partials[i];
    }
  }
  exchange[part][threadIdx.x % kColumns] = sum;
  __syncthreads();  // all threads' sums are there
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kParts; ++i) total += exchange[i][threadIdx.x % kColumns];
  return total;
}

// A thread's part in raising *largest to the maximum over all threads. All numbers are >= 0, so their bits
// compare as the floats do, and the order of threads does not matter. L2 serves one request a clock for an
// address, so few threads should ask.
class RunningLargest {
 public:
  __device__ explicit RunningLargest(float* largest) : largest_(reinterpret_cast<int*>(largest)) {}

  __device__ void see(float value) { seen_ = larger(seen_, value); }

  // By each warp, for the threads of it that are here together.
  __device__ void raise() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned here = __activemask();
    const unsigned bits = __reduce_max_sync(here, float_bits(seen_));
    if (static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(here)) - 1) raise_to(bits);
#else
    raise_to(float_bits(seen_));
#endif
  }

  // Raises it once for the block. All threads of the block, whole warps, call this together.
  __device__ void raise_by_block() const {
#if (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800) || defined(HYDRAC_CUDA_EMULATION)
    constexpr unsigned all = 0xFFFFFFFFu;
    __shared__ unsigned of_warps[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned bits = __reduce_max_sync(all, float_bits(seen_));
    __syncthreads();  // of_warps may be another one's, who has read it now
    if (lane == 0) of_warps[warp] = bits;
    __syncthreads();  // one of each warp is there
    if (warp > 0) return;
    const unsigned most = __reduce_max_sync(all, lane < blockDim.x / 32 ? of_warps[lane] : 0u);
    if (lane == 0) raise_to(most);
#else
    raise();
#endif
  }

 private:
  __device__ void raise_to(unsigned bits) const {
    if (static_cast<int>(bits) > *static_cast<volatile const int*>(largest_))
      atomicMax(largest_, static_cast<int>(bits));
  }

  int* largest_;
  float seen_ = 0.0f;
};

}  // namespace hydrac
