// The time of cuDNN's attention, a disabled test:
//   gpu_cudnn_test --gtest_also_run_disabled_tests --gtest_filter='*Timing*'
#include <algorithm>
#include <random>

#include "cudnn_trial.h"

namespace hydrac::test {
namespace {

template <class Queue>
double time_ms(Gpu& gpu, const Queue& queue) {
  const auto graph = runtime::cuda::Graph::capture(gpu.stream, [&] {
    for (int i = 0; i < 10; ++i) queue();
  });
  std::vector<double> times;
  for (int repeat = 0; repeat < 8; ++repeat) {
    using runtime::cuda::Event;
    const Event start(Event::Use::timing), end(Event::Use::timing);
    start.record(gpu.stream);
    graph.launch(gpu.stream);
    end.record(gpu.stream);
    gpu.stream.synchronize();
    if (repeat > 0) times.push_back(end.ms_since(start) / 10);  // the first warms up
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Fills with a repeated block of random numbers of type bf16.
void fill_random(const DeviceBuffer& buffer) {
  std::mt19937 random(1);
  std::vector<std::uint16_t> block(1 << 20);
  for (std::uint16_t& x : block) {
    x = round_to_storage(static_cast<float>(random() >> 8) * (3.4f / (1 << 24)) - 1.7f, true);
  }
  const std::int64_t bytes = static_cast<std::int64_t>(block.size()) * 2;
  for (std::int64_t at = 0; at < buffer.bytes(); at += bytes) {
    copy_to_device(buffer.data() + at, block.data(), std::min(bytes, buffer.bytes() - at));
  }
}

TEST_F(CudnnAttentionTest, DISABLED_Timing) {
  for (const AttentionCase& s : {shape(64, 1024, 12, 12, 64), shape(16, 2048, 12, 4, 64),
                                 shape(4, 4096, 32, 8, 64), shape(4, 4096, 32, 8, 128)}) {
    for (const bool deterministic : {true, false}) {
      const Case c{s, true, true, deterministic};
      const Layout l = layout(c);
      const AttentionProblem p = problem(c);
      const DeviceBuffer data(l.elements * 2), lse(p.batch * p.heads * p.tokens * 4);
      fill_random(data);
      const auto at = [&](std::int64_t element) { return data.data() + element * 2; };
      float* const rows = reinterpret_cast<float*>(lse.data());
      const ForwardPointers forward{at(l.q), at(l.k), at(l.v), at(l.out), rows};
      const BackwardPointers backward{at(l.q), at(l.k),   at(l.v),   at(l.out), at(l.d_out),
                                      rows,    at(l.d_q), at(l.d_k), at(l.d_v)};
      // Half of the scores are masked.
      const double tflop = 2.0 * s.batch * s.heads * s.tokens * double(s.tokens) * s.head_dim * 1e-12;
      const auto measure = [&](const char* pass, const Plan& plan, const auto& pointers, double work) {
        const DeviceBuffer workspace(std::max<std::int64_t>(plan.workspace_bytes(), 256));
        const double ms =
            time_ms(*gpu_, [&] { gpu_->attention.run(plan, pointers, workspace.data(), gpu_->stream); });
        std::printf("TIME %s %s: %.3f ms, %.0f TFLOP/s; %s\n", text(c).c_str(), pass, ms, work / ms * 1e3,
                    plan.description().c_str());
        std::fflush(stdout);
      };
      if (deterministic) measure("forward", gpu_->attention.forward(p), forward, tflop);
      measure("backward", gpu_->attention.backward(p), backward, 2.5 * tflop);
    }
  }
}

}  // namespace
}  // namespace hydrac::test
