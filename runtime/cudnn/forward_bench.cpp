#include "runtime/cudnn/forward_bench.h"

#include <algorithm>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/random_fill.h"

namespace hydrac::runtime::cudnn {
namespace {

constexpr double kLeastFlop = 4e10;
constexpr int kSamples = 7;

// From a tensor's first byte to its last.
std::int64_t extent(const AttentionProblem& p, const Strides& strides, std::int64_t heads) {
  const std::int64_t last =
      (p.batch - 1) * strides.batch + (p.tokens - 1) * strides.token + (heads - 1) * strides.head;
  return cuda::aligned((last + p.head_dim) * 2);
}

std::int64_t lse_bytes(const AttentionProblem& p) {
  return cuda::aligned(p.batch * p.heads * p.tokens * 4);
}

}  // namespace

bool is_worth_measuring(const AttentionProblem& p) {
  const double scores = static_cast<double>(p.batch * p.heads) * static_cast<double>(p.tokens * p.tokens);
  return 4 * scores * static_cast<double>(p.head_dim) * (p.causal ? 0.5 : 1) >= kLeastFlop;
}

std::int64_t ForwardBench::bytes(const AttentionProblem& p, std::int64_t workspace_bytes) {
  return extent(p, p.q, p.heads) + extent(p, p.k, p.kv_heads) + extent(p, p.v, p.kv_heads) +
         extent(p, p.out, p.heads) + lse_bytes(p) + cuda::aligned(workspace_bytes);
}

ForwardBench::ForwardBench(const AttentionProblem& p, std::byte* scratch, const cuda::Stream& stream)
    : stream_(stream) {
  auto take = [at = scratch](std::int64_t bytes) mutable {
    std::byte* const place = at;
    at += bytes;
    return place;
  };
  std::byte* const q = take(extent(p, p.q, p.heads));
  std::byte* const k = take(extent(p, p.k, p.kv_heads));
  std::byte* const v = take(extent(p, p.v, p.kv_heads));
  std::byte* const out = take(extent(p, p.out, p.heads));
  stream.synchronize();  // what was in scratch may still be in use
  cuda::fill_random(q, out - q, p.bf16 ? cuda::ElementType::bf16 : cuda::ElementType::f16, stream);
  pointers_ = {q, k, v, out, reinterpret_cast<float*>(take(lse_bytes(p)))};
  workspace_ = take(0);
}

double ForwardBench::ms(const Run& run) const {
  const cuda::Event start(cuda::Event::Use::timing), end(cuda::Event::Use::timing);
  run(pointers_, workspace_);  // it loads the kernel, too
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    start.record(stream_);
    run(pointers_, workspace_);
    end.record(stream_);
    end.synchronize();
    samples.push_back(end.ms_since(start));
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

}  // namespace hydrac::runtime::cudnn
