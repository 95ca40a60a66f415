// Tests attention's forward pass with matmuls of 8 bits on a GPU: lse and out against those of the rounded
// operands in float64, that all of each output is written and nothing past it, and that a second run gives
// the same bits. Bounds are what the 14 bits of the matmuls' sums and rounding the probabilities explain.
// `--time` times it instead, the operands' kernel apart.
//   nvcc -std=c++20 -O3 -I. -Itemplates -Itemplates/include -Itests/gpu -gencode arch=compute_90a,code=sm_90a
//     tests/gpu/fp8_attention_test.cu -o fp8_attention_test
#include <cstring>
#include <string>

#include "attention_device.cuh"
#include "device_array.cuh"
#include "fp8_attention_reference.h"

namespace hydrac::test {
namespace {

using cuda::AttentionKernel;

int failures = 0;

template <int head_dim>
constexpr cuda::AttentionProblem problem_of(int batch, int tokens, int heads, int kv_heads) {
  return {90, 2, true, false, batch, tokens, heads, kv_heads, head_dim};
}
template <int head_dim, AttentionKernel kernel, class Mask>
using ConfigOf = cuda::AttentionConfig<bf16, head_dim, AttentionFamily::hopper,
                                       attention_tile(problem_of<head_dim>(1, 1, 1, 1), kernel), Mask,
                                       LinearScores, false>;

struct Tensors {
  Heads<const bf16> q, k, v;
  Heads<bf16> out;
  float* lse;
  void* workspace;
  const std::int32_t* documents;
};

template <class Config>
__global__ void __launch_bounds__(Config::threads, Config::tile.blocks_per_sm)
    operands(Tensors x, AttentionShape shape) {
  cuda::attention_fp8_operands<Config>(shape, x.k, x.v, x.workspace);
}
template <class Config>
__global__ void __launch_bounds__(Config::threads + 128, Config::tile.blocks_per_sm)
    forward(Tensors x, AttentionShape shape) {
  if constexpr (Config::Mask::has_documents) {
    const int batch = cuda::sequence_of_fp8_queries<Config>(shape);
    const cuda::PackedShape packed{shape, x.documents + std::int64_t{2} * shape.tokens * batch};
    cuda::attention_fp8_forward<Config>(packed, x.q, x.out, x.lse, x.workspace);
  } else {
    cuda::attention_fp8_forward<Config>(shape, x.q, x.out, x.lse, x.workspace);
  }
}

template <int head_dim, class Mask>
struct Fp8Attention {
  AttentionCase c;
  cuda::AttentionProblem problem = problem_of<head_dim>(c.batch, c.tokens, c.heads, c.kv_heads);
  AttentionShape shape{{c.tokens, c.heads, c.kv_heads, static_cast<float>(c.scale()), c.window, 0.0f},
                       c.batch};
  std::size_t tokens = static_cast<std::size_t>(c.batch) * c.tokens;
  std::vector<bf16> q = random_values<bf16>(tokens * c.heads * head_dim, 1),
                    k = random_values<bf16>(tokens * c.kv_heads * head_dim, 2),
                    v = random_values<bf16>(tokens * c.kv_heads * head_dim, 3);
  DeviceArray<bf16> q_{q}, k_{k}, v_{v}, out{q.size()};
  DeviceArray<float> lse{tokens * c.heads};
  DeviceArray<unsigned char> workspace{attention_fp8_workspace(problem)};
  DeviceArray<std::int32_t> documents{c.documents()};
  Tensors x{heads<const bf16>(q_.get(), c.heads),
            heads<const bf16>(k_.get(), c.kv_heads),
            heads<const bf16>(v_.get(), c.kv_heads),
            heads<bf16>(out.get(), c.heads),
            lse.get(),
            workspace.get(),
            documents.get()};

  template <class T>
  Heads<T> heads(T* data, int count) const {
    return {data, static_cast<std::int64_t>(count) * head_dim * c.tokens,
            static_cast<std::int64_t>(count) * head_dim, head_dim};
  }
  void run_operands() {
    using Config = ConfigOf<head_dim, AttentionKernel::fp8_operands, Mask>;
    const auto launch = attention_launch(problem, AttentionKernel::fp8_operands);
    operands<Config><<<launch.grid, launch.threads>>>(x, shape);
  }
  void run_forward() {
    using Config = ConfigOf<head_dim, AttentionKernel::fp8_forward, Mask>;
    const auto launch = attention_launch(problem, AttentionKernel::fp8_forward);
    const int bytes = static_cast<int>(launch.shared_bytes);
    check(cudaFuncSetAttribute(forward<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory");
    forward<Config><<<launch.grid, launch.threads, bytes>>>(x, shape);
  }
};

template <class T>
double relative_error(const std::vector<T>& x, const std::vector<double>& reference) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(to_float(x[i]) - reference[i], 2);
    size += reference[i] * reference[i];
  }
  return std::sqrt(difference / size);
}

template <int head_dim, class Mask>
void check_case(AttentionCase c) {
  c.head_dim = head_dim, c.causal = Mask::hides_later;
  Fp8Attention<head_dim, Mask> attention{c};
  std::vector<bf16> outs[2];
  std::vector<float> lses[2];
  bool intact = true;
  for (int run = 0; run < 2; ++run) {
    attention.out.poison(), attention.lse.poison(), attention.workspace.poison();
    attention.run_operands();
    attention.run_forward();
    check(cudaDeviceSynchronize(), "kernels");
    bool whole[3];
    outs[run] = attention.out.read(whole[0]), lses[run] = attention.lse.read(whole[1]);
    attention.workspace.read(whole[2]);
    intact = intact && whole[0] && whole[1] && whole[2];
  }
  const bool repeatable = std::memcmp(outs[0].data(), outs[1].data(), outs[0].size() * 2) == 0 &&
                          std::memcmp(lses[0].data(), lses[1].data(), lses[0].size() * 4) == 0;
  const AttentionTensors reference =
      fp8_attention_reference(c, attention.q.data(), attention.k.data(), attention.v.data());
  const double out = relative_error(outs[0], reference.out), lse = relative_error(lses[0], reference.lse);
  const bool passed = out < 0.03 && lse < 1e-3 && repeatable && intact;  // NaN fails
  failures += !passed;
  std::printf("%s D=%-3d B=%d T=%-4d H=%d K=%d %s window %-4d documents %-4d out %.1e lse %.1e%s%s\n",
              passed ? "ok  " : "FAIL", head_dim, c.batch, c.tokens, c.heads, c.kv_heads,
              Mask::hides_later ? "causal" : "full  ", c.window, c.document, out, lse,
              repeatable ? "" : " NOT REPEATABLE", intact ? "" : " WROTE PAST THE END");
}

template <int head_dim>
void check_masks() {
  for (int tokens : {1, 37, 128, 250, 1000}) {
    AttentionCase c{2, tokens, 4, 2, 0, 0.0};
    check_case<head_dim, CausalMask>(c);
    check_case<head_dim, FullMask>(c);
    for (int window : {1, 64, 200, 2000}) {
      c.window = window;
      check_case<head_dim, WindowMask>(c);
    }
    for (int length : {1, 20, 300}) {
      c.document = length;
      c.window = 0;
      check_case<head_dim, DocumentMask<CausalMask>>(c);
      c.window = 50;
      check_case<head_dim, DocumentMask<WindowMask>>(c);
    }
  }
}

// Median milliseconds.
template <class Run>
float median_ms(Run run) {
  constexpr int repeats = 15;
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<float> times(repeats);
  run();
  for (float& time : times) {
    check(cudaEventRecord(start), "cudaEventRecord");
    run();
    check(cudaEventRecord(stop), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&time, start, stop), "cudaEventElapsedTime");
  }
  std::sort(times.begin(), times.end());
  return times[repeats / 2];
}

template <int head_dim>
void time_shape(int batch, int tokens, int heads, int kv_heads) {
  Fp8Attention<head_dim, CausalMask> attention{{batch, tokens, heads, kv_heads, head_dim, 0.0, true, 0}};
  const float operands = median_ms([&] { attention.run_operands(); }),
              forward = median_ms([&] { attention.run_forward(); });
  const double gflop = 2e-9 * batch * heads * head_dim * tokens * (tokens + 1.0);
  std::printf("D=%-3d B=%d T=%-5d H=%d K=%d operands %.4f ms, forward %.4f ms %.0f TFLOP/s\n", head_dim,
              batch, tokens, heads, kv_heads, operands, forward, gflop / forward);
}

}  // namespace
}  // namespace hydrac::test

int main(int argc, char** argv) {
  using namespace hydrac::test;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 0;
  }
  if (argc > 1 && std::string(argv[1]) == "--time") {
    time_shape<64>(4, 4096, 32, 8), time_shape<64>(1, 16384, 32, 8);
    time_shape<128>(2, 4096, 32, 8), time_shape<128>(1, 16384, 16, 4);
    return 0;
  }
  check_masks<64>();
  check_masks<128>();
  std::printf("%s\n", failures == 0 ? "all passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}
