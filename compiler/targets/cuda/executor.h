// Runs a compiled Program on a GPU: one arena, each function one CUDA graph, everything of a step on the
// device. The host only copies batches in, through pinned memory, and reads results a step late.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/memory.h"
#include "runtime/cuda/monitor.h"
#include "targets/cuda/kernels.h"
#include "targets/cuda/machine.h"
#include "targets/cuda/staging.h"
#include "targets/executable/executable.h"

namespace hydrac::targets {

class CudaProgram final : public Executable {
 public:
  // Compiles the kernels (or takes them from the cache), allocates the arena, chooses the products'
  // algorithms (measured in the arena, or from the cache). `machine` must outlive it. RunError when the GPU's
  // memory does not hold the plan.
  CudaProgram(driver::Compiled compiled, CudaMachine& machine);
  ~CudaProgram() override;

  int64_t steps_in_flight() const override { return kInFlight; }
  void micro_step(const runtime::Batch& batch, float inv_count) override;
  void update() override;
  runtime::StepResult finish_step() override;
  double evaluate(const runtime::Batch& batch) override;
  std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position) override;
  std::optional<runtime::DeviceLoad> device_load() override;

  std::vector<CallTime> timed(const std::string& function) override;
  std::string description() const override;
  double peak_flops() const override;

  std::vector<double> take_step_times() override;
  std::optional<int64_t> measured_bytes() const override { return measured_bytes_; }
  const LoadedKernels& kernels() const { return kernels_; }

 private:
  static constexpr int kInFlight = 2;
  struct Step;  // one resolved call

  void copy_out(int64_t offset, std::span<std::byte> to) const override;
  void copy_in(int64_t offset, std::span<const std::byte> from) override;
  void clear_persistent() override;
  void run_once(const std::string& function) override;
  void step_through(const std::string& function, const AfterCall& go_on) const override;
  LastRun last_run() const override;

  void resolve();
  void plan_products();
  void plan_product(const program::GemmShape& shape);
  void execute(const Step& step, const runtime::cuda::Stream& stream) const;
  void execute_branches(const std::vector<Step>& steps) const;
  void execute_all(const std::string& functions) const;
  void prepare(const std::string& functions) const;
  void prepare_all() const;
  void run(const std::string& functions) const;
  void flush() const;

  CudaMachine& machine_;
  runtime::cuda::Stream stream_, beside_;  // beside_: the second branch of graphs
  int64_t measured_bytes_ = 0;
  runtime::cuda::DeviceBuffer arena_;
  LoadedKernels kernels_;
  std::map<program::GemmShape, runtime::cuda::Gemm> products_;
  std::map<std::string, std::vector<Step>> steps_;
  mutable std::map<std::string, runtime::cuda::Graph> graphs_;
  // A batch is on its way and its micro_step waits for update(), to be one graph with it. Whoever reads
  // memory before that makes it run.
  mutable bool pending_ = false;
  bool evaluated_ = false;  // since the last micro_step()
  std::unique_ptr<Staging> staging_;
  runtime::cuda::GpuMonitor monitor_;
  std::vector<float> logits_;
};

}  // namespace hydrac::targets
