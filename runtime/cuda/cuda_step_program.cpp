#include "runtime/cuda/cuda_step_program.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/cuda/library.h"
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
    : LaidOutProgram(std::move(given), kInFlight),
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

// Scratch first: the allocation's beginning is aligned.
HookMemory CudaStepProgram::add_hooks(std::vector<MetricText> metrics, size_t scratch_bytes) {
  const size_t scratch = (scratch_bytes + 15) / 16 * 16, bytes = scratch + metrics.size() * sizeof(float);
  if (bytes == 0) return {};
  hook_memory_ = DeviceBuffer(static_cast<int64_t>(bytes));
  fill_bytes(hook_memory_.data(), 0, static_cast<int64_t>(bytes), stream_);
  stream_.synchronize();
  std::byte* const values = hook_memory_.data() + scratch;
  staging_.add_metrics(std::move(metrics), values);
  return {reinterpret_cast<float*>(values), hook_memory_.data()};
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
  } else if (layout().results.logits) {
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

// If a step of one micro-batch is one graph, update() launches its forward and backward pass.
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

// A failure on the GPU shows at the host's next wait, when the failing call is no longer known.
StepResult CudaStepProgram::finish_step() {
  try {
    StepResult result = staging_.oldest_result();
    if (waiting_) result.communication_seconds = static_cast<float>(waiting_->seconds());
    return result;
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}\na run with --check-kernels names the kernel that fails", error.what()));
  }
}

void CudaStepProgram::compute(Function function, const Batch* batch) {
  flush();
  refresh_working_copies();
  if (function == Function::evaluate) evaluated_ = true;
  if (batch) staging_.put(*batch, 1.0f, stream_);
  launch({function});
}

std::span<const std::byte> CudaStepProgram::read_port(Place port) {
  const int64_t bytes = port.elements * 4;
  if (results_.bytes() < bytes) results_ = PinnedBuffer(bytes);
  flush();
  stream_.synchronize();
  copy_to_host(results_.data(), arena() + port.offset, bytes);
  return {results_.data(), static_cast<size_t>(bytes)};
}

// Queued before compute(), which reads them.
void CudaStepProgram::copy_inputs(std::span<const PortBytes> inputs) {
  flush();
  stream_.synchronize();  // the copies before may still read the buffer
  queue_inputs(inputs, inputs_);
}

void CudaStepProgram::queue_inputs(std::span<const PortBytes> inputs, PinnedBuffer& memory) {
  int64_t bytes = 0;
  for (const PortBytes& input : inputs) bytes += std::ssize(input.bytes);
  if (memory.bytes() < bytes) memory = PinnedBuffer(bytes);
  std::byte* next = memory.data();
  for (const auto& [port, from] : inputs) {
    std::memcpy(next, from.data(), from.size());
    copy_to_device(arena() + port.offset, next, std::ssize(from), stream_);
    next += from.size();
  }
}

// Does not block: while the GPU works on a step, the next one is queued.
void CudaStepProgram::queue_decode(std::span<const PortBytes> inputs, bool goes_on, const Stretch& results) {
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

void CudaStepProgram::take_decoded(const Stretch&, std::span<std::byte> to) {
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

}  // namespace hydrac::runtime::cuda
