// One case of cuDNN's attention on a real GPU and in float64 on the host, for the tests of gpu_cudnn_test.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
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

namespace hydrac::test {

using runtime::cuda::Context;
using runtime::cuda::copy_to_device;
using runtime::cuda::copy_to_host;
using runtime::cuda::DeviceBuffer;
using runtime::cuda::fill_bytes;
using runtime::cuda::Stream;
using namespace runtime::cudnn;

struct Gpu {
  Context context{0};
  Stream stream;
  CudnnAttention attention{context.device()};
};

// The GPU and cuDNN, or nullptr and why not.
inline Gpu* gpu(std::string& reason) {
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

inline std::string text(const Case& c) {
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

inline Layout layout(const Case& c) {
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

inline AttentionProblem problem(const Case& c) {
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

inline std::uint16_t round_to_storage(float x, bool bf16) {
  return bf16 ? from_float<hydrac::bf16>(x).bits : from_float<f16>(x).bits;
}
inline double widen(std::uint16_t bits, bool bf16) {
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

inline AttentionCase shape(int batch, int tokens, int heads, int kv_heads, int head_dim, bool causal = true) {
  return {batch, tokens, heads, kv_heads, head_dim, 0, causal, 0};
}

}  // namespace hydrac::test
