// The layout of what the host reads and writes in a compiled program, and its initial values: plain data, the
// same for JIT-compiled and emitted programs.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/log/metric.h"
#include "runtime/program/call_table.h"
#include "runtime/program/ports.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

// f32 []: a number of each step that the program reports besides those.
struct MetricPlace {
  MetricText text;
  Place place;
};

// How one slot of a parameter starts. Its padding, which no Place covers, starts as 0.
struct ParameterStart {
  enum class Kind { zeros, ones, constant, normal, uniform };
  Place place;  // elements of `dtype`
  Kind kind = Kind::zeros;
  double number = 0;  // the constant, the normal distribution's standard deviation, the uniform one's bound
  SafetensorsDtype dtype = SafetensorsDtype::f32;  // or 16 bits: the same numbers, rounded to nearest
  // Not empty: the slot is kept as these matrices, one behind the other, and `place` is nowhere. F32.
  std::vector<Nf4Place> nf4 = {};
  // Not empty: what a rank has of it; bytes of `dtype`, addresses count from the arena's start.
  std::vector<TensorPiece> pieces = {};
};

// The sums of the gradients of a stretch of the parameters: element i is that of the parameters' element i.
struct GradientPlace {
  Place parameters, gradients;
  SafetensorsDtype parameter_dtype = SafetensorsDtype::f32, dtype = SafetensorsDtype::f32;
};

// factor 1: none.
struct RopeScaling {
  enum class Kind { llama3, linear, yarn, longrope };
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
  Kind kind = Kind::llama3;
  double attention_factor = 1;  // of all cosines and sines
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  std::vector<double> pair_factors = {};  // longrope's, one a pair
};

struct RopeTables {
  Place cos, sin;                    // f32 [tokens, head_dim / 2], twice with one of the last two
  int64_t tokens = 0, head_dim = 0;  // head_dim: elements of a head that turn
  double theta = 10000;
  RopeScaling scaling;
  double local_theta = 0;  // > 0: in front of these are angles with this base, unscaled
  bool has_still = false;  // behind them are angles of 0
};

// How the ranks of a run on GPUs that share micro-batches exchange numbers, and memory of the arena for it.
struct ExchangePlace {
  enum class By {
    nccl,
    automatic,  // copies where each rank's GPU reaches the memory of all others, else NCCL
    copies
  };
  By by = By::nccl;
  int64_t offset = 0, bytes = 0;  // 0 where it is NCCL
};

struct ProgramLayout : Ports {
  int64_t arena_bytes = 0;       // all tensor memory
  int64_t persistent_bytes = 0;  // of which, at its start, what lives as long as the program
  int64_t input_bytes = 0;       // of which, at its start, inputs
  int64_t host_bytes = 0;        // of all, at its end: in the host's memory, and they live as long; GPUs only
  int64_t kept_bytes = 0;        // before these: like them, but in the GPU's memory

  std::vector<MetricPlace> metrics;

  uint32_t seed = 0;
  std::vector<ParameterStart> starts;  // in this order they are numbered for the random numbers
  std::optional<RopeTables> rope;

  // Tensors as in a checkpoint; addresses count from the arena's start. See ProgramTensors.
  std::vector<NamedTensor> parameters, base_parameters, optimizer_state;
  std::vector<NamedTensor> encoder_parameters;
  // Parameters that no rank has whole: `first` is their address, which no memory has.
  std::vector<SharedBytes> divided;
  bool working_copies = false;  // of parameters, which Function::load makes anew
  std::vector<GradientPlace> gradients;

  ExchangePlace exchange;
  int64_t tensor_ranks = 1;  // that share layers: consecutive ones
  int64_t stream_rows = 0;   // of the residual stream, that each of these has
  // Layers gather their weights, of which each rank has a part: no rank computes by itself.
  bool gathers_weights = false;
  int64_t vocabulary = 0;                   // tokens; where ranks share layers
  int64_t gradient_accumulation_steps = 1;  // micro-batches that a process takes a step, those of replies too
  int64_t reply_micro_batches = 0;          // of these, which come first; with an objective
  int64_t context_length = 0;               // T
  CacheShape cache;
  TextShape texts;
  double flop_per_target = 0;  // model flop a trained token

  CallTable calls;  // of every function; empty: faults are not traced to calls
};

// The gradient of one of its parameters, in the parameter's shape; none of one that is frozen.
std::optional<NamedTensor> gradient_of(const ProgramLayout& layout, const NamedTensor& parameter);

}  // namespace hydrac::runtime
