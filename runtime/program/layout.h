// Layout of what the host reads and writes in a compiled program, and how its memory starts: plain data, the
// same for a program that was compiled just now and for one that was emitted as code.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/log/metric.h"
#include "runtime/program/call_table.h"
#include "runtime/train/step_program.h"

namespace hydrac::runtime {

// The functions that a program is made of; all work on one arena.
enum class Function {
  micro_step,  // forward and backward of one micro-batch
  update,      // clipping, learning rate, optimizer
  evaluate,    // forward of one batch without dropout
  generate,    // logits of one token; language models
  prefill,     // instead of it, with a cache: logits behind prompts,
  decode,      // and behind the next token of every sequence
  score,       // forward of a batch of replies without dropout; programs with an objective
  score_base,  // the same without adapters
  embed,       // forward of a batch of texts through an encoder of replies; where there is one
  load         // makes the working copies of the parameters anew; where there are some
};
std::string_view to_string(Function function);

// A dense tensor in the arena: bytes from the arena's start, and how many elements; of 4 bytes, where nothing
// else is said.
struct Place {
  int64_t offset = -1;
  int64_t elements = 0;
  explicit operator bool() const { return offset >= 0; }  // whether the program has it
};

// The ports of ports.def. Inputs lie within the first input_bytes of the arena.
struct InputPlaces {
#define HYDRAC_INPUT(name) Place name;
#include "runtime/program/ports.def"
  int64_t token_ids = 0;     // token_order: ids are smaller than this
  int64_t position_ids = 0;  // position_order: positions are smaller than this
  // If ranks share layers: own_ids from first_own_id on are a rank's part of the vocabulary, and of targets
  // too with own_targets.
  int64_t own_ids = 0, first_own_id = 0;
  bool own_targets = false;
};
struct StatePlaces {
#define HYDRAC_STATE(name) Place name;
#include "runtime/program/ports.def"
  float initial_loss_scale = 0;
  DecimalRate initial_rate;
};
struct ResultPlaces {
#define HYDRAC_RESULT(name) Place name;
#include "runtime/program/ports.def"
  int64_t vocab_size = 0;  // V
};

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
  enum class Kind { llama3, linear, yarn };
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
  Kind kind = Kind::llama3;
  double attention_factor = 1;  // of all cosines and sines with yarn
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
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

struct ProgramLayout {
  int64_t arena_bytes = 0;       // all tensor memory
  int64_t persistent_bytes = 0;  // of which, at its start, what lives as long as the program
  int64_t input_bytes = 0;       // of which, at its start, inputs
  int64_t host_bytes = 0;        // of all, at its end: in the host's memory, and they live as long; GPUs only
  int64_t kept_bytes = 0;        // before these: like them, but in the GPU's memory

  InputPlaces inputs;
  StatePlaces state;
  ResultPlaces results;
  std::vector<MetricPlace> metrics;

  uint32_t seed = 0;
  std::vector<ParameterStart> starts;  // in this order they are numbered for the random numbers
  std::optional<RopeTables> rope;

  // As in a checkpoint; addresses count from the arena's start. See ProgramTensors.
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
