#include "runtime/cudnn/forward_bench.h"

#include <algorithm>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/data/hash.h"

namespace hydrac::runtime::cudnn {
namespace {

constexpr double kLeastFlop = 4e10;
constexpr int kSamples = 7;

std::int64_t rounded(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// From a tensor's first byte to its last.
std::int64_t extent(const AttentionProblem& p, const Strides& strides, std::int64_t heads) {
  const std::int64_t last =
      (p.batch - 1) * strides.batch + (p.tokens - 1) * strides.token + (heads - 1) * strides.head;
  return rounded((last + p.head_dim) * 2);
}

std::int64_t lse_bytes(const AttentionProblem& p) {
  return rounded(p.batch * p.heads * p.tokens * 4);
}

// Magnitudes from 1/2 to 1 with random mantissas and signs: zeros would let the GPU run faster than in a
// step.
void fill_random(std::byte* device, std::int64_t bytes, bool bf16, const cuda::Stream& stream) {
  const std::uint16_t half = bf16 ? 0x3F00 : 0x3800, random_bits = bf16 ? 0x807F : 0x83FF;
  std::vector<std::uint16_t> pattern(65521);  // a prime: rows differ
  for (std::size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = static_cast<std::uint16_t>((mix64(i) & random_bits) | half);
  std::int64_t filled = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(pattern.size()) * 2);
  cuda::copy_to_device(device, pattern.data(), filled);
  for (; filled < bytes; filled *= 2)
    cuda::copy_on_device(device + filled, device, std::min(filled, bytes - filled), stream);
}

}  // namespace

bool is_worth_measuring(const AttentionProblem& p) {
  const double scores = static_cast<double>(p.batch * p.heads) * static_cast<double>(p.tokens * p.tokens);
  return 4 * scores * static_cast<double>(p.head_dim) * (p.causal ? 0.5 : 1) >= kLeastFlop;
}

std::int64_t ForwardBench::bytes(const AttentionProblem& p, std::int64_t workspace_bytes) {
  return extent(p, p.q, p.heads) + extent(p, p.k, p.kv_heads) + extent(p, p.v, p.kv_heads) +
         extent(p, p.out, p.heads) + lse_bytes(p) + rounded(workspace_bytes);
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
  fill_random(q, out - q, p.bf16, stream);
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
