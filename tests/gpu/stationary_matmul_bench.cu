// Times the kernel of matmuls with b in shared memory against the one for large matmuls, in a graph, many
// times behind each other and each behind a kernel that writes its left side. stationary_matmul_pays
// (cuda/stationary_matmul/geometry.h) follows this table. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/stationary_matmul_bench.cu -lcublasLt -o stationary_matmul_bench
#include "elementwise_epilogues.cuh"
#include "graph_timing.cuh"
#include "matmul_device.cuh"
#include "matmul_epilogues.cuh"
#include "stationary_matmul_device.cuh"

namespace hydrac::test {
namespace {

constexpr cuda::MatmulProblem with_matrices(cuda::MatmulProblem problem, int matrices) {
  problem.matrices = matrices;
  return problem;
}

template <std::int64_t m, int n, int k>
void time_shape(const char* title) {
  constexpr cuda::MatmulProblem p{cuda::kHopper, true, true, m, n, k, false, 0};
  DeviceArray<bf16> a = random_array(m * k, 1), b = random_array(std::size_t{n} * k, 2),
                    bias = random_array(n, 3), source = random_array(m * k, 4);
  DeviceArray<bf16> c(m * n), y(m * n);
  const MatmulKernel<bf16, p, Gelu<bf16, n>> gelu(a.get(), b.get(), {c.get(), y.get(), bias.get(), {}});
  const MatmulKernel<bf16, p, AddBias<bf16, n>> add_bias(a.get(), b.get(), {y.get(), bias.get(), {}});
  const StationaryMatmulKernel<bf16, with_matrices(p, 2), ElementwiseGelu<bf16>> stationary_gelu(
      a.get(), b.get(), {.bias = bias.get()}, {c.get(), y.get()});
  const StationaryMatmulKernel<bf16, with_matrices(p, 1), ElementwiseAddBias<bf16>> stationary_bias(
      a.get(), b.get(), {.bias = bias.get()}, {y.get()});
  const Launch before = [&](cudaStream_t stream) { launch_copy(source.get(), a.get(), m * k, stream); };
  Table table;
  table.add(
      "gelu, large matmuls", [&](cudaStream_t stream) { gelu(stream, true); }, before);
  table.add(
      "gelu, b in shared memory", [&](cudaStream_t stream) { stationary_gelu(stream, true); }, before);
  table.add(
      "bias, large matmuls", [&](cudaStream_t stream) { add_bias(stream, true); }, before);
  table.add(
      "bias, b in shared memory", [&](cudaStream_t stream) { stationary_bias(stream, true); }, before);
  table.print(title, before);
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac::test;
  time_shape<16384, 1536, 384>("16384 x 1536, k = 384");
  time_shape<8192, 1536, 384>("8192 x 1536, k = 384");
  time_shape<16384, 1024, 256>("16384 x 1024, k = 256");
  time_shape<65536, 1536, 384>("65536 x 1536, k = 384");
  return 0;
}
