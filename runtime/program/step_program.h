// The interface of a compiled program to the training loop, on any target, compiled just now or ahead of
// time.
//
// Training is asynchronous: micro_step() and update() enqueue work on the device, finish_step() waits for the
// oldest step's result. A program on the cpu works synchronously and keeps one result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/recorded_choices.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/batch.h"
#include "runtime/log/metric.h"
#include "runtime/program/ports.h"
#include "runtime/sample/sample.h"

namespace hydrac::runtime {

struct StepResult {
  float loss = 0;       // of the whole optimizer step, per target
  float grad_norm = 0;  // before clipping; of the unscaled gradients
  float learning_rate = 0;
  // The gradients held infinities or NaN because fp16 overflowed. Parameters and optimizer state are as they
  // were before the step; loss and gradient norm may not be finite.
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

// Addresses of the three parts of a matrix stored as 4-bit codes (runtime/program/nf4.h).
struct Nf4Place {
  uint64_t codes = 0, block_codes = 0, groups = 0;
  int64_t elements = 0;
};

// Bytes of a tensor that ranks share, from `first` on. They begin `before` bytes into the stretch of all
// ranks together. Rank r has the r-th `own` bytes of that stretch at `address`; the last ranks' may end in
// padding.
struct SharedBytes {
  int64_t first = 0, bytes = 0;
  uint64_t address = 0;
  int64_t own = 0, before = 0;
};

// Lines of a tensor that are sharded over ranks which share layers (parallel.tensor): `lines` lines of
// `bytes` each, the first at byte `first` of the whole tensor, `stride` apart. Rank r of `parts` has the r-th
// `own` bytes of every line, the last ones fewer; in its memory they are `own` apart from `address` on. parts
// 1: every rank has all of it.
struct TensorPiece {
  int64_t first = 0;
  int64_t lines = 1, stride = 0;
  int64_t bytes = 0, own = 0;
  int64_t parts = 1;
  uint64_t address = 0;
  // The sharded tensor that the placeholder `address` stands for, if ranks at the same place of their tensor
  // groups have parts of it (parallel.zero).
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
  // Not empty: no rank has all of it; these consecutive stretches are its bytes. Downloaded only within
  // StepProgram::with_whole_state().
  std::vector<SharedBytes> shared = {};
  // Not empty: ranks that share layers have parts of it, and bytes between these are 0. Downloaded like
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
  // Absent: it does not say.
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

// The KV cache of a program that generates with one: so many sequences, each of up to context_length tokens.
// One prefill() reads so many prompts of so many tokens. All sequences share a pool of `pages`; without pages
// each has room for its whole context.
struct CacheShape {
  int64_t sequences = 0;  // 0: the program has no cache
  int64_t prompts = 0, prompt_tokens = 0;
  int64_t top = 0;  // logits that NextLogits::decode_top() finds; 0: the program has no such function
  int64_t steps_in_flight = 1;  // of begin_decode(), that may be unfinished
  int64_t pages = 0, page_tokens = 0;
  int64_t pages_of_sequence = 0;  // that context_length tokens take
};

// The rows and tokens that Function::embed of a program with an encoder reads.
struct TextShape {
  int64_t rows = 0, tokens = 0;  // E, L; 0: there is no encoder
};

// Facts of a program that the compiler knows.
struct ProgramFacts {
  bool generates = false;      // NextLogits; language models
  int64_t context_length = 0;  // tokens
  CacheShape cache = {};       // of keys and values
  TextShape texts = {};        // that Function::embed takes
  // Optimizer steps that may begin before the oldest one's result must be read, >= 1. The program's own
  // memory holds the batches of so many steps.
  int64_t steps_in_flight = 1;
  // True if ranks exchange numbers within compute(), so that all of them call it together.
  bool computes_together = false;
  // True if ranks share optimizer state, and perhaps parameters: NamedTensor::shared.
  bool shares_state = false;
  int64_t arena_bytes = 0;     // all tensor memory, but for what a GPU has in the host's
  double flop_per_target = 0;  // model flop a trained token, for mfu; 0 = unknown
};

// The tensors of a program that checkpoints hold.
struct ProgramTensors {
  // In model.safetensors, of adapters in adapter_model.safetensors.
  std::vector<NamedTensor> parameters = {};
  // For a program that trains adapters, the base model's parameters, which keep their values from
  // TrainOptions::weights or the seed.
  std::vector<NamedTensor> base = {};
  // The encoder's, under their names in its own files. They are uploaded once the program is started.
  std::vector<NamedTensor> encoder = {};
  // In optimizer.safetensors: moments, and scalars such as the loss scale.
  std::vector<NamedTensor> optimizer_state = {};
};

class StepProgram {
 public:
  virtual ~StepProgram() = default;  // steps may be unfinished

  virtual ProgramFacts facts() const = 0;
  virtual ProgramTensors tensors() = 0;

  // Fills parameters with their starting values (a function of the seed) and everything else with its start.
  void initialize() { start({}); }
  // Like initialize(), but draws no values for the tensors of `given`, which will be uploaded.
  virtual void start(const std::vector<NamedTensor>& given) = 0;

  // Enqueues forward and backward of one micro-batch. `inv_count`: 1 / targets of all micro-batches of this
  // optimizer step. The batch is copied before it returns.
  virtual void micro_step(const Batch& batch, float inv_count) = 0;
  // Enqueues clipping, learning rate and optimizer. After it the next step begins.
  virtual void update() = 0;
  // Waits for the oldest step that update() ended and that is not finished yet, and returns its result; each
  // once. RunError if the device failed, with the kernel or tensor if known; the program is then unusable.
  virtual StepResult finish_step() = 0;

  // After a result (of the last finished step or evaluated batch) that is NaN or infinite: where that began,
  // such as the kernel and the tensor; "" if the program cannot tell. Steps may be unfinished. The program is
  // unusable afterwards.
  virtual std::string explain_divergence() { return ""; }

  // Turns the timing of each call on or off. Results are the same; steps take longer, because each is waited
  // for. InputError if the program does not know its calls. Called between steps: none begun, none
  // unfinished.
  virtual void time_calls(bool timed) = 0;
  // The timed calls of the steps since the last call of this function, in the order in which they began.
  virtual std::vector<CallSpan> take_timed_calls() = 0;

  // The following are called between steps: none begun, none unfinished.

  // Places of the program's ports; those that it does not have are absent.
  virtual const Ports& ports() const = 0;
  // Bytes of ports. Every prompt is given as a whole, also where ranks have parts of the vocabulary.
  virtual void write_ports(std::span<const PortBytes> ports) = 0;
  // Runs a function other than those of a step, some of which read a batch, and may return before it ends.
  virtual void compute(Function function, const Batch* batch = nullptr) = 0;
  // Bytes of a port or a part of one, once they are there; valid until the next call of the program.
  virtual std::span<const std::byte> read_port(Place port) = 0;
  template <class T>
  std::span<const T> read_as(Place port) {
    const std::span<const std::byte> bytes = read_port(port);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // Sum of the losses of the batch's targets, without dropout.
  double evaluate(const Batch& batch) {
    compute(Function::evaluate, &batch);
    return read_as<float>(ports().results.eval_loss)[0];
  }

  // compute(Function::decode) after these inputs; with `goes_on` the next tokens are ResultPlaces::drawn. It
  // has two halves, so that a step can begin before the previous one is read. Steps finish in order, and all
  // of them before anything else of the program is called.
  virtual void begin_decode(std::span<const PortBytes> inputs, bool goes_on) = 0;
  virtual std::vector<TopLogits> finish_decode() = 0;

  // With an objective, a step's micro-batches of replies come first, between these two calls. Their loss does
  // not count in StepResult::loss; their gradients do. All ranks call both.
  virtual void begin_replies() = 0;
  virtual void end_replies() = 0;

  // Runs `work` on rank 0. Tensors that ranks share can be downloaded only inside `work`; elsewhere that is
  // an InputError. Every rank of a program with shared state calls this at the same point; other programs
  // need not.
  virtual void with_whole_state(const std::function<void()>& work) { work(); }
  // Copies a whole one of these tensors to or from host memory: tensor.bytes() bytes as they lie in the
  // program's memory. One at a time, so that a checkpoint needs no second copy of the model.
  virtual void download(const NamedTensor& tensor, std::span<std::byte> to) = 0;
  // A tensor that is kept as codes (NamedTensor::nf4) takes floating-point numbers of any type.
  virtual void upload(const NamedTensor& tensor, SafetensorsDtype dtype, std::span<const std::byte> from) = 0;
  void upload(const NamedTensor& tensor, std::span<const std::byte> from) {
    upload(tensor, tensor.dtype, from);
  }
  Counters counters() {
    const StatePlaces& state = ports().state;
    return {read_as<int32_t>(state.step)[0], read_as<uint32_t>(state.rng_step)[0]};
  }
  void set_counters(const Counters& counters) {
    const auto step = static_cast<int32_t>(counters.step);
    const auto rng_step = static_cast<uint32_t>(counters.rng_step);
    const PortBytes both[] = {port_bytes(ports().state.step, std::span(&step, 1)),
                              port_bytes(ports().state.rng_step, std::span(&rng_step, 1))};
    write_ports(both);
  }

  // "4 kernels from the cache in 0.1 s, matmuls by oneDNN, 2 threads": how it runs, for a run's first line.
  virtual std::string description() const = 0;
  // Choices measured or found on this machine that decide how results are rounded; checkpoints record them.
  virtual RecordedChoices choices() const { return {}; }
  // Absent where nobody measures it. May be called at any time.
  virtual std::optional<DeviceLoad> device_load() { return std::nullopt; }
};

}  // namespace hydrac::runtime
