// A compiled program in the memory of the machine that runs it: what the training loop, verify and bench need
// of any target. A target adds how memory is reached and how functions run.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "runtime/train/step_program.h"
#include "targets/executable/non_finite.h"

namespace hydrac::targets {

// How long one call of a function took, by position in its unrolled list.
struct CallTime {
  std::string section;
  std::string name;   // the kernel's, or the product's shape
  std::string label;  // the tensor it makes
  double seconds = 0;
  double flop = 0;
  double bytes = 0;
};

class Executable : public runtime::StepProgram {
 public:
  explicit Executable(driver::Compiled compiled) : compiled_(std::move(compiled)) {}

  const driver::Compiled& compiled() const { return compiled_; }

  // One slot of a value, dense and as f32 whatever its storage type; for checks and reports. Nothing may be
  // running.
  std::vector<float> read(ir::ValueId value, int slot) const;
  void write(ir::ValueId value, int slot, std::span<const float> data);

  // Runs one function with a clock around every call.
  virtual std::vector<CallTime> timed(const std::string& function) = 0;
  // Milliseconds that each optimizer step took since the last call, where the target has a clock of its own
  // for them.
  virtual std::vector<double> take_step_times() { return {}; }
  // Memory that was really taken for arena_bytes(), where that can be measured.
  virtual std::optional<int64_t> measured_bytes() const { return std::nullopt; }
  // "4 kernels from the cache in 0.1 s, products by oneDNN, 2 threads": what a run prints first.
  virtual std::string description() const = 0;
  // What the target computes a product with at best, flop a second, for the program's precision; 0 = unknown.
  virtual double peak_flops() const = 0;

  // From now on every call is waited for, and what it wrote is looked at before the next one: a call that
  // fails, or the first that writes NaN or infinity, is a RunError that names it. With loss scaling, to which
  // overflow belongs, only calls that fail. Slow.
  void check_kernels() { checking_ = true; }
  std::string explain_divergence() override;

  void initialize() override;
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

 protected:
  // Bytes of the arena, addressed from its start. They wait for what is running.
  virtual void copy_out(int64_t offset, std::span<std::byte> to) const = 0;
  virtual void copy_in(int64_t offset, std::span<const std::byte> from) = 0;
  // The arena's part that lives on becomes 0.
  virtual void clear_persistent() = 0;
  // Runs a function once and waits for it.
  virtual void run_once(const std::string& function) = 0;

  // Runs a function's calls in order, each waited for, as long as `go_on` says so of the one that just ran.
  // RunError that names the call when one fails.
  using AfterCall = std::function<bool(const CallPlace&)>;
  virtual void step_through(const std::string& function, const AfterCall& go_on) const = 0;

  // What ran last.
  struct LastRun {
    // The input_bytes of each micro-batch of the step finished last; empty: a batch was evaluated, and the
    // arena still holds it.
    std::vector<std::span<const std::byte>> inputs;
    int64_t later_micro_batches = 0;  // of steps begun after that one
  };
  virtual LastRun last_run() const = 0;

  bool checking() const { return checking_; }
  void run_checked(const std::string& function) const;  // as check_kernels() says

  // To be called before a function that reads working copies of parameters: makes them anew after an upload.
  void refresh_working_copy();

  // Of a value's slot, in the arena.
  int64_t offset(ir::ValueId value, int slot = 0) const;

  template <typename T>
  T read_scalar(ir::ValueId value) const {
    T result;
    copy_out(offset(value), std::as_writable_bytes(std::span(&result, 1)));
    return result;
  }
  template <typename T>
  void write_scalar(ir::ValueId value, T number) {
    copy_in(offset(value), std::as_bytes(std::span(&number, 1)));
  }

 private:
  ReadArena reader() const;
  std::optional<std::string> first_non_finite(const std::string& function) const;
  std::optional<std::string> repeat(const LastRun& run);

  driver::Compiled compiled_;
  bool checking_ = false;
  bool stale_ = false;  // parameters were uploaded, and their working copies were not made anew
};

}  // namespace hydrac::targets
