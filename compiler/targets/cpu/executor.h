// Runs a compiled Program on this machine's processors: one arena, every call's pointers resolved once, then
// called in order. Nothing is allocated and nothing is decided while it runs.
#pragma once
#include <filesystem>
#include <memory>
#include <span>

#include "driver/compile.h"
#include "runtime/cpu/gemm.h"
#include "runtime/train/step_program.h"
#include "targets/cpu/jit.h"

namespace hydrac::targets {

// Seconds that the calls of one function took, by position in its unrolled list.
struct CallTime {
  std::string section;
  std::string name;  // kernel, or "gemm"
  std::string label;
  double seconds = 0;
  double flop = 0;
  double bytes = 0;
};

class CpuProgram final : public runtime::StepProgram {
 public:
  // Compiles the kernels (or takes them from the cache), opens the BLAS, allocates the arena.
  CpuProgram(driver::Compiled compiled, const std::filesystem::path& cache_dir);
  ~CpuProgram() override;

  void initialize() override;
  void micro_step(const runtime::Batch& batch, float inv_count) override;
  void update() override;
  runtime::StepResult finish_step() override;
  double evaluate(const runtime::Batch& batch) override;
  std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position) override;
  bool can_generate() const override { return compiled_.interface.logits != ir::kNoValue; }
  int64_t context_length() const override { return compiled_.spec.train.sequence_len; }
  std::vector<runtime::NamedTensor> parameters() override;
  std::vector<runtime::NamedTensor> optimizer_state() override;
  void download(const runtime::NamedTensor& tensor, std::span<std::byte> to) override;
  void upload(const runtime::NamedTensor& tensor, std::span<const std::byte> from) override;
  runtime::Counters counters() const override;
  void set_counters(const runtime::Counters& counters) override;
  int64_t arena_bytes() const override { return compiled_.plan.arena_bytes; }
  double flop_per_target() const override;

  // The slots of a value, dense, for checks: float32 only.
  std::vector<float> read(ir::ValueId value, int slot) const;
  void write(ir::ValueId value, int slot, std::span<const float> data);

  // Runs one function with a clock around every call.
  std::vector<CallTime> timed(const std::string& function);

  const driver::Compiled& compiled() const { return compiled_; }
  const runtime::Blas& blas() const { return *blas_; }
  const KernelLibrary& kernels() const { return library_; }

 private:
  struct Step;  // one resolved call
  struct Functions;

  void resolve();
  void execute(const Step& step) const;
  void run(const std::string& function);
  void load_batch(const runtime::Batch& batch, float inv_count);
  template <typename T>
  T* pointer(ir::ValueId value, int slot = 0) const;

  driver::Compiled compiled_;
  KernelLibrary library_;
  std::unique_ptr<runtime::Blas> blas_;
  std::unique_ptr<Functions> functions_;
  std::byte* arena_ = nullptr;
  bool unread_result_ = false;
};

}  // namespace hydrac::targets
