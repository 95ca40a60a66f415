// Times matmul kernels with one tile a block against cuBLASLt's and the persistent one as a step's CUDA graph
// runs them: 48 times behind each other, each behind a kernel that writes its left side, and also alone. What
// is reported is microseconds a matmul beyond those of that kernel. matmul_tile
// and matmul_pays (cuda/matmul/geometry.h) follow this table. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/one_tile_matmul_bench.cu -lcublasLt -o one_tile_matmul_bench
#include "graph_timing.cuh"
#include "matmul_device.cuh"
#include "matmul_epilogues.cuh"

namespace hydrac::test {
namespace {

struct Tensors {
  bf16 *c, *x, *y, *bias;
  float* partials;
};

constexpr auto kOneTile = cuda::MatmulSchedule::one_tile;

template <cuda::MatmulProblem p, cuda::MatmulTile tile, class Make>
void add_tile(Table& table, const bf16* a, const bf16* b, const Tensors& t, const Launch& before, Make make) {
  if constexpr (p.n % tile.columns() == 0) {
    const auto epilogue = make(t);
    using Epilogue = std::remove_const_t<decltype(epilogue)>;
    const MatmulKernel<bf16, p, tile, Epilogue> kernel(a, b, epilogue);
    char name[80];
    std::snprintf(name, sizeof name, "64 x %d, %d stages: %u blocks%s", tile.columns(), tile.stages,
                  kernel.kLaunch.grid,
                  cuda::matmul_pays(p, kOneTile) && cuda::matmul_tile(p, kOneTile) == tile ? " (used)" : "");
    table.add(
        name, [=](cudaStream_t stream) { kernel(stream, true); }, before);
  }
}

template <cuda::MatmulProblem p, cuda::MatmulTile... tiles, class Make>
void time_shape(const char* title, Make make) {
  DeviceArray<bf16> source = random_array(p.m * p.k, 1), b = random_array(p.n * p.k, 2);
  DeviceArray<bf16> a = random_array(p.m * p.k, 1), x = random_array(p.m * p.n, 3),
                    bias = random_array(p.n, 4);
  DeviceArray<bf16> c(p.m * p.n), y(p.m * p.n);
  DeviceArray<float> partials((p.m + 63) / 64 * p.n);
  const Tensors t{c.get(), x.get(), y.get(), bias.get(), partials.get()};
  const Launch before = [&](cudaStream_t stream) { launch_copy(source.get(), a.get(), p.m * p.k, stream); };
  Table table;
  const LibraryMatmul library(p, a.get(), b.get(), c.get());
  table.add(
      "cuBLASLt", [&](cudaStream_t stream) { library(stream); }, before);
  const auto epilogue = make(t);
  const MatmulKernel<bf16, p, persistent_tile(p), std::remove_const_t<decltype(epilogue)>> big(
      a.get(), b.get(), epilogue);
  table.add(
      "persistent", [&](cudaStream_t stream) { big(stream, true); }, before);
  (add_tile<p, tiles>(table, a.get(), b.get(), t, before, make), ...);
  table.print(title, before);
}

constexpr cuda::MatmulProblem forward(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {cuda::kHopper, true, true, m, n, k, false, 0};
}
constexpr cuda::MatmulProblem backward(std::int64_t m, std::int64_t n, std::int64_t k, int sums = 0) {
  return {cuda::kHopper, true, false, m, n, k, false, sums};
}

template <int n>
auto bare(const Tensors& t) {
  return Bare<bf16, n>{t.y};
}
template <int n>
auto gelu(const Tensors& t) {
  return Gelu<bf16, n>{t.c, t.y, t.bias, {}};
}
template <int n>
auto gelu_backward(const Tensors& t) {
  return GeluBackward<bf16, n>{t.x, t.bias, t.c, t.y, {t.partials}, {}, {}};
}
template <int n>
auto add_bias(const Tensors& t) {
  return AddBias<bf16, n>{t.y, t.bias, {}};
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac::test;
  time_shape<forward(2048, 768, 256), one_tile(3, 4), one_tile(3, 6), one_tile(2, 4)>("tiny qkv, bias",
                                                                                      add_bias<768>);
  time_shape<forward(2048, 256, 256), one_tile(1, 4), one_tile(1, 8), one_tile(2, 4)>("tiny attn.out",
                                                                                      bare<256>);
  time_shape<forward(2048, 1024, 256), one_tile(4, 4), one_tile(2, 4)>("tiny up, gelu", gelu<1024>);
  time_shape<forward(2048, 256, 1024), one_tile(1, 8), one_tile(1, 12), one_tile(2, 8)>("tiny down",
                                                                                        bare<256>);
  time_shape<backward(2048, 1024, 256, 1), one_tile(4, 4), one_tile(2, 4)>("tiny d_act, gelu'",
                                                                           gelu_backward<1024>);
  time_shape<backward(2048, 256, 1024), one_tile(1, 8), one_tile(1, 12)>("tiny d_mlp_normed", bare<256>);
  time_shape<backward(2048, 256, 256), one_tile(1, 4), one_tile(1, 8), one_tile(2, 4)>("tiny d_attn.mixed",
                                                                                       bare<256>);
  time_shape<backward(2048, 256, 768), one_tile(1, 8), one_tile(1, 12)>("tiny d_normed", bare<256>);

  time_shape<forward(1024, 256, 256), one_tile(1, 4)>("1024 x 256 x 256", bare<256>);
  time_shape<forward(1024, 768, 768), one_tile(1, 12), one_tile(2, 5), one_tile(3, 6)>("1024 x 768 x 768",
                                                                                       bare<768>);
  time_shape<forward(1024, 768, 3072), one_tile(2, 8), one_tile(3, 6)>("1024 x 768 x 3072", bare<768>);
  time_shape<forward(2048, 512, 512), one_tile(1, 8), one_tile(2, 8)>("2048 x 512 x 512", bare<512>);
  time_shape<forward(2048, 768, 512), one_tile(3, 6), one_tile(2, 8)>("2048 x 768 x 512", bare<768>);
  time_shape<forward(2048, 1536, 512), one_tile(3, 6)>("2048 x 1536 x 512", bare<1536>);
  time_shape<backward(2048, 512, 2048), one_tile(1, 8), one_tile(2, 8)>("2048 x 512 x 2048", bare<512>);
  time_shape<forward(4096, 256, 256), one_tile(1, 4), one_tile(2, 4), one_tile(2, 5)>("4096 x 256 x 256",
                                                                                      bare<256>);
  time_shape<forward(4096, 256, 768), one_tile(2, 5), one_tile(2, 8)>("4096 x 256 x 768", bare<256>);
  time_shape<forward(4096, 256, 1024), one_tile(1, 8), one_tile(2, 8)>("4096 x 256 x 1024", bare<256>);
  time_shape<forward(16384, 384, 384), one_tile(2, 3), one_tile(3, 3)>("char-small attn.out", bare<384>);
  return 0;
}
