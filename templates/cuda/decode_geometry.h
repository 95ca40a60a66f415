// How attention over a cache of keys and values is launched. Plain C++; no CUDA.
#pragma once
#include <cstdint>

namespace hydrac::cuda {

struct DecodeProblem {
  int sequences, context;  // the cache's: sequences, and the tokens that each has room for
  int heads, kv_heads, head_dim;
  int multiprocessors;
};

inline constexpr int kDecodeThreads = 128, kMostDecodeHeads = 8;

// A block works on some of the query heads that share a kv head, and on a part of the sequence's keys. Parts
// depend on the problem alone, so that a sequence's result does not depend on the others.
struct DecodeLaunch {
  int heads;   // of a block
  int keys;    // of a part
  int parts;   // of a sequence; of several, a second kernel adds up
  int blocks;  // of the first kernel
};

constexpr int divide_up(int a, int b) {
  return (a + b - 1) / b;
}

constexpr DecodeLaunch decode_launch(const DecodeProblem& p) {
  constexpr int least_keys = 128, blocks_per_multiprocessor = 3;
  const int group = p.heads / p.kv_heads;
  int heads = group < kMostDecodeHeads ? group : kMostDecodeHeads;
  while (group % heads != 0) --heads;
  const int whole = p.sequences * p.heads / heads;  // blocks, if each had all keys
  const int most = divide_up(p.context, least_keys);
  int wanted = divide_up(blocks_per_multiprocessor * p.multiprocessors, whole);
  if (wanted > most) wanted = most;
  if (wanted < 1) wanted = 1;  // of a GPU whose multiprocessors are not known
  const int keys = divide_up(divide_up(p.context, wanted), 64) * 64;
  const int parts = divide_up(p.context, keys);
  return {heads, keys, parts, whole * parts};
}

// Results of the first kernel for the second: for each query head and part the weighted sums of values, the
// largest score, and the sum of exp(score - largest).
constexpr std::int64_t decode_workspace_bytes(const DecodeProblem& p) {
  const std::int64_t parts = decode_launch(p).parts;
  return parts == 1 ? 0 : parts * p.sequences * p.heads * (p.head_dim + 2) * 4;
}

}  // namespace hydrac::cuda
