// cuda/barrier.cuh for emulated kernels of one block: barriers that threads look at again and again.
#pragma once
#include <cstring>

#include "cuda/ptx.cuh"

namespace hydrac::barrier {

constexpr int kBytes = 8;  // of shared memory

struct State {
  std::int16_t count, missing;
  std::int32_t bytes_and_phase;  // 2 * bytes that copies will bring + parity of the phase
};

// Changes a barrier, and ends its phase where nothing is missing any more.
template <class Change>
void change(std::uint32_t barrier, Change change) {
  State state;
  std::memcpy(&state, ptx::shared_at(barrier), sizeof state);
  change(state);
  if (state.missing == 0 && state.bytes_and_phase / 2 == 0) {
    state.missing = state.count;
    state.bytes_and_phase ^= 1;
  }
  std::memcpy(ptx::shared_at(barrier), &state, sizeof state);
}

inline void init(std::uint32_t barrier, int count) {
  const auto all = static_cast<std::int16_t>(count);
  const State state{all, all, 0};
  std::memcpy(ptx::shared_at(barrier), &state, sizeof state);
}
inline void arrive(std::uint32_t barrier) {
  change(barrier, [](State& state) { --state.missing; });
}
inline void arrive_at(std::uint32_t barrier, std::uint32_t) {
  arrive(barrier);
}
inline void publish() {}
inline void expect(std::uint32_t barrier, int bytes) {
  change(barrier, [&](State& state) { state.bytes_and_phase += 2 * bytes, --state.missing; });
}
// Bytes that copies have brought, after they were announced.
inline void complete(std::uint32_t barrier, int bytes) {
  change(barrier, [&](State& state) { state.bytes_and_phase -= 2 * bytes; });
}
inline void arrive_with_copy(std::uint32_t barrier, std::uint32_t to, const void* from, int bytes) {
  std::memcpy(ptx::shared_at(to), from, static_cast<std::size_t>(bytes));
  arrive(barrier);
}
inline void wait(std::uint32_t barrier, int phase) {
  for (;;) {
    State state;
    std::memcpy(&state, ptx::shared_at(barrier), sizeof state);
    if ((state.bytes_and_phase & 1) != (phase & 1)) return;
    emulation::state.yield({"mbarrier.try_wait", nullptr, 0});
  }
}

inline void wait_patiently(std::uint32_t barrier, std::uint32_t parity) {
  wait(barrier, static_cast<int>(parity));
}

// The block's own barriers: how many threads have arrived, and how often all have.
inline int arrived[16], ended[16];

template <int threads>
void block_arrive(int name) {
  if (++arrived[name] == threads) arrived[name] = 0, ++ended[name];
}
template <int threads>
void block_sync(int name) {
  const int before = ended[name];
  block_arrive<threads>(name);
  while (ended[name] == before) emulation::state.yield({"bar.sync", nullptr, 0});
}

}  // namespace hydrac::barrier
