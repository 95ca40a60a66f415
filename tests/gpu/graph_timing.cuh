// Times kernels as a step's CUDA graph runs them: many times behind each other, and each behind a kernel that
// writes its left side.
#pragma once
#include <string>

#include "cuda/previous_kernel.cuh"
#include "cuda/vector.cuh"
#include "library_matmul.cuh"
#include "matmul_device.cuh"

namespace hydrac::test {

using Launch = std::function<void(cudaStream_t)>;

// As generated kernels of pointwise work do it.
static __global__ void __launch_bounds__(256) copy_rows(const bf16* from, bf16* to, std::int64_t vectors) {
  wait_for_previous_kernel();
  launch_next_kernel();
  for (std::int64_t i = blockIdx.x * 256 + threadIdx.x; i < vectors; i += gridDim.x * 256)
    store(to + i * 8, load<8>(from + i * 8));
}

inline void launch_copy(const bf16* from, bf16* to, std::int64_t size, cudaStream_t stream) {
  launch_matmul(copy_rows, {264, 256, 1, 1, 0}, stream, true, from, to, size / 8);
}

// A graph of `times` runs of `launch`.
class Graph {
 public:
  Graph(int times, const Launch& launch) : times_(times) {
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < times; ++i) launch(stream);
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  Graph(Graph&& other) noexcept : times_(other.times_), graph_(other.graph_) { other.graph_ = nullptr; }
  ~Graph() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  }

  float us_of_a_run() const {
    return 1000 *
           elapsed_ms(kRepeats, [this] { check(cudaGraphLaunch(graph_, nullptr), "cudaGraphLaunch"); }) /
           static_cast<float>(times_);
  }

 private:
  static constexpr int kRepeats = 8;
  int times_;
  cudaGraphExec_t graph_ = nullptr;
};

class Table {
 public:
  void add(std::string name, const Launch& launch, const Launch& before) {
    const auto both = [&](cudaStream_t stream) {
      before(stream);
      launch(stream);
    };
    rows_.push_back({std::move(name), Graph(kTimes, launch), Graph(kTimes, both), {}, {}});
  }

  // Alternately; the medians.
  void print(const char* title, const Launch& before) {
    const Graph alone(kTimes, before);
    constexpr int rounds = 5;
    std::vector<float> befores;
    for (int round = 0; round < rounds; ++round) {
      befores.push_back(alone.us_of_a_run());
      for (Row& row : rows_) {
        row.alone_us.push_back(row.alone.us_of_a_run());
        row.behind_us.push_back(row.behind.us_of_a_run());
      }
    }
    const float before_us = median(befores);
    std::printf("%s (the kernel before: %.2f us)\n", title, before_us);
    for (Row& row : rows_)
      std::printf("  %-44s %6.2f us alone, %6.2f us behind it\n", row.name.c_str(), median(row.alone_us),
                  median(row.behind_us) - before_us);
    std::fflush(stdout);
  }

 private:
  static constexpr int kTimes = 48;
  struct Row {
    std::string name;
    Graph alone, behind;
    std::vector<float> alone_us, behind_us;
  };
  static float median(std::vector<float> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  std::vector<Row> rows_;
};

}  // namespace hydrac::test
