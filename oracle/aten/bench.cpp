#include "oracle/aten/bench.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "oracle/aten/optimizer.h"
#include "oracle/aten/random_data.h"
#include "oracle/aten/runner.h"
#include "oracle/aten/tensors.h"
#include "oracle/aten/threads.h"
#include "oracle/job/schedule.h"

namespace hydrac::oracle {
namespace {

constexpr int kWarmupSteps = 3;

// glibc gives large blocks back to the system at every free, and a step would spend much of its time on page
// faults. Those who tune PyTorch on CPUs preload another allocator for that; two settings do the same.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
}

class Training {
 public:
  explicit Training(const Job& job)
      : job_(job),
        runner_(job.graph, Mode::training, job.seed),
        data_(job.graph, job.accumulation),
        parameters_(list_parameters(job.graph, job.decay)) {
    for (Parameter& parameter : parameters_) {
      parameter.tensor = data_.parameter(parameter.value);
      parameter.tensor.set_requires_grad(true);
      sources_[{parameter.value, parameter.slot}] = parameter.tensor;
    }
    for (int value = 0; value < static_cast<int>(job.graph.values.size()); ++value) {
      if (job.graph.values[value].role != Role::frozen) continue;
      for (int slot = 0; slot < job.graph.values[value].slots; ++slot)
        sources_[{value, slot}] = data_.parameter(value);
    }
  }

  std::int64_t positions() const { return data_.positions() * job_.accumulation; }

  void make_batches(int step) {
    batches_.assign(job_.accumulation, {});
    for (auto& batch : batches_)
      for (int value = 0; value < static_cast<int>(job_.graph.values.size()); ++value)
        if (job_.graph.values[value].role == Role::input) batch[value] = data_.input(value, step);
  }

  // Returns the loss of the step's batches. `optimizer` updates parameters().
  double step(int step, Optimizer& optimizer) {
    for (Parameter& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
    double total = 0;
    for (const auto& batch : batches_) {
      const Runner::Losses losses =
          runner_.forward([&](int value, int slot) { return source(batch, value, slot); });
      losses.total().backward();
      total += losses.loss.item<double>();
    }
    if (job_.max_grad_norm > 0) clip_gradients(parameters_, gradient_norm(parameters_), job_.max_grad_norm);
    optimizer.step(job_.optimizer.learning_rate * learning_rate_factor(job_.schedule, step));
    return total;
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  using Batch = std::map<int, at::Tensor>;  // by value

  // Constants have no tensor: rope, which has them as inputs, makes its own.
  at::Tensor source(const Batch& batch, int value, int slot) const {
    if (const auto input = batch.find(value); input != batch.end()) return input->second;
    const auto parameter = sources_.find({value, slot});
    return parameter == sources_.end() ? at::Tensor() : parameter->second;
  }

  const Job& job_;
  Runner runner_;  // first: it checks the graph
  RandomData data_;
  std::vector<Parameter> parameters_;
  std::map<std::pair<int, int>, at::Tensor> sources_;  // (value, slot) of each parameter, frozen ones too
  std::vector<Batch> batches_;
};

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // Linux counts in KiB
}

}  // namespace

BenchResult bench(const Job& job) {
  keep_freed_memory();
  use_threads(job.threads);
  at::manual_seed(job.seed);
  Training training(job);
  Optimizer optimizer(job, training.parameters(), /*prefer_fused=*/true);

  BenchResult result;
  std::vector<double> times;
  for (int step = 0; step < kWarmupSteps + job.bench_steps; ++step) {
    training.make_batches(step);
    const auto begin = std::chrono::steady_clock::now();
    result.loss_last = training.step(step, optimizer);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
    if (step == 0) result.loss_first = result.loss_last;
    if (step >= kWarmupSteps) times.push_back(elapsed.count());
  }
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  result.ms_min = times.front();
  result.ms_per_step_median = times.size() % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  result.tokens_per_second = 1000.0 * static_cast<double>(training.positions()) / result.ms_per_step_median;
  result.peak_rss_mib = peak_rss_mib();
  result.torch = TORCH_VERSION;
  return result;
}

}  // namespace hydrac::oracle
