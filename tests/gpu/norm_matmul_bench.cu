// Times matmuls with a norm as their epilogue against a matmul and a kernel for the norm behind it, as a
// step's CUDA graph runs them: each behind a kernel that writes the matmul's left side, and much more than
// L2 holds where the tensors of a step do not fit there. What is reported is microseconds
// beyond those of that kernel. matmul_tile and matmul_pays (cuda/matmul/geometry.h) follow this table. Needs
// a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/norm_matmul_bench.cu -lcublasLt -o norm_matmul_bench
#include <memory>

#include "graph_timing.cuh"
#include "matmul_device.cuh"
#include "matmul_epilogues.cuh"
#include "norm_kernels.cuh"
#include "norm_matmul_epilogues.cuh"

namespace hydrac::test {
namespace {

using Tile = cuda::MatmulTile;

constexpr auto kOneTile = cuda::MatmulSchedule::one_tile, kWholeRows = cuda::MatmulSchedule::whole_rows;

template <int n, class R>
struct Tensors {
  explicit Tensors(std::int64_t m)
      : rows(m),
        residual(from_bf16(m * n, 3)),
        sum(m * n),
        d_residual(from_bf16(m * n, 5)),
        bias(random_array(n, 4)),
        matmul(m * n),
        normed(m * n),
        weight(random_values<float>(n, 6)),
        shift(random_values<float>(n, 7)),
        mean(random_values<float>(m, 8)),
        rstd(random_values<float>(m, 9)),
        partials(std::size_t{3} * 1024 * n) {}

  static DeviceArray<R> from_bf16(std::int64_t size, int seed) {
    return DeviceArray<R>(random_values<R>(size, seed));
  }
  NormForward<bf16, R> forward() {
    return {bias.get(), residual.get(), weight.get(), shift.get(),
            sum.get(),  normed.get(),   mean.get(),   rstd.get()};
  }
  NormBackward<bf16, R> backward() {
    return {residual.get(),
            weight.get(),
            mean.get(),
            rstd.get(),
            d_residual.get(),
            sum.get(),
            __is_same(R, bf16) ? nullptr : normed.get()};
  }

  std::int64_t rows;
  DeviceArray<R> residual, sum, d_residual;
  DeviceArray<bf16> bias, matmul, normed;
  DeviceArray<float> weight, shift, mean, rstd, partials;
};

// What the pair is now: cuBLASLt's matmul or a kernel with one tile a block, and the norm.
template <cuda::MatmulProblem p, class Launch>
void add_pair(Table& table, const bf16* a, const bf16* b, bf16* c, const Launch& before, const Launch& norm) {
  constexpr cuda::MatmulProblem bare{cuda::kHopper, true, p.b_transposed, p.m, p.n, p.k, false, 0};
  if constexpr (cuda::matmul_pays(bare, kOneTile)) {
    const MatmulKernel<bf16, bare, cuda::matmul_tile(bare, kOneTile), Bare<bf16, static_cast<int>(p.n)>>
        small(a, b, {c});
    table.add(
        "one tile a block alone", [=](cudaStream_t stream) { small(stream, true); }, before);
    table.add(
        "one tile a block, norm", [=](cudaStream_t stream) { small(stream, true), norm(stream); }, before);
  } else {
    static std::vector<std::unique_ptr<LibraryMatmul>> kept;
    kept.push_back(std::make_unique<LibraryMatmul>(bare, a, b, c));
    const LibraryMatmul& library = *kept.back();
    table.add(
        "cuBLASLt alone", [&library](cudaStream_t stream) { library(stream); }, before);
    table.add(
        "cuBLASLt, norm", [&library, norm](cudaStream_t stream) { library(stream), norm(stream); }, before);
  }
  table.add("norm alone", norm, before);
}

template <cuda::MatmulProblem p, Tile tile, class Epilogue>
void add_whole_rows(Table& table, const bf16* a, const bf16* b, const Epilogue& epilogue,
                    const Launch& before) {
  const MatmulKernel<bf16, p, tile, Epilogue> kernel(a, b, epilogue);
  constexpr Tile chosen = cuda::matmul_tile(p, kWholeRows);
  const bool is_used = cuda::matmul_pays(p, kWholeRows) && chosen == tile;
  char name[100];
  std::snprintf(name, sizeof name, "%d x %d, %d blocks, %d stages%s", tile.rows, tile.columns(), tile.cluster,
                tile.stages, is_used ? " (used)" : "");
  table.add(
      name, [=](cudaStream_t stream) { kernel(stream, true); }, before);
}

// `flushed` elements are copied by the kernel before.
template <class R, std::int64_t m, int n, std::int64_t k, bool is_forward, Tile... tiles>
void time_shape(const char* title, std::int64_t flushed) {
  constexpr cuda::MatmulProblem p{cuda::kHopper, true, is_forward, m, n, k, false, is_forward ? 0 : 3};
  const std::int64_t copied = std::max(m * k, flushed);
  DeviceArray<bf16> source = random_array(copied, 1), a = random_array(copied, 1), b = random_array(n * k, 2);
  Tensors<n, R> t(m);
  const Launch before = [&](cudaStream_t stream) { launch_copy(source.get(), a.get(), copied, stream); };
  Table table;
  if constexpr (is_forward) {
    const Launch norm = [&](cudaStream_t stream) {
      launch_add_layernorm<R, n>(t.matmul.get(), t.forward(), m, stream);
    };
    add_pair<p>(table, a.get(), b.get(), t.matmul.get(), before, norm);
    const AddLayernorm<bf16, R, n> epilogue{t.forward(), {}, {}, {}};
    add_whole_rows<p, cuda::matmul_tile(p, kWholeRows)>(table, a.get(), b.get(), epilogue, before);
    (add_whole_rows<p, tiles>(table, a.get(), b.get(), epilogue, before), ...);
    table.print(title, before);
  } else {
    const Launch norm = [&](cudaStream_t stream) {
      launch_layernorm_backward<R, n>(t.matmul.get(), t.backward(), t.partials.get(), m, stream);
    };
    add_pair<p>(table, a.get(), b.get(), t.matmul.get(), before, norm);
    float* const partials = t.partials.get();
    const LayernormBackwardAdd<bf16, R, n> epilogue{
        t.backward(), {partials, partials + n, partials + 2 * n}, {}, {}};
    add_whole_rows<p, cuda::matmul_tile(p, kWholeRows)>(table, a.get(), b.get(), epilogue, before);
    (add_whole_rows<p, tiles>(table, a.get(), b.get(), epilogue, before), ...);
    table.print(title, before);
  }
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac::test;
  using hydrac::bf16;
  time_shape<bf16, 2048, 256, 256, true>("tiny attn.out", 0);
  time_shape<bf16, 2048, 256, 1024, false>("tiny d_mlp_normed", 0);
  time_shape<bf16, 4096, 256, 1024, true>("4096 x 256 x 1024", 0);

  constexpr std::int64_t flushed = 32 << 20;
  time_shape<bf16, 16384, 384, 384, true, whole_rows_tile(64, 6, 4, 2), whole_rows_tile(128, 6, 3, 1)>(
      "char-small attn.out", flushed);
  time_shape<bf16, 16384, 384, 1536, true, whole_rows_tile(64, 6, 4, 2), whole_rows_tile(128, 6, 3, 1)>(
      "char-small down", flushed);
  time_shape<bf16, 16384, 384, 1152, false, whole_rows_tile(64, 6, 4, 2), whole_rows_tile(128, 6, 3, 1)>(
      "char-small d_normed", flushed);
  time_shape<bf16, 16384, 384, 1536, false, whole_rows_tile(64, 6, 4, 2), whole_rows_tile(128, 6, 3, 1)>(
      "char-small d_mlp_normed", flushed);
  time_shape<float, 16384, 384, 1536, true>("char-small down, f32 residual", flushed);
  time_shape<float, 16384, 384, 1536, false>("char-small d_mlp_normed, f32 residual", flushed);
  time_shape<bf16, 16384, 256, 1024, true>("16384 x 256 x 1024", flushed);
  time_shape<bf16, 16384, 256, 1024, false>("16384 x 256 x 1024, backward", flushed);
  time_shape<bf16, 32768, 384, 1536, true>("32768 x 384 x 1536", flushed);
  return 0;
}
