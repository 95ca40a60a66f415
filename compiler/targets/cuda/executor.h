// Runs a compiled Program on a GPU: the runtime's CudaStepProgram with kernels that were compiled just now,
// and the matmuls and attention plans that the compiler chose.
#pragma once
#include <future>
#include <memory>
#include <vector>

#include "driver/floor.h"
#include "runtime/cuda/cuda_step_program.h"
#include "targets/cuda/calls.h"
#include "targets/cuda/kernels.h"
#include "targets/cuda/machine.h"
#include "targets/executable/executable.h"

namespace hydrac::targets {

class CudaProgram final : public Executable, public runtime::cuda::CudaStepProgram {
 public:
  // Compiles the kernels (or takes them from the cache), allocates the arena, chooses the matmuls'
  // algorithms (measured in the arena, or from the cache). `machine` must outlive it. RunError when the GPU's
  // memory does not hold the plan.
  CudaProgram(driver::Compiled compiled, CudaMachine& machine);
  ~CudaProgram() override { shut_down(); }

  runtime::LaidOutProgram& steps() override { return *this; }

  std::vector<CallTime> timed(const std::string& function) override;
  std::vector<double> take_step_times() override { return CudaStepProgram::take_step_times(); }
  std::optional<int64_t> measured_bytes() const override { return CudaStepProgram::measured_bytes(); }
  std::optional<double> energy_joules() const override { return monitor().energy_joules(); }
  std::optional<double> power_limit_watts() const override { return monitor().power_limit_watts(); }
  std::string description() const override;
  std::vector<Exchangeable> exchangeable(int most) override;
  void exchange(const std::string& section, const std::string& key, const std::string& algorithm) override;
  runtime::RecordedChoices choices() const override;
  double peak_flops() const override {
    return driver::peaks_of(machine_.target(), compiled().spec.optimizations.precision).flops;
  }

  const LoadedKernels& kernels() const { return kernels_; }

 private:
  void enqueue(runtime::Function function) override;

  CudaMachine& machine_;
  std::future<CompiledKernels> compiling_;  // while matmuls are measured on the GPU
  Matmuls matmuls_;
  LoadedKernels kernels_;
  ResolvedCalls calls_;
};

}  // namespace hydrac::targets
