// Times persistent matmul kernels with a fused epilogue against cuBLASLt's fastest matmul and the same
// epilogue as a kernel of its own, alternately and for long enough that the clock is that of sustained load.
// matmul_pays (cuda/matmul/geometry.h) follows this table. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/matmul_bench.cu -lcublasLt -o matmul_bench
#include <functional>

#include "library_matmul.cuh"
#include "matmul_device.cuh"
#include "matmul_epilogues.cuh"

namespace hydrac::test {
namespace {

// The epilogue as a kernel of its own: a warp takes 256 columns of every shares * 8-th row, and loads a row
// ahead. Column sums stay in registers; what is left of them is not timed.
template <class T, int n, bool paired, class Epilogue>
__global__ void __launch_bounds__(256) apply(const T* c, std::int64_t m, Epilogue given) {
  constexpr int columns = paired ? n / 2 : n, strips = (columns + 255) / 256;
  const int shares = static_cast<int>(gridDim.x) / strips;
  const int column = (static_cast<int>(blockIdx.x) % strips * 32 + static_cast<int>(threadIdx.x) % 32) * 8;
  if (column >= columns) return;
  Epilogue epilogue = given;
  epilogue.begin(column);
  struct Row {
    Vector<T, 8> first, second;
    typename Epilogue::Operands operands;
  } next;
  const auto fetch = [&](std::int64_t row) {
    next.first = load<8>(c + row * n + column);
    if constexpr (paired) next.second = load<8>(c + row * n + columns + column);
    next.operands = epilogue.load(row, column);
  };
  std::int64_t row = static_cast<int>(blockIdx.x) / strips * 8 + static_cast<int>(threadIdx.x) / 32;
  if (row < m) fetch(row);
  for (; row < m; row += shares * 8) {
    const Row now = next;
    if (row + shares * 8 < m) fetch(row + shares * 8);
    if constexpr (paired) {
      epilogue(row, column, now.first, now.second, now.operands);
    } else {
      epilogue(row, column, now.first, now.operands);
    }
  }
  if constexpr (Epilogue::sums > 0) {
    store(epilogue.partials[0] + (blockIdx.x * 256 + threadIdx.x) * 4, load<4>(epilogue.sum[0]));
  }
}

struct Tensors {
  bf16 *c, *x, *y, *z, *bias;
  float* partials;
};

// `make` builds the epilogue; c is null where the matmul has been stored already.
template <cuda::MatmulProblem p, class Make>
void time_shape(const char* name, Make make) {
  constexpr double seconds = 0.15;
  constexpr int rounds = 2, strips = ((p.paired ? p.n / 2 : p.n) + 255) / 256,
                blocks = 8 * 132 / strips * strips;
  DeviceArray<bf16> a = random_array(p.m * p.k, 1), b = random_array(p.n * p.k, 2);
  DeviceArray<bf16> x = random_array(2 * p.m * p.n, 3), bias = random_array(p.n, 4);
  DeviceArray<bf16> c(p.m * p.n), y(p.m * p.n), z(2 * p.m * p.n);
  DeviceArray<float> partials(cuda::matmul_sums_rows(p, persistent_tile(p)) * p.n + blocks * 1024);
  const auto epilogue = make(Tensors{c.get(), x.get(), y.get(), z.get(), bias.get(), partials.get()});
  const auto behind = make(Tensors{nullptr, x.get(), y.get(), z.get(), bias.get(), partials.get()});
  using Epilogue = std::remove_const_t<decltype(epilogue)>;
  const LibraryMatmul library(p, a.get(), b.get(), c.get());
  const MatmulKernel<bf16, p, persistent_tile(p), Epilogue> fused(a.get(), b.get(), epilogue);
  const auto separate = [&] {
    library();
    apply<bf16, static_cast<int>(p.n), p.paired><<<blocks, 256>>>(c.get(), p.m, behind);
    check(cudaGetLastError(), "apply");
  };
  const std::function<void()> runs[] = {[&] { library(); }, separate, [&] { fused(); }};
  double ms[3] = {};
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      const int times = 3 + static_cast<int>(seconds * 1000 / elapsed_ms(3, runs[i]));
      ms[i] += elapsed_ms(times, runs[i]) / rounds;
    }
  }
  std::printf("%-28s cuBLASLt %.4f ms %4.0f TFLOP/s, with the epilogue %.4f ms; fused %.4f ms%s\n", name,
              ms[0], 2e-9 * p.m * p.n * p.k / ms[0], ms[1], ms[2],
              cuda::matmul_pays(p, cuda::MatmulSchedule::persistent) ? "" : " (not used)");
  std::fflush(stdout);
}

constexpr cuda::MatmulProblem forward(std::int64_t m, std::int64_t n, std::int64_t k, bool paired = false) {
  return {cuda::kHopper, true, true, m, n, k, paired, 0};
}
constexpr cuda::MatmulProblem backward(std::int64_t m, std::int64_t n, std::int64_t k, int sums) {
  return {cuda::kHopper, true, false, m, n, k, false, sums};
}

template <int n>
auto gelu(const Tensors& t) {
  return Gelu<bf16, n>{t.c, t.y, t.bias, {}};
}
template <int n>
auto gelu_backward(const Tensors& t) {
  return GeluBackward<bf16, n>{t.x, t.bias, t.z, t.y, {t.partials}, {}, {}};
}
template <int n>
auto swiglu(const Tensors& t) {
  return Swiglu<bf16, n>{t.c, t.y};
}
template <int n>
auto swiglu_backward(const Tensors& t) {
  return SwigluBackward<bf16, n>{t.x, t.z, t.y};
}
template <int n>
auto add_bias(const Tensors& t) {
  return AddBias<bf16, n>{t.y, t.bias, {}};
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac::test;
  time_shape<forward(65536, 3072, 768)>("gpt2 up, gelu", gelu<3072>);
  time_shape<backward(65536, 3072, 768, 1)>("gpt2 d_act, gelu'", gelu_backward<3072>);
  time_shape<forward(65536, 2304, 768)>("gpt2 qkv, bias", add_bias<2304>);
  time_shape<forward(32768, 4096, 768, true)>("hydra up, swiglu", swiglu<4096>);
  time_shape<backward(32768, 2048, 768, 0)>("hydra d_act, swiglu'", swiglu_backward<2048>);
  time_shape<forward(16384, 16384, 2048, true)>("llama up, swiglu", swiglu<16384>);
  time_shape<backward(16384, 8192, 2048, 0)>("llama d_act, swiglu'", swiglu_backward<8192>);
  time_shape<forward(16384, 1536, 384)>("char-small up, gelu", gelu<1536>);
  time_shape<backward(16384, 1536, 384, 1)>("char-small d_act, gelu'", gelu_backward<1536>);
  time_shape<forward(16384, 1152, 384)>("char-small qkv, bias", add_bias<1152>);
  time_shape<forward(16384, 384, 1536)>("char-small down, bias", add_bias<384>);
  time_shape<backward(16384, 384, 1536, 0)>("char-small d_mlp_normed, bias", add_bias<384>);
  time_shape<forward(2048, 1024, 256)>("tiny up, gelu", gelu<1024>);
  time_shape<backward(2048, 1024, 256, 1)>("tiny d_act, gelu'", gelu_backward<1024>);
  return 0;
}
