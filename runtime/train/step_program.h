// What a compiled program offers the training loop, whichever target runs it and whether it was compiled just
// now or ahead of time.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/batch.h"

namespace hydrac::runtime {

struct StepResult {
  float loss = 0;       // of the whole optimizer step, per target
  float grad_norm = 0;  // before clipping
  float learning_rate = 0;
};

// A float32 tensor of the program's memory, dense and row-major, under its name in a checkpoint.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;  // as the checkpoint has it
  float* data = nullptr;       // the first element; rows follow one another
  bool transposed = false;     // the checkpoint stores [in, out], memory holds [out, in]
};

// Device-side counters that a resumed run must continue from.
struct Counters {
  int64_t step = 0;      // optimizer steps done
  int64_t rng_step = 0;  // micro-batches done
};

class StepProgram {
 public:
  virtual ~StepProgram() = default;

  // Fills parameters with their starting values (a function of the seed) and everything else with its start.
  virtual void initialize() = 0;

  // Forward and backward of one micro-batch. `inv_count`: 1 / targets of all micro-batches of this optimizer
  // step.
  virtual void micro_step(const Batch& batch, float inv_count) = 0;
  // Clipping, learning rate, optimizer. After it the next step begins.
  virtual StepResult update() = 0;
  // Sum of the losses of the batch's targets, without dropout.
  virtual double evaluate(const Batch& batch) = 0;

  // Language models: logits [vocab] of the token after prompt[position]. `prompt` has at most
  // context_length() tokens.
  virtual std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position) = 0;
  virtual bool can_generate() const = 0;
  virtual int64_t context_length() const = 0;

  virtual std::vector<NamedTensor> parameters() = 0;       // what model.safetensors holds
  virtual std::vector<NamedTensor> optimizer_state() = 0;  // what optimizer.safetensors holds
  virtual Counters counters() const = 0;
  virtual void set_counters(const Counters& counters) = 0;

  virtual int64_t arena_bytes() const = 0;     // all tensor memory
  virtual double flop_per_target() const = 0;  // model flop a trained token, for mfu; 0 = unknown
};

}  // namespace hydrac::runtime
