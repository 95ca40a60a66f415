// Runs a compiled Program on this machine's processors: every call's pointers are resolved once, then the
// calls run in order. Nothing is allocated or decided during a run.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/cpu/cpu_step_program.h"
#include "runtime/cpu/gemm.h"
#include "targets/cpu/jit.h"
#include "targets/executable/executable.h"

namespace hydrac::targets {

class CpuProgram final : public Executable, public runtime::CpuStepProgram {
 public:
  // Compiles the kernels (or takes them from the cache), opens the BLAS, allocates the arena.
  CpuProgram(driver::Compiled compiled, const std::filesystem::path& cache_dir,
             const runtime::RecordedChoices& recorded = {});
  ~CpuProgram() override;

  runtime::LaidOutProgram& steps() override { return *this; }

  std::vector<CallTime> timed(const std::string& function) override;
  std::string description() const override;
  runtime::RecordedChoices choices() const override;
  double peak_flops() const override { return blas_->peak_gflops() * 1e9; }

  const runtime::Blas& blas() const { return *blas_; }
  const KernelLibrary& kernels() const { return library_; }

 private:
  struct Step;  // one resolved call

  void execute(runtime::Function function) override;

  void resolve();
  // A function that runs a call of one iteration of its section, with its tensors at these addresses.
  std::function<void()> resolved(const program::Call& call, const std::vector<void*>& addresses,
                                 int iteration, int layer) const;

  KernelLibrary library_;
  std::unique_ptr<runtime::Blas> blas_;
  std::map<std::string, std::vector<Step>> steps_;
};

}  // namespace hydrac::targets
