#include "runtime/cuda/cuda_step_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/cuda/library.h"
#include "runtime/cuda/nccl_communicator.h"
#include "runtime/cuda/nvtx.h"
#include "runtime/error.h"
#include "runtime/log/units.h"

namespace hydrac::runtime::cuda {

namespace {

// Returns what is free.
int64_t require_free(int64_t wanted, const Context& context) {
  const int64_t free = context.free_bytes();
  if (wanted <= free) return free;
  throw RunError(
      fmt::format("the plan needs {} of GPU memory, and {} of {} are free on {}: lower "
                  "train.micro_batch_size (and raise "
                  "gradient_accumulation_steps), or set optimizations.recompute: block",
                  human_bytes(static_cast<uint64_t>(wanted)), human_bytes(static_cast<uint64_t>(free)),
                  human_bytes(static_cast<uint64_t>(context.total_bytes())), context.device().name));
}

bool reads_batch(Function function) {
  return function == Function::micro_step || function == Function::evaluate || function == Function::score ||
         function == Function::score_base;
}

}  // namespace

CudaStepProgram::CudaStepProgram(ProgramLayout given, const Context& context)
    : LaidOutProgram(std::move(given)),
      context_(context),
      staging_(layout(), kInFlight * layout().gradient_accumulation_steps + 1, kInFlight),
      monitor_(context.device().pci_bus_id),
      free_before_(require_free(arena_bytes(), context)),
      arena_(arena_bytes(), layout().host_bytes) {
  measured_bytes_ = free_before_ - context.free_bytes();
}

void CudaStepProgram::shut_down() noexcept {
  try {
    stream_.synchronize();
  } catch (const RunError&) {  // whoever wanted results was told; there is nothing left to wait for
  }
  graphs_.clear();
  timed_graphs_.clear();
}

void CudaStepProgram::join(Ranks& ranks) {
  LaidOutProgram::join(ranks);
  communicator_ =
      connect_gpus(ranks, context_.device().pci_bus_id, {arena(), arena_bytes()}, layout().exchange);
  waiting_.emplace();
  if (graphs_in_use_) capture_graphs();
}

std::string CudaStepProgram::sums_by() const {
  if (communicator_) return communicator_->name();
  return layout().exchange.by == ExchangePlace::By::nccl ? nccl_version() : "";
}

void CudaStepProgram::all_reduce(std::span<const Elements> tensors, Reduction reduction, const Stream& stream,
                                 RankGroup group) const {
  together(stream, reduction == Reduction::sum && group == RankGroup::data,
           [&](const Communicator& all) { all.all_reduce(tensors, reduction, stream, group); });
}

// What ranks that share layers do is not measured: a layer has many of them.
void CudaStepProgram::sum_over_ranks(const Elements& from, void* to, const Stream& stream) const {
  together(stream, false, [&](const Communicator& all) { all.sum(from, to, stream); });
}

void CudaStepProgram::reduce_scatter(SharedTensors tensors, const Stream& stream, RankGroup group) const {
  together(stream, group == RankGroup::data,
           [&](const Communicator& all) { all.reduce_scatter(tensors, stream, group); });
}

void CudaStepProgram::all_gather(SharedTensors tensors, const Stream& stream, RankGroup group) const {
  together(stream, group == RankGroup::data,
           [&](const Communicator& all) { all.all_gather(tensors, stream, group); });
}

void CudaStepProgram::own_part(SharedTensors tensors, const Stream& stream, RankGroup group) const {
  before_call(stream.handle());
  for (const SharedElements& tensor : tensors) {
    const std::int64_t bytes = tensor.count * element_bytes(tensor.type);
    copy_on_device(tensor.part, static_cast<const std::byte*>(tensor.whole) + ranks().rank(group) * bytes,
                   bytes, stream);
  }
  after_call(stream.handle());
}

void CudaStepProgram::to_owners(SharedTensors tensors, const Stream& stream) const {
  together(stream, true, [&](const Communicator& all) { all.to_owners(tensors, stream); });
}

void CudaStepProgram::from_owners(SharedTensors tensors, const Stream& stream) const {
  together(stream, true, [&](const Communicator& all) { all.from_owners(tensors, stream); });
}

void CudaStepProgram::together(const Stream& stream, bool is_measured,
                               const std::function<void(const Communicator&)>& work) const {
  if (is_alone()) {
    before_call(stream.handle());
    return after_call(stream.handle());
  }
  if (!communicator_) throw RunError("a program of several ranks (parallel.data) runs in one process");
  const bool is_waited_for = &stream == &stream_ && is_measured;
  if (is_waited_for) waiting_->begin(stream);
  work(*communicator_);
  if (is_waited_for) waiting_->end(stream);
}

void CudaStepProgram::await_sums() {
  if (waiting_) waiting_->begin(stream_);
  Event sums;
  sums.record(communication_);
  stream_.wait(sums);
  if (waiting_) waiting_->end(stream_);
}

void CudaStepProgram::capture(const Sequence& functions) {
  if (graphs_.contains(functions)) return;
  graphs_.emplace(functions, Graph::capture(stream_, [&] { enqueue_all(functions); }));
}

// Graphs take memory of the GPU, and so does a library's kernel when it is first met: now, or never.
void CudaStepProgram::capture_graphs() {
  if (step_is_one_graph()) {
    capture({Function::micro_step, Function::update});
  } else {
    capture({Function::micro_step});
    capture({Function::update});
  }
  capture({Function::evaluate});
  if (layout().cache.sequences > 0) {
    capture({Function::prefill});
    capture({Function::decode});
  } else if (can_generate()) {
    capture({Function::generate});
  }
  if (layout().results.target_losses) capture({Function::score});
  if (layout().results.base_target_losses) capture({Function::score_base});
  if (layout().texts.rows > 0) capture({Function::embed});
}

void CudaStepProgram::forget_graphs() {
  flush();
  wait();
  timed_graphs_.clear();
  graphs_.clear();
}

void CudaStepProgram::enqueue_all(const Sequence& functions) {
  for (const Function function : functions) {
    if (reads_batch(function)) staging_.receive(arena(), stream_);
    checking() ? run_checked(function) : enqueue(function);
    if (function == Function::update) staging_.send(arena(), stream_);
  }
}

void CudaStepProgram::time_calls(bool timed) {
  LaidOutProgram::time_calls(timed);
  stream_.synchronize();
  timed_graphs_.clear();
}

void CudaStepProgram::launch_timed(const Sequence& functions) {
  auto graph = timed_graphs_.find(functions);
  if (graph == timed_graphs_.end())
    graph = timed_graphs_.emplace(functions, TimedGraph(stream_, [&] { enqueue_all(functions); })).first;
  add_timed(functions, graph->second.run(stream_));
}

void CudaStepProgram::launch(const Sequence& functions) {
  const NvtxRange range(std::string(to_string(functions.front())));
  if (timing()) return launch_timed(functions);
  if (!graphs_in_use_) {
    enqueue_all(functions);
    return;
  }
  capture(functions);
  graphs_.at(functions).launch(stream_);
}

void CudaStepProgram::run(Function function) {
  enqueue(function);
  stream_.synchronize();
}

void CudaStepProgram::wait() const {
  stream_.synchronize();
  side_stream_.synchronize();
  communication_.synchronize();
  host_copies_.synchronize();
}

// A capture must not wait for calls.
void CudaStepProgram::check_kernels() {
  LaidOutProgram::check_kernels();
  use_graphs(false);
}

LaidOutProgram::LastRun CudaStepProgram::last_run() const {
  if (evaluated_) return {};
  return {staging_.finished_inputs(), staging_.later_steps() * layout().gradient_accumulation_steps};
}

void CudaStepProgram::leave_graphs() {
  shut_down();
  use_graphs(false);
}

void CudaStepProgram::profile_steps(int64_t first, int64_t count) {
  profile_first_ = steps_begun_ + first;
  profile_end_ = profile_first_ + count;
}

// A step of one micro-batch waits with its forward and backward pass for update().
void CudaStepProgram::micro_step(const Batch& batch, float inv_count) {
  const bool begins = std::exchange(between_steps_, false);
  if (begins && steps_begun_++ == profile_first_) {
    wait();
    check(driver().cuProfilerStart(), "cuProfilerStart");
  }
  evaluated_ = false;
  flush();
  refresh_working_copies();
  staging_.put(batch, inv_count, stream_);
  if (begins) staging_.begin_step(stream_);
  if (step_is_one_graph()) {
    pending_ = true;
  } else {
    launch({Function::micro_step});
  }
}

void CudaStepProgram::update() {
  if (std::exchange(pending_, false)) {
    launch({Function::micro_step, Function::update});
  } else {
    launch({Function::update});
  }
  staging_.end_step(stream_);
  between_steps_ = true;
  if (steps_begun_ == profile_end_) {
    wait();
    check(driver().cuProfilerStop(), "cuProfilerStop");
  }
}

void CudaStepProgram::flush() {
  if (std::exchange(pending_, false)) launch({Function::micro_step});
}

// What fails on the GPU shows where the host next waits for it; by then nobody knows which call it was.
StepResult CudaStepProgram::finish_step() {
  try {
    StepResult result = staging_.oldest_result();
    if (waiting_) result.communication_seconds = static_cast<float>(waiting_->seconds());
    return result;
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}\na run with --check-kernels names the kernel that fails", error.what()));
  }
}

double CudaStepProgram::evaluate(const Batch& batch) {
  evaluated_ = true;
  flush();
  refresh_working_copies();
  staging_.put(batch, 1.0f, stream_);
  launch({Function::evaluate});
  return read_scalar<float>(layout().results.eval_loss);
}

void CudaStepProgram::compute(Function function, const Batch& batch) {
  flush();
  staging_.put(batch, 1.0f, stream_);
  launch({function});
}

std::span<const float> CudaStepProgram::result(Place place) {
  const int64_t bytes = place.elements * static_cast<int64_t>(sizeof(float));
  if (results_.bytes() < bytes) results_ = PinnedBuffer(bytes);
  stream_.synchronize();
  copy_to_host(results_.data(), arena() + place.offset, bytes);
  return {reinterpret_cast<const float*>(results_.data()), static_cast<size_t>(place.elements)};
}

// Queued before compute(), which reads them.
void CudaStepProgram::copy_inputs(std::span<const Input> inputs) {
  flush();
  stream_.synchronize();  // the copies before may still read the buffer
  queue_inputs(inputs, inputs_);
}

void CudaStepProgram::queue_inputs(std::span<const Input> inputs, PinnedBuffer& memory) {
  int64_t bytes = 0;
  for (const Input& input : inputs) bytes += static_cast<int64_t>(input.bytes.size());
  if (memory.bytes() < bytes) memory = PinnedBuffer(bytes);
  std::byte* next = memory.data();
  for (const Input& input : inputs) {
    std::memcpy(next, input.bytes.data(), input.bytes.size());
    copy_to_device(arena() + input.offset, next, static_cast<int64_t>(input.bytes.size()), stream_);
    next += input.bytes.size();
  }
}

// Nothing here waits: while the GPU works on a step, the next one is queued behind it.
void CudaStepProgram::begin_decode(std::span<const Input> inputs, bool goes_on, const Stretch& results) {
  if (decodes_begun_ - decodes_finished_ >= kInFlight)
    throw std::logic_error("too many unfinished decode steps");
  flush();
  DecodeStep& step = decode_steps_[decodes_begun_++ % kInFlight];
  queue_inputs(inputs, step.inputs);
  const Place chosen = layout().results.drawn;
  if (goes_on)
    copy_on_device(arena() + layout().inputs.next_tokens.offset, arena() + chosen.offset,
                   chosen.elements * static_cast<int64_t>(sizeof(int32_t)), stream_);
  launch({Function::decode});
  if (step.results.bytes() < results.bytes) step.results = PinnedBuffer(results.bytes);
  copy_to_host(step.results.data(), arena() + results.first, results.bytes, stream_);
  step.done.record(stream_);
}

void CudaStepProgram::finish_decode(const Stretch&, std::span<std::byte> to) {
  if (decodes_begun_ == decodes_finished_) throw std::logic_error("no decode step is unfinished");
  const DecodeStep& step = decode_steps_[decodes_finished_++ % kInFlight];
  step.done.synchronize();
  std::memcpy(to.data(), step.results.data(), to.size());
}

std::optional<DeviceLoad> CudaStepProgram::device_load() {
  const std::optional<GpuSample> sample = monitor_.sample();
  if (!sample) return std::nullopt;
  const auto said = [](double value) { return value > 0 ? std::optional(value) : std::nullopt; };
  return DeviceLoad{.utilization = sample->utilization_percent / 100.0,
                    .memory_used_bytes = sample->memory_used_bytes,
                    .power_watts = said(sample->power_watts),
                    .temperature_celsius = said(sample->temperature_celsius),
                    .sm_clock_mhz = said(sample->sm_clock_mhz),
                    .energy_joules = monitor_.energy_joules()};
}

// Calls part(first, bytes) for the bytes of a range of the arena that lie in one memory: the copies of the
// driver's interface are of one.
template <class Part>
void CudaStepProgram::in_one_memory(int64_t offset, int64_t bytes, Part&& part) const {
  const int64_t on_device = std::clamp<int64_t>(arena_bytes() - offset, 0, bytes);
  if (on_device > 0) part(0, on_device);
  if (on_device < bytes) part(on_device, bytes - on_device);
}

void CudaStepProgram::copy_out(int64_t offset, std::span<std::byte> to) {
  flush();
  stream_.synchronize();
  in_one_memory(offset, static_cast<int64_t>(to.size()), [&](int64_t first, int64_t bytes) {
    copy_to_host(to.data() + first, arena() + offset + first, bytes);
  });
}

void CudaStepProgram::copy_in(int64_t offset, std::span<const std::byte> from) {
  flush();
  stream_.synchronize();
  in_one_memory(offset, static_cast<int64_t>(from.size()), [&](int64_t first, int64_t bytes) {
    copy_to_device(arena() + offset + first, from.data() + first, bytes);
  });
}

void CudaStepProgram::start(const std::vector<NamedTensor>& given) {
  flush();
  for (int i = 0; i < 2; ++i) pieces_.push_back({PinnedBuffer(kPiece)});
  LaidOutProgram::start(given);
  stream_.synchronize();
  pieces_.clear();
}

// One piece is made while the one before is copied.
void CudaStepProgram::copy_in_pieces(int64_t offset, int64_t bytes, const MakePiece& make) {
  for (int64_t first = 0; first < bytes; first += kPiece) {
    const int64_t count = std::min(kPiece, bytes - first);
    const Piece& piece = pieces_[next_piece_++ % pieces_.size()];
    piece.copied.synchronize();  // its last copy, if there was one
    make(first, {piece.memory.data(), static_cast<size_t>(count)});
    in_one_memory(offset + first, count, [&](int64_t at, int64_t part) {
      copy_to_device(arena() + offset + first + at, piece.memory.data() + at, part, stream_);
    });
    piece.copied.record(stream_);
  }
}

void CudaStepProgram::clear_persistent() {
  fill_bytes(arena(), 0, layout().persistent_bytes, stream_);
  const int64_t behind = layout().kept_bytes + layout().host_bytes;
  const int64_t at = layout().arena_bytes - behind;
  in_one_memory(at, behind,
                [&](int64_t first, int64_t bytes) { fill_bytes(arena() + at + first, 0, bytes, stream_); });
  stream_.synchronize();
}

}  // namespace hydrac::runtime::cuda
