// Times the product kernel with a fused epilogue against cuBLASLt's fastest product and the same epilogue as
// a kernel of its own, alternately and for long enough that the clock is that of sustained load. product_pays
// (cuda/product/geometry.h) follows this table. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/product_bench.cu -lcublasLt -o product_bench
#include <cublasLt.h>

#include <functional>

#include "product_device.cuh"
#include "product_epilogues.cuh"

namespace hydrac::test {
namespace {

using test::check;

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: cuBLASLt status %d\n", what, static_cast<int>(status));
  std::exit(3);
}

float elapsed_ms(int times, const std::function<void()>& run) {
  static const auto event = [] {
    cudaEvent_t created;
    check(cudaEventCreate(&created), "cudaEventCreate");
    return created;
  };
  static const cudaEvent_t start = event(), stop = event();
  check(cudaEventRecord(start), "cudaEventRecord");
  for (int i = 0; i < times; ++i) run();
  check(cudaEventRecord(stop), "cudaEventRecord");
  check(cudaEventSynchronize(stop), "cudaEventSynchronize");
  float ms;
  check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
  return ms / static_cast<float>(times);
}

// c = a . b by the fastest of cuBLASLt's algorithms for bf16. Its matrices are column-major: ours transposed.
class LibraryProduct {
 public:
  LibraryProduct(const cuda::ProductProblem& p, const bf16* a, const bf16* b, bf16* c)
      : a_(a), b_(b), c_(c), workspace_(kWorkspaceBytes) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t operation = p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
    const std::int64_t b_row = p.b_transposed ? p.k : p.n;
    layout(b_layout_, b_row, p.b_transposed ? p.n : p.k);
    layout(a_layout_, p.k, p.m);
    layout(c_layout_, p.n, p.m);
    search();
  }

  void operator()() const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, product_, &one, b_, b_layout_, a_, a_layout_, &zero, c_, c_layout_, c_,
                         c_layout_, &algorithm_, workspace_.get(), kWorkspaceBytes, nullptr),
          "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = 64 << 20;

  static void layout(cublasLtMatrixLayout_t& to, std::int64_t rows, std::int64_t columns) {
    check(cublasLtMatrixLayoutCreate(&to, CUDA_R_16BF, rows, columns, rows), "cublasLtMatrixLayoutCreate");
  }

  void search() {
    constexpr int kAsked = 12;
    cublasLtMatmulPreference_t preference;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspaceBytes, sizeof kWorkspaceBytes),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t found[kAsked];
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_, product_, b_layout_, a_layout_, c_layout_, c_layout_,
                                         preference, kAsked, found, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    cublasLtMatmulAlgo_t best{};
    float best_ms = 1e9f;
    for (int i = 0; i < count; ++i) {
      algorithm_ = found[i].algo;
      (*this)();
      const float ms = elapsed_ms(6, std::cref(*this));
      if (ms < best_ms) best = algorithm_, best_ms = ms;
    }
    algorithm_ = best;
  }

  const bf16 *a_, *b_;
  bf16* c_;
  mutable DeviceArray<unsigned char> workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, c_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

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

// `make` builds the epilogue; c is null where the product has been stored already.
template <cuda::ProductProblem p, class Make>
void time_shape(const char* name, Make make) {
  constexpr double seconds = 0.1;
  constexpr int rounds = 3, strips = (cuda::product_columns(p) + 255) / 256,
                blocks = 8 * 132 / strips * strips;
  DeviceArray<bf16> a(random_values<bf16>(p.m * p.k, 1)), b(random_values<bf16>(p.n * p.k, 2));
  DeviceArray<bf16> x(random_values<bf16>(2 * p.m * p.n, 3)), bias(random_values<bf16>(p.n, 4));
  DeviceArray<bf16> c(p.m * p.n), y(p.m * p.n), z(2 * p.m * p.n);
  DeviceArray<float> partials(cuda::product_sums_rows(p) * p.n + blocks * 1024);
  const auto epilogue = make(Tensors{c.get(), x.get(), y.get(), z.get(), bias.get(), partials.get()});
  const auto behind = make(Tensors{nullptr, x.get(), y.get(), z.get(), bias.get(), partials.get()});
  using Epilogue = std::remove_const_t<decltype(epilogue)>;
  const LibraryProduct library(p, a.get(), b.get(), c.get());
  const ProductKernel<bf16, p, Epilogue> fused(a.get(), b.get(), epilogue);
  const auto separate = [&] {
    library();
    apply<bf16, static_cast<int>(p.n), p.paired><<<blocks, 256>>>(c.get(), p.m, behind);
    check(cudaGetLastError(), "apply");
  };
  const std::function<void()> runs[] = {std::cref(library), separate, std::cref(fused)};
  double ms[3] = {};
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      const int times = 3 + static_cast<int>(seconds * 1000 / elapsed_ms(3, runs[i]));
      ms[i] += elapsed_ms(times, runs[i]) / rounds;
    }
  }
  std::printf("%-28s cuBLASLt %.4f ms %4.0f TFLOP/s, with the epilogue %.4f ms; fused %.4f ms%s\n", name,
              ms[0], 2e-9 * p.m * p.n * p.k / ms[0], ms[1], ms[2],
              cuda::product_pays(p) ? "" : " (not used)");
  std::fflush(stdout);
}

constexpr cuda::ProductProblem forward(std::int64_t m, std::int64_t n, std::int64_t k, bool paired = false) {
  return {90, true, true, m, n, k, paired, 0};
}
constexpr cuda::ProductProblem backward(std::int64_t m, std::int64_t n, std::int64_t k, int sums) {
  return {90, true, false, m, n, k, false, sums};
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
  time_shape<forward(2048, 1024, 256)>("tiny up, gelu", gelu<1024>);
  time_shape<backward(2048, 1024, 256, 1)>("tiny d_act, gelu'", gelu_backward<1024>);
  return 0;
}
