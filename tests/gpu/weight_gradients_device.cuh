// Launches the kernel of weight gradients as generated programs do.
#pragma once
#include "cuda/matmul/weight_gradients.cuh"
#include "matmul_device.cuh"

namespace hydrac::test {

template <int count>
struct WeightGradientArguments {
  TensorMap d_y[count], x[count];
  float* d_w[count];
  int m[count], n[count];
};

template <class Config, int count>
__global__ void __launch_bounds__(Config::tile.threads(), 1)
    weight_gradients_kernel(const __grid_constant__ WeightGradientArguments<count> given) {
  cuda::WeightGradient gradients[count];
#pragma unroll
  for (int i = 0; i < count; ++i)
    gradients[i] = {&given.d_y[i], &given.x[i], given.d_w[i], given.m[i], given.n[i]};
  cuda::weight_gradients<Config>(gradients);
}

// A launch of one problem, which can be repeated; `behind_kernel`: it may begin before the kernel before it
// ends.
template <class Storage, cuda::WeightGradientsProblem problem, cuda::WeightGradientTile tile, bool accumulate>
class WeightGradientsKernel {
 public:
  WeightGradientsKernel(const Storage* const* d_y, const Storage* const* x, float* const* d_w) {
    static_assert(problem.is_bf16 == __is_same(Storage, bf16) && cuda::weight_gradients_support(problem));
    for (int i = 0; i < problem.count; ++i) {
      const auto map = [&](std::int64_t width) { return cuda::weight_gradients_map(problem.rows, width); };
      given_.d_y[i] = encoded(d_y[i], map(problem.m[i]), problem.is_bf16);
      given_.x[i] = encoded(x[i], map(problem.n[i]), problem.is_bf16);
      given_.d_w[i] = d_w[i];
      given_.m[i] = static_cast<int>(problem.m[i]), given_.n[i] = static_cast<int>(problem.n[i]);
    }
    allow_shared_memory(kKernel, kLaunch);
  }

  void operator()(cudaStream_t stream = nullptr, bool behind_kernel = false) const {
    launch_matmul(kKernel, kLaunch, stream, behind_kernel, given_);
  }

  static constexpr cuda::MatmulLaunch kLaunch = cuda::weight_gradients_launch(problem, tile);

 private:
  using Config = cuda::WeightGradientsConfig<Storage, problem.rows, accumulate, tile>;
  static constexpr auto kKernel = weight_gradients_kernel<Config, problem.count>;

  WeightGradientArguments<problem.count> given_;
};

// Operands of a problem, random, and its results.
template <class Storage, cuda::WeightGradientsProblem problem>
struct WeightGradientTensors {
  std::vector<std::vector<Storage>> d_y, x;
  std::vector<DeviceArray<Storage>> device_d_y, device_x;
  std::vector<DeviceArray<float>> d_w;

  explicit WeightGradientTensors(std::uint64_t seed) {
    for (int i = 0; i < problem.count; ++i) {
      d_y.push_back(random_values<Storage>(problem.rows * problem.m[i], seed + 2 * i));
      x.push_back(random_values<Storage>(problem.rows * problem.n[i], seed + 2 * i + 1));
      device_d_y.emplace_back(d_y.back());
      device_x.emplace_back(x.back());
      d_w.emplace_back(problem.m[i] * problem.n[i]);
    }
  }

  template <class Kernel>
  Kernel kernel() {
    const Storage *d_ys[problem.count], *xs[problem.count];
    float* d_ws[problem.count];
    for (int i = 0; i < problem.count; ++i)
      d_ys[i] = device_d_y[i].get(), xs[i] = device_x[i].get(), d_ws[i] = d_w[i].get();
    return Kernel(d_ys, xs, d_ws);
  }

  // All results, one after the other.
  std::vector<float> read(bool& intact) const {
    std::vector<float> all;
    intact = true;
    for (const DeviceArray<float>& one : d_w) {
      bool whole;
      const std::vector<float> values = one.read(whole);
      all.insert(all.end(), values.begin(), values.end());
      intact = intact && whole;
    }
    return all;
  }

  void write(const std::vector<float>& all) {
    std::size_t at = 0;
    for (int i = 0; i < problem.count; ++i) {
      const std::size_t size = problem.m[i] * problem.n[i];
      check(cudaMemcpy(d_w[i].get(), all.data() + at, size * sizeof(float), cudaMemcpyHostToDevice),
            "memcpy");
      at += size;
    }
  }
};

}  // namespace hydrac::test
