// A StepProgram over one arena that a ProgramLayout describes: everything that does not depend on where the
// arena is and how its functions run. CpuStepProgram and CudaStepProgram add that; their derived classes add
// the calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/parallel/collective.h"
#include "runtime/program/after_call.h"
#include "runtime/program/layout.h"
#include "runtime/program/nf4.h"
#include "runtime/program/step_program.h"
#include "runtime/program/transfer.h"

namespace hydrac::runtime {

class Ranks;

class LaidOutProgram : public StepProgram {
 public:
  // `in_flight`: optimizer steps, and decode steps, that may be unfinished.
  LaidOutProgram(ProgramLayout layout, int64_t in_flight);

  const ProgramLayout& layout() const { return layout_; }

  // Bytes of the arena, addressed from its start. They wait for running work. After a copy over parameters,
  // call parameters_changed().
  virtual void copy_out(int64_t offset, std::span<std::byte> to) = 0;
  virtual void copy_in(int64_t offset, std::span<const std::byte> from) = 0;
  // Working copies are made anew before the next function that reads them.
  void parameters_changed() { stale_ = layout_.working_copies; }

  ProgramFacts facts() const override;
  ProgramTensors tensors() override;
  void start(const std::vector<NamedTensor>& given) override;
  const Ports& ports() const override { return layout_; }
  void write_ports(std::span<const PortBytes> ports) override;
  std::span<const std::byte> read_port(Place port) override;
  void begin_decode(std::span<const PortBytes> inputs, bool goes_on) override;
  std::vector<TopLogits> finish_decode() override;
  void begin_replies() override { number_replies(); }
  void end_replies() override;
  void with_whole_state(const std::function<void()>& work) override;
  void download(const NamedTensor& tensor, std::span<std::byte> to) override;
  using StepProgram::upload;
  void upload(const NamedTensor& tensor, SafetensorsDtype dtype, std::span<const std::byte> from) override;
  void time_calls(bool timed) override;
  std::vector<CallSpan> take_timed_calls() override;
  std::string explain_divergence() override;

  // Sums over ranks use these from now on; they must outlive the program. Every rank calls it at the same
  // point.
  virtual void join(Ranks& ranks);
  // This rank's device, for people: "16 cores", or its GPU's name.
  virtual std::string device() const;
  // The library that sums over ranks on GPUs, "NCCL 2.28.9"; "" if none does, or before the ranks have
  // joined.
  virtual std::string sums_by() const { return ""; }
  // Carries out a collective on tensors in this process's memory. RunError where this program runs alone.
  void run(const Collective& collective, std::span<const SharedFloats> tensors) const;

  // From now on the program waits for every call and checks its outputs before the next one. A call that
  // fails, or the first that writes NaN or infinity, is a RunError that names it. With loss scaling, where
  // overflow is normal, only failing calls are reported. Slow.
  virtual void check_kernels() { checking_ = true; }

  // GPUs only, InputError elsewhere. From now on calls are enqueued one by one, for a debugger or a profiler,
  // instead of as graphs; results are the same.
  virtual void leave_graphs();
  // For a profiler that waits for cuProfilerStart: records `count` steps after the first `first` ones of this
  // process.
  virtual void profile_steps(int64_t first, int64_t count);

 protected:
  // The arena's size without the part that a GPU program keeps in the host's memory.
  int64_t arena_bytes() const { return layout_.arena_bytes - layout_.host_bytes; }
  bool computes_together() const { return layout_.tensor_ranks > 1 || layout_.gathers_weights; }
  bool shares_state() const;
  // True if collectives are left out: this rank repeats its own part of a step, and the others may not.
  bool is_alone() const { return alone_; }
  // The ranks that this program joined. RunError if it runs alone.
  Ranks& ranks() const;
  bool has_ranks() const { return ranks_ != nullptr; }

  // Bytes of the arena in pieces of kPiece, the last one smaller: make(first, piece) writes those from byte
  // `first` on. A derived class may copy one in while the next is made; a later copy waits for that.
  using MakePiece = std::function<void(int64_t first, std::span<std::byte> piece)>;
  static constexpr int64_t kPiece = 4 << 20;  // stays in the processor's caches until it is copied
  virtual void copy_in_pieces(int64_t offset, int64_t bytes, const MakePiece& make);

  // The arena's persistent_bytes become 0.
  virtual void clear_persistent() = 0;
  // Runs a function once and waits for it, call by call where somebody listens to after_call().
  virtual void run(Function function) = 0;
  // Copies bytes of ports, which the next compute() reads.
  virtual void copy_inputs(std::span<const PortBytes> inputs) {
    for (const auto& [port, bytes] : inputs) copy_in(port.offset, bytes);
  }
  // Bytes of the arena.
  struct Stretch {
    int64_t first = 0, bytes = 0;
  };
  // begin_decode() and finish_decode() with ports as this rank has them; `results` are those of a step.
  virtual void queue_decode(std::span<const PortBytes> inputs, bool goes_on, const Stretch& results);
  virtual void take_decoded(const Stretch& results, std::span<std::byte> to) { copy_out(results.first, to); }
  // Waits for the calls made so far. RunError when one failed.
  virtual void wait() const = 0;

  // The functions that ran last.
  struct LastRun {
    // The input_bytes of each micro-batch of the step that finished last. Empty: a batch was evaluated, and
    // the arena still holds it.
    std::vector<std::span<const std::byte>> inputs;
    int64_t later_micro_batches = 0;  // of steps begun after that one
  };
  virtual LastRun last_run() const = 0;

  bool checking() const { return checking_; }
  // run(), as check_kernels() says.
  void run_checked(Function function);

  bool timing() const { return timing_; }
  // All calls of functions that ran one after another.
  void add_timed(const std::vector<Function>& functions, const std::vector<CallTimes>& times);

  // To be called before a function that reads working copies of parameters.
  void refresh_working_copies();

  template <typename T>
  T read_scalar(Place place) {
    T result;
    copy_out(place.offset, std::as_writable_bytes(std::span(&result, 1)));
    return result;
  }
  template <typename T>
  void write_scalar(Place place, T number) {
    copy_in(place.offset, std::as_bytes(std::span(&number, 1)));
  }

 private:
  void write_start(const ParameterStart& start, uint32_t stream);
  void write_start_of_rank(const ParameterStart& start, uint32_t stream);
  // make(first, numbers) writes those from element `first` of the matrix on.
  using MakeNumbers = std::function<void(int64_t first, std::span<float> numbers)>;
  void write_nf4(const Nf4Place& place, const MakeNumbers& make);
  std::vector<float> read_nf4(const Nf4Place& place);
  void write_floats(Place place, std::span<const float> data) { copy_in(place.offset, std::as_bytes(data)); }
  // Results of finish_decode() for all sequences, in one piece instead of one each.
  Stretch top_stretch() const;
  // Results of one sequence, in top_, which begins with the arena's byte `first`.
  TopLogits top_of(int64_t sequence, int64_t first) const;
  // Ports as this rank has them; valid until the next call of this.
  std::vector<PortBytes> own_ports(std::span<const PortBytes> ports);

  // Runs a function call by call and waits for each. RunError with the call's name if one fails. `look`:
  // stops at the first call that writes NaN or infinity, and returns its description.
  std::optional<std::string> step_through(Function function, bool look);
  std::optional<std::string> repeat(const LastRun& run);
  // Random numbers depend on the index of a micro-batch. Within a step all ranks' micro-batches of replies
  // come first, rank 0's before rank 1's, then those of data. Between steps a rank stores the index of its
  // first one of data, counted as if there were no replies (Trainer).
  void number_replies();
  void number_data();
  void add_to_micro_batch_number(int64_t count);
  void collect(const NamedTensor& tensor, std::span<std::byte> to);
  void collect_piece(const TensorPiece& piece, std::span<std::byte> to);
  void upload_piece(const TensorPiece& piece, std::span<const std::byte> from);
  int tensor_rank() const;
  int data_rank() const;
  void write_state_of_part();
  std::vector<NamedTensor> own_tensors(const std::vector<NamedTensor>& tensors) const;

  ProgramLayout layout_;
  const int64_t in_flight_;
  Nf4Encoder nf4_encoder_;
  std::vector<float> nf4_piece_;
  Ranks* ranks_ = nullptr;
  bool state_is_whole_ = false;  // within with_whole_state()
  bool checking_ = false, timing_ = false, alone_ = false;
  std::vector<CallSpan> timed_calls_;
  std::vector<std::byte> result_;  // of read_port()
  OwnIds own_prompt_;              // of own_ports()
  std::vector<std::byte> top_;     // results of a decode step, as they lie in the arena
  bool stale_ = false;             // parameters changed, and their working copies were not made anew
};

}  // namespace hydrac::runtime
