// A StepProgram on a GPU: the arena, streams, batches in through pinned memory, the functions as CUDA graphs,
// results read a step late. Derived classes add the calls of each function.
#pragma once
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/arena.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/exchange/communicator.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/monitor.h"
#include "runtime/cuda/staging.h"
#include "runtime/cuda/stopwatch.h"
#include "runtime/cuda/stream.h"
#include "runtime/cuda/timed_graph.h"
#include "runtime/program/hooks.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime::cuda {

class CudaStepProgram : public LaidOutProgram {
 public:
  // Takes the arena from the GPU of `context`, which must be current on this thread and outlive the program.
  // RunError when its memory does not hold the arena.
  CudaStepProgram(ProgramLayout layout, const Context& context);

  void copy_out(int64_t offset, std::span<std::byte> to) override;
  void copy_in(int64_t offset, std::span<const std::byte> from) override;

  void start(const std::vector<NamedTensor>& given) override;
  void micro_step(const Batch& batch, float inv_count) override;
  void update() override;
  StepResult finish_step() override;
  void compute(Function function, const Batch* batch) override;
  std::span<const std::byte> read_port(Place port) override;
  std::optional<DeviceLoad> device_load() override;
  void check_kernels() override;
  void leave_graphs() override;
  void profile_steps(int64_t first, int64_t count) override;
  void time_calls(bool timed) override;
  void join(Ranks& ranks) override;
  std::string device() const override { return context_.device().name; }

  // Communicator::run() over the ranks that this program joined, and the copies of own_part. Exchanges
  // nothing while this rank repeats a step alone; RunError if it has no ranks.
  void run(const Collective& collective, std::span<const Elements> tensors, const Stream& stream) const;
  // The form that emitted programs call.
  void run(const Collective& collective, std::initializer_list<Elements> tensors,
           const Stream& stream) const {
    run(collective, std::span(tensors.begin(), tensors.size()), stream);
  }

  // Milliseconds that each optimizer step took since the last call, by the GPU's clock.
  std::vector<double> take_step_times() { return staging_.take_step_times(); }
  // The library that sums over ranks, "NCCL 2.28.9"; "" before ranks have joined and found it.
  std::string sums_by() const override;
  // GPU memory that the arena really took.
  int64_t measured_bytes() const { return measured_bytes_; }

 protected:
  // Enqueues a function's calls on stream(). Calls that may overlap go to side_stream(), communication() and
  // host_copies(), which fork from stream() and join it again by events. Called during graph capture, when it
  // must not wait for the GPU or allocate its memory, and outside of one.
  virtual void enqueue(Function function) = 0;

  // Captures every graph now, so that all GPU memory for graphs is allocated. Otherwise each is captured at
  // its first run. With several ranks graphs can be captured only from join() on, which does it then.
  void capture_graphs();
  // stream() goes on after all that communication() was given. How long it waits is measured.
  void await_sums();
  // enqueue() puts other calls on the streams from now on: each graph is captured anew when it next runs.
  void forget_graphs();
  // Derived classes call this first in their destructor: it waits for the GPU and destroys the graphs, which
  // may use the derived class's resources.
  void shut_down() noexcept;
  // From now on functions run as graphs, or their calls are enqueued on stream() each time.
  void use_graphs(bool use) { graphs_in_use_ = use; }

  // Gives an emitted program's hooks their memory, and each step's result their metrics. Once, before
  // capture_graphs().
  HookMemory add_hooks(std::vector<MetricText> metrics, size_t scratch_bytes);

  const Stream& stream() const { return stream_; }
  const Stream& side_stream() const { return side_stream_; }
  const Stream& communication() const { return communication_; }
  const Stream& host_copies() const { return host_copies_; }
  std::byte* arena() const { return arena_.data(); }  // 256-byte aligned; where it lies never changes
  const GpuMonitor& monitor() const { return monitor_; }

 private:
  static constexpr int kInFlight = 2;
  // Functions that run one after another as one graph.
  using Sequence = std::vector<Function>;

  // Pinned memory on its way to the arena.
  struct Piece {
    PinnedBuffer memory;
    Event copied{Event::Use::order};
  };

  // A step that queue_decode() began: pinned memory of what it reads and gives.
  struct DecodeStep {
    PinnedBuffer inputs, results;
    Event done{Event::Use::order};
  };

  void copy_in_pieces(int64_t offset, int64_t bytes, const MakePiece& make) override;
  void clear_persistent() override;
  void run(Function function) override;
  void copy_inputs(std::span<const PortBytes> inputs) override;
  void queue_decode(std::span<const PortBytes> inputs, bool goes_on, const Stretch& results) override;
  void take_decoded(const Stretch& results, std::span<std::byte> to) override;
  // Queues copies of the inputs, by way of `memory`, which no copy may still read.
  void queue_inputs(std::span<const PortBytes> inputs, PinnedBuffer& memory);
  void wait() const override;
  LastRun last_run() const override;
  // Runs a micro-batch that waits for update() to be one graph with it.
  void flush();
  void capture(const Sequence& functions);
  // The functions' calls, and before and behind them the batch and the results.
  void enqueue_all(const Sequence& functions);
  void launch(const Sequence& functions);
  void launch_timed(const Sequence& functions);
  void copy_own_parts(RankGroup group, std::span<const Elements> tensors, const Stream& stream) const;
  // A step of one micro-batch is one graph.
  bool step_is_one_graph() const { return layout().gradient_accumulation_steps == 1; }

  const Context& context_;
  Stream stream_, side_stream_, communication_, host_copies_;
  Staging staging_;
  GpuMonitor monitor_;
  int64_t free_before_ = 0, measured_bytes_ = 0;
  Arena arena_;
  DeviceBuffer hook_memory_;
  std::unique_ptr<Communicator> communicator_;  // of several ranks
  std::optional<Stopwatch> waiting_;            // around a step's wait for sums over ranks
  bool graphs_in_use_ = true;
  bool evaluated_ = false;  // since the last micro_step()
  int64_t steps_begun_ = 0;
  bool between_steps_ = true;
  int64_t profile_first_ = -1, profile_end_ = -1;  // of the steps that a profiler records
  std::map<Sequence, Graph> graphs_;
  std::map<Sequence, TimedGraph> timed_graphs_;  // while calls are timed
  // A batch was passed to micro_step() and waits for update(), to be one graph with it. Reading memory before
  // that makes it run.
  bool pending_ = false;
  PinnedBuffer results_;  // of read_port(), as large as the largest so far
  PinnedBuffer inputs_;   // of write_ports()
  DecodeStep decode_steps_[kInFlight];
  int64_t decodes_begun_ = 0, decodes_finished_ = 0;
  std::vector<Piece> pieces_;  // a ring, while parameters are initialized
  size_t next_piece_ = 0;
};

}  // namespace hydrac::runtime::cuda
