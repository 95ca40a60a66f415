// A compiled program on the machine that runs it, as the compiler's own verbs need it beside the training
// loop: its tensors by value, its calls one by one. What a target adds is how calls run; memory, steps and
// checkpoints are the runtime's (runtime/program), as in a program that was emitted.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "runtime/program/laid_out_program.h"
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
  bool multiplies_matrices = false;  // a product or attention
};

class Executable {
 public:
  explicit Executable(driver::Compiled compiled) : compiled_(std::move(compiled)) {}
  virtual ~Executable() = default;

  const driver::Compiled& compiled() const { return compiled_; }

  // The same program as the training loop knows it.
  virtual runtime::LaidOutProgram& steps() = 0;

  // One slot of a value, dense and as f32 whatever its storage type; for checks and reports. Nothing may be
  // running.
  std::vector<float> read(ir::ValueId value, int slot);
  void write(ir::ValueId value, int slot, std::span<const float> data);

  // Runs one function with a clock around every call.
  virtual std::vector<CallTime> timed(const std::string& function) = 0;
  // Milliseconds that each optimizer step took since the last call, where the target has a clock of its own
  // for them.
  virtual std::vector<double> take_step_times() { return {}; }
  // Memory that was really taken for the arena, where that can be measured.
  virtual std::optional<int64_t> measured_bytes() const { return std::nullopt; }
  // What the target computes a product with at best, flop a second, for the program's precision; 0 = unknown.
  virtual double peak_flops() const = 0;

  // From now on every call is waited for, and what it wrote is looked at before the next one: a call that
  // fails, or the first that writes NaN or infinity, is a RunError that names it. With loss scaling, to which
  // overflow belongs, only calls that fail. Slow.
  virtual void check_kernels() { checking_ = true; }

 protected:
  // Runs a function's calls in order, each waited for, as long as `go_on` says so of the one that just ran.
  // RunError that names the call when one fails.
  using AfterCall = std::function<bool(const CallPlace&)>;
  virtual void step_through(const std::string& function, const AfterCall& go_on) = 0;

  // What ran last.
  struct LastRun {
    // The input_bytes of each micro-batch of the step finished last; empty: a batch was evaluated, and the
    // arena still holds it.
    std::vector<std::span<const std::byte>> inputs;
    int64_t later_micro_batches = 0;  // of steps begun after that one
  };
  virtual LastRun last_run() const = 0;

  bool checking() const { return checking_; }
  void run_checked(const std::string& function);  // as check_kernels() says

  // As StepProgram::explain_divergence(): repeats what ran last call by call.
  std::string first_bad_value();

 private:
  int64_t offset(ir::ValueId value, int slot = 0) const;  // in the arena
  ReadArena reader();
  std::optional<std::string> first_non_finite(const std::string& function);
  std::optional<std::string> repeat(const LastRun& run);

  driver::Compiled compiled_;
  bool checking_ = false;
};

}  // namespace hydrac::targets
