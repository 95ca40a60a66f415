// Where a compiled program keeps what the host reads and writes, and how its memory starts: plain data, the
// same for a program that was compiled just now and for one that was emitted as code.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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

// What the host writes, within the first input_bytes of the arena. Shapes as in runtime::Batch.
struct InputPlaces {
  Place tokens;              // i32 [B,T]
  Place features;            // f32 [B,T,F]
  Place targets;             // i32 [B,T]; where absent, float_targets
  Place float_targets;       // f32 [B,T,O]
  Place documents;           // i32 [B,T,2]
  Place positions;           // i32 [B,T]
  Place token_order;         // i32 [B*T], see runtime/cuda/token_order.h; GPUs only
  int64_t token_ids = 0;     // token_order: ids are smaller than this
  Place position_order;      // i32 [B*T], of the positions; GPUs only, where positions are learned
  int64_t position_ids = 0;  // position_order: positions are smaller than this
  Place target_weights;      // f32 [B,T]; with an objective
  Place segments;            // i32 [B,T]; with an objective and no encoder
  // Where ranks share layers: f32 like tokens and prompt, 1 where a rank has the token in its part of the
  // vocabulary, own_ids from first_own_id on; `tokens` are rows of a part. own_targets: targets are, too.
  Place own_tokens, own_prompt;
  int64_t own_ids = 0, first_own_id = 0;
  bool own_targets = false;
  Place inv_count;  // f32 []: 1 / targets that count in the whole optimizer step
  Place prompt;     // i32 [T]: generation's context
  Place position;   // i32 []: the token of it whose successor is wanted
  // With a cache, see StepProgram::prefill() and decode(), of A prompts and S sequences.
  Place prompts;                      // i32 [A,P]
  Place prompt_rows, prompt_ends;     // i32 [A]: the sequence of each, or -1, and its last token
  Place next_tokens, next_positions;  // i32 [S]
  Place page_table;                   // i32 [S, CacheShape::pages_of_sequence]; with a cache in pages
  // With an encoder, see StepProgram::embed(): i32 [E,L], [E,L,2], [E,L] and [E,L].
  Place text_tokens, text_documents, text_positions, text_segments;
  // Of StepProgram::decode_top(): f32 [], i32 [], and f32 [S,2], whose sum is a row's number.
  Place inverse_temperature, vocabulary, uniforms;
};

// Device-side state that a program starts with and continues from, one element each.
struct StatePlaces {
  Place step;         // i32: optimizer steps done
  Place rng_step;     // u32: micro-batches done
  Place rng_seed;     // u32
  Place rank;         // i32: of this process; where ranks share the update
  Place own_classes;  // i32: tokens of the rank's part of the vocabulary; where ranks share layers
  Place own_seed;     // u32: of what drops out of the rank's heads; likewise
  Place first_row;    // i32: of the rank's rows of the residual stream; likewise, where these drop out
  Place loss_scale;   // f32; fp16 only
  float initial_loss_scale = 0;
  // Where a range test finds the learning rate, see StepProgram::set_learning_rate(); f32.
  Place rate_digits, rate_unit;
  Place rate_trial;  // not 0: each step has the whole rate, whatever the schedule says
  DecimalRate initial_rate;
};

// What the functions leave for the host, f32 [] where nothing else is said.
struct ResultPlaces {
  Place step_loss;           // of the whole optimizer step
  Place grad_norm;           // before clipping
  Place learning_rate;       // that this step used
  Place aux_loss;            // of all blocks; where they add to what training minimizes
  Place predictor_accuracy;  // of all tokens and routed layers; of a mixture of depths
  Place mean_depth;          // of all tokens and blocks; of a mixture of recursions
  Place loss_scale;          // that this step's gradients were multiplied by; fp16 only
  Place skipped;             // i32 []: 1 when the gradients overflowed; fp16 only
  Place loss;                // of the micro-batches of the step so far
  Place eval_loss;           // of the batch evaluated last
  Place eval_hits;           // of its targets, those that were predicted; classification only
  Place logits;              // f32 [V], then padding; language models only
  Place prompt_logits;       // f32 [A, V and padding]; with a cache
  Place next_logits;         // f32 [S, V and padding]; with a cache
  // With an objective, see StepProgram::score() and reply_distances(): f32 [B,T], [P,N,C], [P] and [P,N].
  Place target_losses, base_target_losses, reply_embeddings, reply_distance, reply_distances;
  // Where decode finds the largest logits: f32 [S,N], i32 [S,N], f32 [S], i32 [S].
  Place top_values, top_ids, top_sums, drawn;
  int64_t vocab_size = 0;  // V
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

// Where the backward pass adds up the gradients of a stretch of the parameters: element i is that of the
// parameters' element i.
struct GradientPlace {
  Place parameters, gradients;
  SafetensorsDtype parameter_dtype = SafetensorsDtype::f32, dtype = SafetensorsDtype::f32;
};

// Llama 3's; factor 1: none.
struct RopeScaling {
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

struct RopeTables {
  Place cos, sin;  // f32 [tokens, head_dim / 2]
  int64_t tokens = 0, head_dim = 0;
  double theta = 10000;
  RopeScaling scaling;
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

  uint32_t seed = 0;
  std::vector<ParameterStart> starts;  // in this order they are numbered for the random numbers
  std::optional<RopeTables> rope;

  // As in a checkpoint; addresses count from the arena's start. See StepProgram.
  std::vector<NamedTensor> parameters, base_parameters, optimizer_state;
  std::vector<NamedTensor> encoder_parameters;  // StepProgram::encoder_parameters()
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

// Where the gradient of one of its parameters lies, in the parameter's shape; none of one that is frozen.
std::optional<NamedTensor> gradient_of(const ProgramLayout& layout, const NamedTensor& parameter);

}  // namespace hydrac::runtime
