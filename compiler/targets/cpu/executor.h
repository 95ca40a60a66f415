// Runs a compiled Program on this machine's processors: one arena, every call's pointers resolved once, then
// called in order. Nothing is allocated and nothing is decided while it runs.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "runtime/cpu/gemm.h"
#include "targets/cpu/jit.h"
#include "targets/executable/executable.h"

namespace hydrac::targets {

class CpuProgram final : public Executable {
 public:
  // Compiles the kernels (or takes them from the cache), opens the BLAS, allocates the arena.
  CpuProgram(driver::Compiled compiled, const std::filesystem::path& cache_dir);
  ~CpuProgram() override;

  void micro_step(const runtime::Batch& batch, float inv_count) override;
  void update() override;
  runtime::StepResult finish_step() override;
  double evaluate(const runtime::Batch& batch) override;
  std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position) override;

  std::vector<CallTime> timed(const std::string& function) override;
  std::string description() const override;
  double peak_flops() const override { return blas_->peak_gflops() * 1e9; }

  const runtime::Blas& blas() const { return *blas_; }
  const KernelLibrary& kernels() const { return library_; }

 private:
  struct Step;  // one resolved call

  void copy_out(int64_t offset, std::span<std::byte> to) const override;
  void copy_in(int64_t offset, std::span<const std::byte> from) override;
  void clear_persistent() override;
  void run_once(const std::string& function) override { run(function); }
  void step_through(const std::string& function, const AfterCall& go_on) const override;
  LastRun last_run() const override;

  void resolve();
  void execute(const Step& step) const;
  void run(const std::string& function);
  void load_batch(const runtime::Batch& batch, float inv_count);
  template <typename T>
  T* pointer(ir::ValueId value) const;

  KernelLibrary library_;
  std::unique_ptr<runtime::Blas> blas_;
  std::map<std::string, std::vector<Step>> steps_;
  std::byte* arena_ = nullptr;
  bool unread_result_ = false;  // update() ran, and finish_step() did not
  // The inputs of each micro-batch of the newest step, while no batch has been evaluated after it.
  std::vector<std::vector<std::byte>> inputs_;
  bool step_ended_ = false;
};

}  // namespace hydrac::targets
