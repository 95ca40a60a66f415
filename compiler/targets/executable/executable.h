// A compiled program on the machine that runs it, with what the compiler's verbs need besides the training
// loop: its tensors by value, its calls one by one. A target adds only how calls run; memory, steps and
// checkpoints are the runtime's (runtime/program), as in an emitted program.
#pragma once
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::targets {

// How long one call of a function took, by position in its unrolled list.
struct CallTime {
  std::string section;
  std::string name;   // the kernel's, or the matmul's shape
  std::string label;  // the tensor it makes
  double seconds = 0;
  double flop = 0;
  double bytes = 0;
  const program::Call* call = nullptr;  // of the program
};

// A library's call whose algorithm can be exchanged for another one, in the words of choices().
struct Exchangeable {
  std::string section, key;         // of choices()
  std::string now;                  // its algorithm
  std::vector<std::string> others;  // about as fast by themselves, the fastest first
};

class Executable {
 public:
  explicit Executable(driver::Compiled compiled) : compiled_(std::move(compiled)) {}
  virtual ~Executable() = default;

  const driver::Compiled& compiled() const { return compiled_; }

  // The same program as the training loop knows it.
  virtual runtime::LaidOutProgram& steps() = 0;

  // One slot of a value, dense and as f32 in every storage type. A matrix that is kept as 4-bit codes is
  // dequantized when read and quantized when written. For checks and reports. Nothing may be running.
  std::vector<float> read(ir::ValueId value, int slot);
  void write(ir::ValueId value, int slot, std::span<const float> data);

  // Runs one function with a clock around every call.
  virtual std::vector<CallTime> timed(const std::string& function) = 0;
  // Milliseconds of each optimizer step since the last call, if the target times them itself.
  virtual std::vector<double> take_step_times() { return {}; }
  // Memory that was really taken for the arena, where that can be measured.
  virtual std::optional<int64_t> measured_bytes() const { return std::nullopt; }
  // Joules that the machine has used so far and watts that it is limited to, where it counts them.
  virtual std::optional<double> energy_joules() const { return std::nullopt; }
  virtual std::optional<double> power_limit_watts() const { return std::nullopt; }
  // The library's calls of a training step, the largest first, each with up to `most` other algorithms, which
  // it measures. Overwrites the program's memory.
  virtual std::vector<Exchangeable> exchangeable(int most) {
    static_cast<void>(most);
    return {};
  }
  // From now on the call of such a section and key takes another algorithm.
  virtual void exchange(const std::string& section, const std::string& key, const std::string& algorithm) {
    throw std::logic_error("no algorithm of " + section + " " + key + " can be exchanged for " + algorithm);
  }
  // The target's best flop a second for a matmul in the program's precision; 0 = unknown.
  virtual double peak_flops() const = 0;

 private:
  bool is_quantized(ir::ValueId value) const;  // a parameter that is kept as 4-bit codes
  std::vector<runtime::NamedTensor> quantized(ir::ValueId value, int slot) const;
  int64_t offset(ir::ValueId value, int slot = 0) const;  // in the arena

  driver::Compiled compiled_;
};

// How a step's micro-batches are summed, if that is not the order of one process that accumulates them;
// RecordedChoices records it: "2 ranks of 4". With one micro-batch a rank the order is the same; with several
// each rank sums its own first. One micro-batch of replies and one of data count as one if the replies fill
// theirs. "" if the order is the same.
std::string sums_of_ranks(const spec::Spec& spec);

}  // namespace hydrac::targets
