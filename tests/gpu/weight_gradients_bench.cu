// Times the kernel of weight gradients against cuBLASLt's matmuls one after the other, as a step's CUDA
// graph runs them. weight_gradients_tile and weight_gradients_pay (cuda/matmul/weight_gradients.h) follow
// this table. Needs a chip of capability 9.0:
//   nvcc -std=c++20 -O3 -fmad=false -gencode arch=compute_90a,code=sm_90a -I. -Itemplates -Itemplates/include
//     -Itests/gpu tests/gpu/weight_gradients_bench.cu -lcublasLt -o weight_gradients_bench
#include <memory>
#include <string>

#include "graph_timing.cuh"
#include "weight_gradients_device.cuh"

namespace hydrac::test {
namespace {

using Tile = cuda::WeightGradientTile;
using Problem = cuda::WeightGradientsProblem;

// d_w = d_y^T . x by the fastest of cuBLASLt's algorithms for bf16. Its matrices are column-major: ours
// transposed.
class LibraryGradient {
 public:
  LibraryGradient(std::int64_t rows, std::int64_t m, std::int64_t n, const bf16* d_y, const bf16* x,
                  float* d_w, unsigned char* workspace)
      : d_y_(d_y), x_(x), d_w_(d_w), workspace_(workspace) {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(&matmul_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(
        cublasLtMatmulDescSetAttribute(matmul_, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed),
        "cublasLtMatmulDescSetAttribute");
    layout(x_layout_, CUDA_R_16BF, n, rows);
    layout(d_y_layout_, CUDA_R_16BF, m, rows);
    layout(d_w_layout_, CUDA_R_32F, n, m);
    find_fastest(algorithm_, handle_, matmul_, x_layout_, d_y_layout_, d_w_layout_, kWorkspaceBytes,
                 [this] { (*this)(); });
  }

  void operator()(cudaStream_t stream = nullptr) const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, matmul_, &one, x_, x_layout_, d_y_, d_y_layout_, &zero, d_w_, d_w_layout_,
                         d_w_, d_w_layout_, &algorithm_, workspace_, kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

  static constexpr std::size_t kWorkspaceBytes = 64 << 20;

 private:
  static void layout(cublasLtMatrixLayout_t& to, cudaDataType_t type, std::int64_t rows,
                     std::int64_t columns) {
    check(cublasLtMatrixLayoutCreate(&to, type, rows, columns, rows), "cublasLtMatrixLayoutCreate");
  }

  const bf16 *d_y_, *x_;
  float* d_w_;
  unsigned char* workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t matmul_ = nullptr;
  cublasLtMatrixLayout_t x_layout_ = nullptr, d_y_layout_ = nullptr, d_w_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

constexpr Problem problem_of(std::int64_t rows, std::initializer_list<std::int64_t> sizes) {
  Problem p{cuda::kHopper, true, rows, 0, {}, {}};
  for (auto at = sizes.begin(); at != sizes.end(); at += 2, ++p.count)
    p.m[p.count] = at[0], p.n[p.count] = at[1];
  return p;
}

struct Row {
  std::string name;
  std::unique_ptr<Graph> graph;
  std::vector<float> us = {};
};

constexpr int kTimes = 24;

template <Problem problem, Tile tile>
void add_tile(std::vector<Row>& rows, WeightGradientTensors<bf16, problem>& tensors,
              const std::vector<float>& expected) {
  using Kernel = WeightGradientsKernel<bf16, problem, tile, false>;
  const Kernel kernel = tensors.template kernel<Kernel>();
  for (DeviceArray<float>& one : tensors.d_w) one.poison();
  kernel();
  check(cudaDeviceSynchronize(), "weight_gradients");
  bool intact;
  const std::vector<float> found = tensors.read(intact);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = static_cast<double>(found[i]) - expected[i];
    difference += d * d, size += static_cast<double>(expected[i]) * expected[i];
  }
  constexpr Tile used = cuda::weight_gradients_tile(problem);
  const bool is_used = used.consumers == tile.consumers && used.columns == tile.columns &&
                       used.stages == tile.stages && used.split == tile.split;
  char name[120];
  std::snprintf(name, sizeof name, "%d x %d, %d stages, split %d: %u blocks, differs %.0e%s", tile.rows(),
                tile.columns, tile.stages, tile.split, Kernel::kLaunch.grid, std::sqrt(difference / size),
                is_used ? " (used)" : "");
  rows.push_back({name, std::make_unique<Graph>(kTimes, [=](cudaStream_t stream) { kernel(stream, true); })});
}

template <Problem problem, Tile... tiles>
void time_problem(const char* title) {
  WeightGradientTensors<bf16, problem> tensors(1);
  DeviceArray<unsigned char> library_workspace(LibraryGradient::kWorkspaceBytes);
  std::vector<LibraryGradient> library;
  double flop = 0, bytes = 0;
  for (int i = 0; i < problem.count; ++i) {
    library.emplace_back(problem.rows, problem.m[i], problem.n[i], tensors.device_d_y[i].get(),
                         tensors.device_x[i].get(), tensors.d_w[i].get(), library_workspace.get());
    flop += 2.0 * problem.rows * problem.m[i] * problem.n[i];
    bytes += 2.0 * problem.rows * (problem.m[i] + problem.n[i]) + 4.0 * problem.m[i] * problem.n[i];
  }
  const Launch all = [&](cudaStream_t stream) {
    for (const LibraryGradient& one : library) one(stream);
  };
  all(nullptr);
  check(cudaDeviceSynchronize(), "cublasLtMatmul");
  bool intact;
  const std::vector<float> expected = tensors.read(intact);
  std::vector<Row> rows;
  rows.push_back({"cuBLASLt", std::make_unique<Graph>(kTimes, all)});
  (add_tile<problem, tiles>(rows, tensors, expected), ...);
  for (int round = 0; round < 5; ++round) {
    for (Row& row : rows) row.us.push_back(row.graph->us_of_a_run());
  }
  std::printf("%s: %.1f GFLOP, %.0f MB\n", title, flop / 1e9, bytes / 1e6);
  for (Row& row : rows) {
    std::sort(row.us.begin(), row.us.end());
    std::printf("  %-70s %7.2f us, %4.0f TFLOP/s\n", row.name.c_str(), row.us[2], flop / row.us[2] / 1e6);
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace hydrac::test

int main() {
  using namespace hydrac::test;
  time_problem<problem_of(2048, {1024, 256, 256, 1024, 768, 256, 256, 256}), Tile{2, 128, 6, 1},
               Tile{2, 128, 6, 2}, Tile{1, 128, 8, 1}, Tile{1, 128, 4, 1}, Tile{1, 128, 4, 2},
               Tile{2, 128, 3, 2}, Tile{4, 128, 4, 4}, Tile{3, 192, 4, 2}>("tiny-series");
  time_problem<problem_of(16384, {1536, 384, 384, 1536, 1152, 384, 384, 384}), Tile{3, 192, 4, 1},
               Tile{3, 192, 4, 2}, Tile{2, 128, 6, 1}, Tile{2, 128, 6, 2}, Tile{3, 128, 5, 1},
               Tile{3, 128, 5, 2}, Tile{4, 128, 4, 2}, Tile{2, 192, 5, 2}>("char-small");
  time_problem<problem_of(8192, {2048, 512, 512, 2048, 1536, 512, 512, 512}), Tile{2, 128, 6, 1},
               Tile{4, 128, 4, 1}, Tile{4, 128, 4, 2}, Tile{3, 192, 4, 1}>("8192 rows, width 512");
  time_problem<problem_of(8192, {3072, 768, 768, 3072, 2304, 768, 768, 768}), Tile{3, 192, 4, 1},
               Tile{3, 192, 4, 2}>("8192 rows, width 768");
  return 0;
}
