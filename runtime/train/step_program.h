// What a compiled program offers the training loop, whichever target runs it and whether it was compiled just
// now or ahead of time.
//
// Training is asynchronous: micro_step() and update() put work on the device's queue, finish_step() waits for
// the oldest step's result. A program on the processor does the work at once and keeps one result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/recorded_choices.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/batch.h"
#include "runtime/log/metric.h"
#include "runtime/sample/sample.h"
#include "runtime/train/decimal_rate.h"

namespace hydrac::runtime {

struct StepResult {
  float loss = 0;       // of the whole optimizer step, per target
  float grad_norm = 0;  // before clipping; of the unscaled gradients
  float learning_rate = 0;
  // The gradients held infinities or NaN because fp16 ran out of range: parameters and optimizer state are as
  // they were before the step. Loss and gradient norm may be no finite numbers then.
  bool skipped = false;
  std::optional<float>
      loss_scale;  // that this step's gradients were multiplied by; absent: it does not scale
  float communication_seconds = 0;   // that a device which sums over ranks itself waited for them
  std::vector<Metric> metrics = {};  // further numbers that the program reports; each is a float

  // Absent where the program reports no such number.
  std::optional<float> metric(std::string_view name) const {
    for (const Metric& metric : metrics)
      if (metric.text.name == name) return static_cast<float>(metric.value);
    return std::nullopt;
  }
};

// Where a matrix lies as 4-bit codes (runtime/program/nf4.h): addresses of its three parts.
struct Nf4Place {
  uint64_t codes = 0, block_codes = 0, groups = 0;
  int64_t elements = 0;
};

// Bytes of a tensor that ranks share, from `first` on. They lie `before` bytes behind the start of what all
// ranks have together, of which rank r has the r-th `own` bytes at `address`; the last ones' end may be
// padding.
struct SharedBytes {
  int64_t first = 0, bytes = 0;
  uint64_t address = 0;
  int64_t own = 0, before = 0;
};

// Lines of a tensor of which ranks that share layers (parallel.tensor) have parts: `lines` of `bytes` each,
// the first at byte `first` of the whole tensor, and each `stride` behind the one before. Of every line rank
// r of `parts` has the r-th `own` bytes, the last ones fewer; in its memory they lie `own` apart from
// `address` on. parts 1: every rank has all of it.
struct TensorPiece {
  int64_t first = 0;
  int64_t lines = 1, stride = 0;
  int64_t bytes = 0, own = 0;
  int64_t parts = 1;
  uint64_t address = 0;
  // What would be at `address`, where ranks at the same place among those that share layers have parts of it
  // (parallel.zero).
  std::optional<SharedBytes> shared = {};

  int64_t own_bytes() const { return lines * own; }  // in a rank's memory, or in that of those together
};

// A tensor of the program's memory, dense and row-major, under its name in a checkpoint, which stores the
// same elements bit for bit.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;  // as the checkpoint has it; [] is a scalar
  SafetensorsDtype dtype = SafetensorsDtype::f32;
  uint64_t address = 0;     // of its first byte, in whatever memory the program keeps it
  bool transposed = false;  // the checkpoint stores [in, out], memory holds [out, in]
  // Kept so instead of at `address`: uploaded numbers are quantized, downloaded ones are the codes'. F32.
  std::optional<Nf4Place> nf4 = {};
  // Not empty: no rank has all of it, and its bytes are these, one stretch behind the other. Downloaded only
  // within StepProgram::with_whole_state().
  std::vector<SharedBytes> shared = {};
  // Not empty: ranks that share layers have parts of it, and bytes between these are 0. Downloaded as
  // `shared`.
  std::vector<TensorPiece> pieces = {};

  bool is_whole() const { return shared.empty() && pieces.empty(); }
  int64_t bytes() const {
    int64_t count = dtype_bytes(dtype);
    for (const int64_t size : shape) count *= size;
    return count;
  }
};

// Device-side counters that a resumed run must continue from.
struct Counters {
  int64_t step = 0;      // optimizer steps done, skipped ones included: the schedule's position
  int64_t rng_step = 0;  // micro-batches done
};

// How busy the device is, as measured now.
struct DeviceLoad {
  double utilization = 0;         // 0 to 1
  int64_t memory_used_bytes = 0;  // by everything this process has allocated on it
  // What it does not say is absent.
  std::optional<double> power_watts, temperature_celsius, sm_clock_mhz;
  std::optional<double> energy_joules;  // used so far
};

// A call of the program, such as a kernel, and when it ran.
struct CallSpan {
  std::string name;             // "kernel gelu"
  int layer = -1;               // -1: of none
  std::string origin;           // "model.hidden_act, gpt2.yaml:31"
  int queue = 0;                // calls on different queues may overlap
  double began = 0, ended = 0;  // as monotonic_seconds()
};

// What a program that generates with a cache holds of it: so many sequences, each of up to context_length
// tokens. One prefill() reads so many prompts of so many tokens. Keys and values of all sequences lie in one
// pool of `pages`, or, where there are none, each sequence has room for its whole context.
struct CacheShape {
  int64_t sequences = 0;  // 0: the program has no cache
  int64_t prompts = 0, prompt_tokens = 0;
  int64_t top = 0;              // logits that decode_top() finds; 0: the program has no such function
  int64_t steps_in_flight = 1;  // of begin_decode_top(), that may be unfinished
  int64_t pages = 0, page_tokens = 0;
  int64_t pages_of_sequence = 0;  // that context_length tokens take
};

// What one embed() of a program with an encoder reads: so many rows of so many tokens.
struct TextShape {
  int64_t rows = 0, tokens = 0;  // E, L; 0: there is no encoder
};

// What the compiler knows of a program.
struct ProgramFacts {
  bool generates = false;      // next_logits(); language models
  int64_t context_length = 0;  // tokens
  CacheShape cache = {};  // of keys and values; next_logits() takes CacheShape::prompt_tokens tokens then
  TextShape texts = {};   // that embed() takes
  // Optimizer steps that may be begun before the oldest one's result must have been read, >= 1. Batches of
  // so many steps lie in the program's own memory.
  int64_t steps_in_flight = 1;
  // Whether ranks exchange numbers within evaluate(), next_logits() and the like, so that all of them call
  // each together.
  bool computes_together = false;
  // Whether ranks share optimizer state, and perhaps parameters: NamedTensor::shared.
  bool shares_state = false;
  int64_t arena_bytes = 0;     // all tensor memory, but for what a GPU has in the host's
  double flop_per_target = 0;  // model flop a trained token, for mfu; 0 = unknown
};

// What checkpoints hold of a program.
struct ProgramTensors {
  // In model.safetensors, of adapters in adapter_model.safetensors.
  std::vector<NamedTensor> parameters = {};
  // Of a program that trains adapters, the model's own parameters, which stay as TrainOptions::weights or the
  // seed have them.
  std::vector<NamedTensor> base = {};
  // The encoder's, under their names in its own files. They are uploaded once the program is started.
  std::vector<NamedTensor> encoder = {};
  // In optimizer.safetensors: moments, and scalars such as the loss scale.
  std::vector<NamedTensor> optimizer_state = {};
};

// The beginning of a sequence: 1 to CacheShape::prompt_tokens tokens.
struct Prompt {
  int64_t sequence = 0;  // of the cache; -1: nothing is kept
  std::span<const int32_t> tokens;
};

// Logits of several tokens, a row each, valid until the program computes others.
struct LogitRows {
  const float* first = nullptr;
  int64_t stride = 0, vocab = 0;
  std::span<const float> row(int64_t i) const { return {first + i * stride, static_cast<size_t>(vocab)}; }
};

// What decode_top() looks for: among ids below `vocabulary`; its sums are of probabilities at this
// temperature, which is not 0. `uniforms`: of each sequence the number in [0, 1) that draws
// TopLogits::drawn, or a negative one, by which it is the likeliest; may be empty, for none.
struct TopRequest {
  double temperature = 1;
  int64_t vocabulary = 0;
  std::vector<double> uniforms = {};
};

// Of a batch's targets, [B*T]: -log of their probabilities; 0 where one is ignored.
struct TargetLosses {
  std::vector<float> own;
  std::vector<float> base;  // by the model without its adapter; empty where the program has no such function
};

// Of P sets of N replies.
struct ReplyDistances {
  std::vector<float> mean;     // [P]: cosine distance of two replies of a set
  std::vector<float> of_each;  // [P*N]: of a reply to the others of its set
};

class StepProgram {
 public:
  virtual ~StepProgram() = default;  // steps may be unfinished

  virtual ProgramFacts facts() const = 0;
  virtual ProgramTensors tensors() = 0;

  // Fills parameters with their starting values (a function of the seed) and everything else with its start.
  void initialize() { start({}); }
  // initialize(), but that no values need be drawn for the tensors of `given`, which are going to be
  // uploaded.
  virtual void start(const std::vector<NamedTensor>& given) = 0;

  // Enqueues forward and backward of one micro-batch. `inv_count`: 1 / targets of all micro-batches of this
  // optimizer step. The batch is copied before it returns.
  virtual void micro_step(const Batch& batch, float inv_count) = 0;
  // Enqueues clipping, learning rate and optimizer. After it the next step begins.
  virtual void update() = 0;
  // Waits for the oldest step that update() ended and nobody has finished, and returns its result; each once.
  // RunError when the device failed: which kernel or tensor, as far as it is known. The program is of no
  // further use then.
  virtual StepResult finish_step() = 0;

  // Once the result of the step finished last, or of the batch evaluated last, is NaN or infinite: where that
  // began, such as the kernel and the tensor; "" where the program cannot tell. Steps may be unfinished. The
  // program is of no further use then.
  virtual std::string explain_divergence() { return ""; }

  // From now on each call is timed, or no longer. Results are the same; steps take longer, for each is waited
  // for. InputError where the program does not know its calls. Called between steps: none begun, none
  // unfinished.
  virtual void time_calls(bool timed) = 0;
  // Those of the steps since the last call of this, in the order in which they began.
  virtual std::vector<CallSpan> take_timed_calls() = 0;

  // What follows is called between steps: none begun, none unfinished.

  // Sum of the losses of the batch's targets, without dropout.
  virtual double evaluate(const Batch& batch) = 0;
  // Of the batch evaluated last, the targets whose class has the largest logit; absent where the model
  // predicts no class.
  virtual std::optional<int64_t> evaluated_hits() { return std::nullopt; }

  // Language models: logits [vocab] of the token after prompt[position]. `prompt` has at most
  // ProgramFacts::context_length tokens.
  virtual std::span<const float> next_logits(std::span<const int32_t> prompt, int64_t position) = 0;

  // Programs with a cache of keys and values. Computes prompts, at most CacheShape::prompts, whole and keeps
  // their keys and values. A row each: the logits behind its last token.
  virtual LogitRows prefill(std::span<const Prompt>) { throw std::logic_error("the program has no cache"); }
  // The next token of every sequence of the cache, at its position, which counts from 0 and is where its keys
  // and values are kept. Those of the positions before were kept by earlier calls. A row each: the logits
  // behind it. A sequence that is not generated may be given any token at position 0.
  virtual LogitRows decode(std::span<const int32_t> /*tokens*/, std::span<const int32_t> /*positions*/) {
    throw std::logic_error("the program has no cache");
  }
  // Of a cache in pages, from the next prefill() or decode step on: which page has tokens i *
  // CacheShape::page_tokens and on of sequence s, [sequences, pages_of_sequence]; negative where the sequence
  // has none, and what would be kept there is dropped. No two sequences have the same page. Before the first
  // call of it no sequence has any. A sequence without pages is given a token at position 0.
  virtual void set_page_table(std::span<const int32_t> /*pages*/) {
    throw std::logic_error("the program's cache has no pages");
  }

  // decode(), which leaves the rows in the program's memory and gives the largest logits of each, valid until
  // the program gives others; in two halves, so that a step can begin before the one before is read. Without
  // tokens it goes on with TopLogits::drawn of the step begun last, whose request differs in its uniforms at
  // most. Steps finish in their order, and all of them before anything else of the program is called.
  using Tokens = std::optional<std::span<const int32_t>>;
  virtual void begin_decode_top(const Tokens&, std::span<const int32_t> /*positions*/, const TopRequest&) {
    throw std::logic_error("the program finds no largest logits");
  }
  virtual std::vector<TopLogits> finish_decode_top() {
    throw std::logic_error("the program finds no largest logits");
  }
  std::vector<TopLogits> decode_top(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                    const TopRequest& request) {
    begin_decode_top(tokens, positions, request);
    return finish_decode_top();
  }
  // The whole row of a sequence, as the last decode() or decode_top() left it.
  virtual std::span<const float> decoded_logits(int64_t /*sequence*/) {
    throw std::logic_error("the program has no cache");
  }

  // Programs with an objective (docs/objectives.md). These are called before the first micro-batch of a step.
  // The losses of a batch of replies, without dropout. Hidden states are added up by Batch::segments, which
  // count replies through their sets, until clear_replies().
  virtual TargetLosses score(const Batch&) { throw std::logic_error("the program has no objective"); }
  virtual void clear_replies() { throw std::logic_error("the program has no objective"); }
  // Programs with an encoder of sentences, which embeds replies instead of the model; score() embeds nothing
  // then. The hidden states of texts, given by Batch's tokens, documents, positions and segments, [E,L] each,
  // are added up by segments until clear_replies().
  virtual void embed(const Batch&) { throw std::logic_error("the program has no encoder"); }
  // Of the replies that were scored, or embedded, so far.
  virtual ReplyDistances reply_distances() { throw std::logic_error("the program has no objective"); }
  // Micro-batches of replies are a step's first ones, between these two. Their loss counts nothing in
  // StepResult::loss; their gradients do. All ranks call both.
  virtual void begin_replies() { throw std::logic_error("the program has no objective"); }
  virtual void end_replies() { throw std::logic_error("the program has no objective"); }

  // Every rank of a program that shares state calls it at the same place; others need not. On rank 0 it calls
  // `work`, in which those tensors can be downloaded; elsewhere that is an InputError.
  virtual void with_whole_state(const std::function<void()>& work) { work(); }
  // Copies a whole tensor of these to or from memory of the host: tensor.bytes() bytes as they lie in the
  // program's memory. One at a time, so that a checkpoint needs no second copy of the model.
  virtual void download(const NamedTensor& tensor, std::span<std::byte> to) = 0;
  virtual void upload(const NamedTensor& tensor, std::span<const std::byte> from) = 0;
  // upload() of a tensor that is kept as codes (NamedTensor::nf4), from floating-point numbers of any type.
  virtual void quantize(const NamedTensor&, SafetensorsDtype, std::span<const std::byte> /*from*/) {
    throw std::logic_error("the program keeps nothing as codes");
  }
  virtual Counters counters() = 0;
  virtual void set_counters(const Counters& counters) = 0;
  // Of programs whose learning rate a range test finds (TrainOptions::range_test); std::logic_error
  // elsewhere. The rate is part of the optimizer's state. With `scheduled` each step has what the schedule
  // makes of it.
  virtual void set_learning_rate(const DecimalRate&, bool /*scheduled*/) {
    throw std::logic_error("the program's learning rate is its spec's");
  }
  virtual DecimalRate learning_rate() { throw std::logic_error("the program's learning rate is its spec's"); }

  // "4 kernels from the cache in 0.1 s, matmuls by oneDNN, 2 threads": how it runs, for a run's first line.
  virtual std::string description() const = 0;
  // What was measured or found on this machine and decides how results are rounded; checkpoints record it.
  virtual RecordedChoices choices() const { return {}; }
  // Absent where nobody measures it. May be called at any time.
  virtual std::optional<DeviceLoad> device_load() { return std::nullopt; }
};

}  // namespace hydrac::runtime
