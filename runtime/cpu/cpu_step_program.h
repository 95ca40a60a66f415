// A StepProgram on this machine's processors: the arena, batches in, results out. Derived classes add the
// calls of each function.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/program/hooks.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

class CpuStepProgram : public LaidOutProgram {
 public:
  // Takes the arena from the system. RunError when it has not so much memory.
  explicit CpuStepProgram(ProgramLayout layout);
  ~CpuStepProgram() override;
  CpuStepProgram(const CpuStepProgram&) = delete;
  CpuStepProgram& operator=(const CpuStepProgram&) = delete;

  void copy_out(int64_t offset, std::span<std::byte> to) override;
  void copy_in(int64_t offset, std::span<const std::byte> from) override;

  void micro_step(const Batch& batch, float inv_count) override;
  void update() override;
  StepResult finish_step() override;
  void end_replies() override;
  void compute(Function function, const Batch* batch) override;
  std::span<const std::byte> read_port(Place port) override {
    return {arena_ + port.offset, static_cast<size_t>(port.elements * 4)};
  }

 protected:
  // Runs a function's calls one after another, each with after_call(); they are done when it returns.
  virtual void execute(Function function) = 0;

  // Page-aligned; where it lies never changes.
  std::byte* arena() const { return arena_; }
  // Gives an emitted program's hooks their memory, and each step's result their metrics. Once, at first.
  HookMemory add_hooks(std::vector<MetricText> metrics, size_t scratch_bytes);

 private:
  void clear_persistent() override;
  void run(Function function) override { execute(function); }
  void wait() const override {}
  LastRun last_run() const override { return {{inputs_.begin(), inputs_.end()}, 0}; }
  // A function, with its inputs in the arena.
  void perform(Function function);
  void perform_timed(Function function);

  template <typename T>
  T* at(Place place) const {
    return reinterpret_cast<T*>(arena_ + place.offset);
  }

  std::byte* arena_ = nullptr;
  bool unread_result_ = false;  // update() ran, and finish_step() did not
  // The inputs of each micro-batch of the newest step, while no batch has been evaluated after it.
  std::vector<std::vector<std::byte>> inputs_;
  bool step_ended_ = false;
  std::vector<MetricText> hook_metrics_;
  std::vector<float> hook_values_;
  std::vector<std::byte> hook_scratch_;
};

}  // namespace hydrac::runtime
