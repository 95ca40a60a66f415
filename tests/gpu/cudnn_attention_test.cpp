// cuDNN's attention on a real GPU, against float64 on the host. Timing is a disabled test:
//   gpu_cudnn_test --gtest_also_run_disabled_tests --gtest_filter='*Timing*'
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "attention_reference.h"
#include "cuda/types.cuh"
#include "runtime/cuda/device.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/stream.h"
#include "runtime/cudnn/attention.h"
#include "runtime/error.h"

namespace hydrac {
namespace {

using runtime::RunError;
using runtime::cuda::Context;
using runtime::cuda::copy_to_device;
using runtime::cuda::copy_to_host;
using runtime::cuda::DeviceBuffer;
using runtime::cuda::Event;
using runtime::cuda::fill_bytes;
using runtime::cuda::Graph;
using runtime::cuda::Stream;
using namespace runtime::cudnn;
using test::AttentionCase;
using test::AttentionTensors;

struct Gpu {
  Context context{0};
  Stream stream;
  CudnnAttention attention{context.device()};
};

// The GPU and cuDNN, or nullptr and why not.
Gpu* gpu(std::string& reason) {
  static std::string why;
  static Gpu* const one = []() -> Gpu* {
    try {
      return new Gpu();
    } catch (const std::exception& error) {
      why = error.what();
      return nullptr;
    }
  }();
  reason = why;
  return one;
}

class CudnnAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    gpu_ = gpu(reason);
    if (gpu_ != nullptr) return;
    std::printf("SKIPPED, no GPU with cuDNN: %s\n", reason.c_str());
    GTEST_SKIP() << reason;
  }
  Gpu* gpu_ = nullptr;
};

struct Case {
  AttentionCase shape;
  bool bf16 = true;
  bool packed = true;
  bool deterministic = true;
};

std::string text(const Case& c) {
  return fmt::format("B{}_T{}_H{}_K{}_D{}{}{}{}{}", c.shape.batch, c.shape.tokens, c.shape.heads,
                     c.shape.kv_heads, c.shape.head_dim, c.shape.causal ? "_causal" : "_full",
                     c.bf16 ? "_bf16" : "_f16", c.packed ? "_packed" : "_apart",
                     c.deterministic ? "" : "_any_order");
}

// Where the tensors of a case lie in one buffer of 16-bit elements, with room between them that nobody may
// write.
struct Layout {
  std::int64_t q = 0, k = 0, v = 0, out = 0, d_out = 0, d_q = 0, d_k = 0, d_v = 0, elements = 0;
};

constexpr std::int64_t kGap = 512;

Layout layout(const Case& c) {
  const std::int64_t rows = std::int64_t{c.shape.batch} * c.shape.tokens;
  const std::int64_t q_width = c.shape.heads * c.shape.head_dim,
                     kv_width = c.shape.kv_heads * c.shape.head_dim;
  std::int64_t next = kGap;
  const auto take = [&](std::int64_t width) {
    const std::int64_t at = next;
    next += rows * width + kGap;
    return at;
  };
  Layout l;
  if (c.packed) {
    l.q = take(q_width + 2 * kv_width), l.k = l.q + q_width, l.v = l.k + kv_width;
    l.d_q = take(q_width + 2 * kv_width), l.d_k = l.d_q + q_width, l.d_v = l.d_k + kv_width;
  } else {
    l.q = take(q_width), l.k = take(kv_width), l.v = take(kv_width);
    l.d_q = take(q_width), l.d_k = take(kv_width), l.d_v = take(kv_width);
  }
  l.out = take(q_width), l.d_out = take(q_width);
  l.elements = next;
  return l;
}

AttentionProblem problem(const Case& c) {
  const AttentionCase& s = c.shape;
  AttentionProblem p{.batch = s.batch,
                     .tokens = s.tokens,
                     .heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .head_dim = s.head_dim,
                     .scale = static_cast<float>(s.scale()),
                     .causal = s.causal,
                     .bf16 = c.bf16,
                     .deterministic = c.deterministic};
  p.q = p.out = p.d_out = p.d_q = dense(s.tokens, s.heads, s.head_dim);
  p.k = p.v = p.d_k = p.d_v = dense(s.tokens, s.kv_heads, s.head_dim);
  if (c.packed) {
    const std::int64_t token = std::int64_t{s.heads + 2 * s.kv_heads} * s.head_dim;
    p.q = p.k = p.v = p.d_q = p.d_k = p.d_v = {s.tokens * token, token, s.head_dim};
  }
  return p;
}

std::uint16_t round_to_storage(float x, bool bf16) {
  return bf16 ? from_float<hydrac::bf16>(x).bits : from_float<f16>(x).bits;
}
double widen(std::uint16_t bits, bool bf16) {
  return bf16 ? to_float(hydrac::bf16{bits}) : to_float(f16{bits});
}

// One case on the GPU and on the host.
class Trial {
 public:
  Trial(Gpu& gpu, const Case& c, unsigned seed = 1)
      : gpu_(gpu), case_(c), layout_(layout(c)), problem_(problem(c)), elements_(layout_.elements, kPoison) {
    std::mt19937 random(seed);
    const auto draw = [&](std::int64_t at, std::int64_t heads, const Strides& strides) {
      std::vector<double> values;
      each(at, heads, strides, [&](std::int64_t element) {
        const float x = static_cast<float>(random() >> 8) * (3.4f / (1 << 24)) - 1.7f;
        elements_[element] = round_to_storage(x, case_.bf16);
        values.push_back(widen(elements_[element], case_.bf16));
      });
      return values;
    };
    reference_.q = draw(layout_.q, c.shape.heads, problem_.q);
    reference_.k = draw(layout_.k, c.shape.kv_heads, problem_.k);
    reference_.v = draw(layout_.v, c.shape.kv_heads, problem_.v);
    reference_.d_out = draw(layout_.d_out, c.shape.heads, problem_.d_out);
    data_ = DeviceBuffer(layout_.elements * 2);
    lse_ = DeviceBuffer(lse_count() * 4);
    const auto start = std::chrono::steady_clock::now();
    forward_ = gpu.attention.forward(problem_);
    const auto middle = std::chrono::steady_clock::now();
    backward_ = gpu.attention.backward(problem_);
    const auto end = std::chrono::steady_clock::now();
    const auto ms = [](auto duration) { return std::chrono::duration<double, std::milli>(duration).count(); };
    std::printf("  forward  %s (%.0f ms)\n  backward %s (%.0f ms)\n", forward_->description().c_str(),
                ms(middle - start), backward_->description().c_str(), ms(end - middle));
    workspace_ = DeviceBuffer(
        std::max<std::int64_t>(256, std::max(forward_->workspace_bytes(), backward_->workspace_bytes())));
  }

  // Inputs as drawn, everything else poisoned, scratch too.
  void upload() {
    copy_to_device(data_.data(), elements_.data(), layout_.elements * 2);
    fill_bytes(lse_.data(), 0xFF, lse_.bytes(), gpu_.stream);
    fill_bytes(workspace_.data(), 0xFF, workspace_.bytes(), gpu_.stream);
    gpu_.stream.synchronize();
  }
  void queue(CudnnAttention& attention, const Plan& plan) {
    const ForwardPointers pointers{at(layout_.q), at(layout_.k), at(layout_.v), at(layout_.out), lse()};
    attention.run(plan, pointers, workspace_.data(), gpu_.stream);
  }
  void queue_gradients(CudnnAttention& attention, const Plan& plan) {
    const BackwardPointers pointers{at(layout_.q),   at(layout_.k),     at(layout_.v),
                                    at(layout_.out), at(layout_.d_out), lse(),
                                    at(layout_.d_q), at(layout_.d_k),   at(layout_.d_v)};
    attention.run(plan, pointers, workspace_.data(), gpu_.stream);
  }
  // Every byte of the tensors and of lse.
  std::vector<std::uint16_t> download() {
    gpu_.stream.synchronize();
    std::vector<std::uint16_t> all(layout_.elements + lse_count() * 2);
    copy_to_host(all.data(), data_.data(), layout_.elements * 2);
    copy_to_host(all.data() + layout_.elements, lse_.data(), lse_.bytes());
    return all;
  }
  std::vector<std::uint16_t> run() { return run(gpu_.attention, *forward_, *backward_); }
  std::vector<std::uint16_t> run(CudnnAttention& attention, const Plan& forward, const Plan& backward) {
    upload();
    queue(attention, forward);
    queue_gradients(attention, backward);
    return download();
  }

  void expect_near_reference(const std::vector<std::uint16_t>& all) {
    attention_reference(case_.shape, reference_);
    // A few tokens' gradients are small differences of rounded numbers.
    const double tolerance = (case_.bf16 ? 8e-3 : 1e-3) * (case_.shape.tokens < 16 ? 3 : 1);
    const AttentionCase& s = case_.shape;
    expect_near("out", all, layout_.out, s.heads, problem_.out, reference_.out, tolerance);
    expect_near("d_q", all, layout_.d_q, s.heads, problem_.d_q, reference_.d_q, tolerance);
    expect_near("d_k", all, layout_.d_k, s.kv_heads, problem_.d_k, reference_.d_k, tolerance);
    expect_near("d_v", all, layout_.d_v, s.kv_heads, problem_.d_v, reference_.d_v, tolerance);
    double largest = 0;
    for (std::int64_t i = 0; i < lse_count(); ++i) {
      float value;
      std::memcpy(&value, &all[layout_.elements + i * 2], 4);
      const double error = std::abs(value - reference_.lse[i]);
      largest = error > largest || std::isnan(error) ? error : largest;
    }
    std::printf("  lse %.1e\n", largest);
    EXPECT_LT(largest, 1e-4) << "lse";
  }

  // Inputs and the room between tensors are as they were.
  void expect_nothing_else_written(const std::vector<std::uint16_t>& all) {
    std::vector<bool> output(layout_.elements);
    const auto mark = [&](std::int64_t at, std::int64_t heads, const Strides& strides) {
      each(at, heads, strides, [&](std::int64_t element) { output[element] = true; });
    };
    mark(layout_.out, case_.shape.heads, problem_.out);
    mark(layout_.d_q, case_.shape.heads, problem_.d_q);
    mark(layout_.d_k, case_.shape.kv_heads, problem_.d_k);
    mark(layout_.d_v, case_.shape.kv_heads, problem_.d_v);
    std::int64_t changed = 0;
    for (std::int64_t i = 0; i < layout_.elements; ++i) changed += !output[i] && all[i] != elements_[i];
    EXPECT_EQ(changed, 0) << "elements that are no output were written";
  }

  const AttentionProblem& the_problem() const { return problem_; }
  const Plan& forward() const { return *forward_; }
  const Plan& backward() const { return *backward_; }
  void* at(std::int64_t element) { return data_.data() + element * 2; }
  float* lse() { return reinterpret_cast<float*>(lse_.data()); }
  DeviceBuffer& workspace() { return workspace_; }
  const Layout& places() const { return layout_; }

 private:
  static constexpr std::uint16_t kPoison = 0xFFFF;  // NaN in both types

  std::int64_t lse_count() const { return problem_.batch * problem_.heads * problem_.tokens; }

  // In the order of the reference's [B,T,heads,D].
  template <class Visit>
  void each(std::int64_t at, std::int64_t heads, const Strides& strides, const Visit& visit) const {
    for (std::int64_t b = 0; b < problem_.batch; ++b) {
      for (std::int64_t t = 0; t < problem_.tokens; ++t) {
        for (std::int64_t h = 0; h < heads; ++h) {
          for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
            visit(at + b * strides.batch + t * strides.token + h * strides.head + d);
          }
        }
      }
    }
  }

  void expect_near(const char* name, const std::vector<std::uint16_t>& all, std::int64_t at,
                   std::int64_t heads, const Strides& strides, const std::vector<double>& reference,
                   double tolerance) {
    double difference = 0, norm = 0;
    std::size_t next = 0;
    each(at, heads, strides, [&](std::int64_t element) {
      const double expected = reference[next++];
      const double error = widen(all[element], case_.bf16) - expected;
      difference += error * error;
      norm += expected * expected;
    });
    const double relative = std::sqrt(difference / norm);
    std::printf("  %s %.1e", name, relative);
    EXPECT_LT(relative, tolerance) << name;
  }

  Gpu& gpu_;
  Case case_;
  Layout layout_;
  AttentionProblem problem_;
  std::vector<std::uint16_t> elements_;
  AttentionTensors reference_;
  DeviceBuffer data_, lse_, workspace_;
  std::optional<Plan> forward_, backward_;
};

AttentionCase shape(int batch, int tokens, int heads, int kv_heads, int head_dim, bool causal = true) {
  return {batch, tokens, heads, kv_heads, head_dim, 0, causal, 0};
}

class CudnnAttentionCase : public CudnnAttentionTest, public testing::WithParamInterface<Case> {};

TEST_P(CudnnAttentionCase, OutputAndGradientsAreNearFloat64AndTheSameInEveryRun) {
  Trial trial(*gpu_, GetParam());
  const auto first = trial.run();
  trial.expect_near_reference(first);
  trial.expect_nothing_else_written(first);
  if (!GetParam().deterministic) return;
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_TRUE(first == trial.run()) << "run " << repeat + 2 << " gave other bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttentionCase,
                         testing::Values(Case{shape(2, 256, 4, 4, 64)},                     //
                                         Case{shape(2, 1000, 4, 4, 64)},                    //
                                         Case{shape(2, 1000, 6, 2, 64)},                    //
                                         Case{shape(2, 1000, 6, 2, 64), false},             //
                                         Case{shape(2, 384, 6, 2, 128)},                    //
                                         Case{shape(1, 333, 8, 1, 128), false, false},      //
                                         Case{shape(3, 257, 3, 3, 96), true, false},        //
                                         Case{shape(2, 200, 4, 2, 40)},                     //
                                         Case{shape(2, 65, 2, 2, 32)},                      //
                                         Case{shape(1, 2, 1, 1, 64)},                       //
                                         Case{shape(2, 300, 4, 2, 64, false)},              //
                                         Case{shape(2, 512, 4, 4, 64), true, true, false},  //
                                         Case{shape(2, 1000, 6, 2, 64), true, true, false}),
                         [](const auto& info) { return text(info.param); });

TEST_F(CudnnAttentionTest, HeadsOf256ElementsWorkOnHopper) {
  if (gpu_->context.device().capability / 10 != 9) GTEST_SKIP() << "only compute capability 9.x has them";
  Trial trial(*gpu_, {shape(1, 300, 2, 1, 256)});
  trial.expect_near_reference(trial.run());
}

TEST_F(CudnnAttentionTest, ACapturedGraphGivesTheSameBits) {
  // 1000 tokens: before cuDNN 9.15.1 the gradients fill an array of lengths, which must be captured too.
  Trial trial(*gpu_, {shape(2, 1000, 6, 2, 64)});
  const auto eager = trial.run();
  const Graph graph = Graph::capture(gpu_->stream, [&] {
    trial.queue(gpu_->attention, trial.forward());
    trial.queue_gradients(gpu_->attention, trial.backward());
  });
  EXPECT_GE(graph.nodes(), 2u);
  for (int repeat = 0; repeat < 2; ++repeat) {
    trial.upload();
    graph.launch(gpu_->stream);
    EXPECT_TRUE(eager == trial.download()) << "launch " << repeat + 1;
  }
}

TEST_F(CudnnAttentionTest, APlanIsMadeOnce) {
  const AttentionProblem p = problem({shape(2, 128, 4, 4, 64)});
  const std::string first = gpu_->attention.backward(p).description();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(gpu_->attention.backward(p).description(), first);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1e-3);
  EXPECT_TRUE(first.starts_with(gpu_->attention.name() + " engine ")) << first;
}

TEST_F(CudnnAttentionTest, APlanFromTheCacheIsThereAtOnceAndGivesTheSameBits) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("hydrac-cudnn-{}", getpid());
  const Case c{shape(2, 320, 4, 2, 72)};
  const auto run_cached = [&](double& seconds) {
    CudnnAttention attention(gpu_->context.device(), folder);
    const auto start = std::chrono::steady_clock::now();
    const Plan forward = attention.forward(problem(c)), backward = attention.backward(problem(c));
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Trial trial(*gpu_, c);
    return trial.run(attention, forward, backward);
  };
  double made = 0, read = 0;
  const auto first = run_cached(made), second = run_cached(read);
  std::printf("  made in %.0f ms, read in %.1f ms\n", made * 1e3, read * 1e3);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
  fs::remove_all(folder);
  EXPECT_TRUE(first == second);
  EXPECT_LT(read, 0.1);
}

TEST_F(CudnnAttentionTest, TheFastestPlanIsMeasuredOnceAndRemembered) {
  namespace fs = std::filesystem;
  const AttentionProblem p = problem({shape(64, 1024, 12, 12, 64)}),
                         small = problem({shape(2, 256, 4, 4, 64)});
  const fs::path folder = fs::temp_directory_path() / "hydrac-cudnn-fastest";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const DeviceBuffer scratch(std::int64_t{1} << 30);
  const auto files = [&] { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); };
  std::string engine;
  {
    CudnnAttention attention(gpu_->context.device(), folder);
    // No room to measure in: the favourite, and the next call may still find a faster one.
    EXPECT_EQ(attention.fastest_forward(p, gpu_->stream, scratch.data(), 1 << 20).engine(),
              gpu_->attention.forward(p).engine());
    EXPECT_EQ(files(), 0);
    const Plan fastest = attention.fastest_forward(p, gpu_->stream, scratch.data(), scratch.bytes());
    engine = fastest.engine();
    EXPECT_EQ(files(), 1);
    EXPECT_LE(fastest.workspace_bytes(), attention.forward(p).workspace_bytes());
    // Not worth measuring.
    EXPECT_EQ(attention.fastest_forward(small, gpu_->stream, nullptr, 0).engine(),
              attention.forward(small).engine());
  }
  std::printf("  the favourite: %s, the fastest: %s\n", gpu_->attention.forward(p).engine().c_str(),
              engine.c_str());
  CudnnAttention again(gpu_->context.device(), folder);
  EXPECT_EQ(again.fastest_forward(p, gpu_->stream, nullptr, 0).engine(), engine);
  fs::remove_all(folder);
}

TEST_F(CudnnAttentionTest, WhatCudnnCannotDoIsAnErrorThatSaysWhy) {
  const AttentionProblem p = problem({shape(2, 128, 4, 4, 264)});
  const std::string reason = *unsupported_reason(p, gpu_->context.device().capability);
  try {
    gpu_->attention.forward(p);
    FAIL() << "head_dim 264 has a plan";
  } catch (const RunError& error) {
    EXPECT_EQ(error.what(), reason);
  }
}

TEST_F(CudnnAttentionTest, AddressesOfTheWrongPassOrAlignmentAreRefused) {
  Trial trial(*gpu_, {shape(2, 128, 4, 4, 64)});
  const Layout& l = trial.places();
  const ForwardPointers pointers{trial.at(l.q), trial.at(l.k), trial.at(l.v), trial.at(l.out), trial.lse()};
  EXPECT_THROW(gpu_->attention.run(trial.backward(), pointers, trial.workspace().data(), gpu_->stream),
               std::logic_error);
  ForwardPointers shifted = pointers;
  shifted.v = trial.at(l.v + 1);
  EXPECT_THROW(gpu_->attention.run(trial.forward(), shifted, trial.workspace().data(), gpu_->stream),
               std::logic_error);
}

// Milliseconds of one call, the median of 7 graphs of 10.
template <class Queue>
double time_ms(Gpu& gpu, const Queue& queue) {
  const Graph graph = Graph::capture(gpu.stream, [&] {
    for (int i = 0; i < 10; ++i) queue();
  });
  std::vector<double> times;
  for (int repeat = 0; repeat < 8; ++repeat) {
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
}  // namespace hydrac
