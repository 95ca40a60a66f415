#include "runtime/program/laid_out_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"
#include "runtime/program/non_finite.h"
#include "runtime/program/shared_bytes.h"

namespace hydrac::runtime {

namespace {

ReadArena reader_of(LaidOutProgram& program) {
  return [&program](int64_t at, std::span<std::byte> to) { program.copy_out(at, to); };
}

// decode_floats() on all threads: each number by itself, so that how they are shared out changes nothing.
void decode_in_parallel(const std::byte* in, SafetensorsDtype dtype, std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  constexpr int64_t kChunk = 1 << 16;
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < count; first += kChunk) {
    decode_floats(in + first * dtype_bytes(dtype), dtype,
                  values.subspan(first, std::min(kChunk, count - first)));
  }
}

}  // namespace

LaidOutProgram::LaidOutProgram(ProgramLayout layout, int64_t in_flight)
    : layout_(std::move(layout)), in_flight_(in_flight) {
  for (std::vector<NamedTensor>* tensors : {&layout_.parameters, &layout_.base_parameters}) {
    for (NamedTensor& tensor : *tensors) {
      if (tensor.pieces.empty())
        tensor.shared = shared_at(layout_.divided, static_cast<int64_t>(tensor.address), tensor.bytes());
      for (TensorPiece& piece : tensor.pieces) share_piece(piece, layout_.divided);
    }
  }
  for (ParameterStart& start : layout_.starts)
    for (TensorPiece& piece : start.pieces) share_piece(piece, layout_.divided);
}

ProgramFacts LaidOutProgram::facts() const {
  ProgramFacts facts;
  facts.generates = layout_.results.logits || layout_.results.prompt_logits;
  facts.context_length = layout_.context_length;
  facts.cache = layout_.cache;
  facts.cache.steps_in_flight = in_flight_;
  facts.texts = layout_.texts;
  facts.steps_in_flight = in_flight_;
  facts.computes_together = computes_together();
  facts.shares_state = shares_state();
  facts.arena_bytes = arena_bytes();
  facts.flop_per_target = layout_.flop_per_target;
  return facts;
}

ProgramTensors LaidOutProgram::tensors() {
  return {layout_.parameters, layout_.base_parameters, layout_.encoder_parameters, layout_.optimizer_state};
}

void LaidOutProgram::copy_in_pieces(int64_t offset, int64_t bytes, const MakePiece& make) {
  std::vector<std::byte> memory(static_cast<size_t>(std::min(kPiece, bytes)));
  for (int64_t first = 0; first < bytes; first += kPiece) {
    const std::span piece = std::span(memory).first(static_cast<size_t>(std::min(kPiece, bytes - first)));
    make(first, piece);
    copy_in(offset + first, piece);
  }
}

void LaidOutProgram::leave_graphs() {
  throw InputError("--no-graph: a program for the cpu has no CUDA graphs");
}

void LaidOutProgram::profile_steps(int64_t, int64_t) {
  throw InputError(
      "--profile: a program for the cpu has no part of CUDA's profilers; perf records all of it");
}

void LaidOutProgram::refresh_working_copies() {
  if (!stale_) return;
  stale_ = false;
  checking() ? run_checked(Function::load) : run(Function::load);
}

void LaidOutProgram::time_calls(bool timed) {
  if (timed && layout_.calls.empty())
    throw InputError("profile: this program was built without a table of its calls");
  timing_ = timed;
}

std::vector<CallSpan> LaidOutProgram::take_timed_calls() {
  return std::exchange(timed_calls_, {});
}

void LaidOutProgram::add_timed(const std::vector<Function>& functions, const std::vector<CallTimes>& times) {
  auto next = times.begin();
  for (const Function function : functions) {
    for (TracedCall& call : layout_.calls.of(to_string(function))) {
      if (next == times.end()) throw std::logic_error("fewer calls were timed than the program has");
      timed_calls_.push_back(
          {std::move(call.name), call.layer, std::move(call.origin), next->queue, next->began, next->ended});
      ++next;
    }
  }
  if (next != times.end()) throw std::logic_error("more calls were timed than the program has");
}

void LaidOutProgram::download(const NamedTensor& tensor, std::span<std::byte> to) {
  if (!tensor.is_whole()) {
    if (!state_is_whole_)
      throw InputError(
          fmt::format("{} is on no rank whole ({}); checkpoints, which all ranks save together, hold it",
                      tensor.name, tensor.pieces.empty() ? "parallel.zero" : "parallel.tensor"));
    ranks().share(tensor.name);
    return collect(tensor, to);
  }
  if (!tensor.nf4) return copy_out(static_cast<int64_t>(tensor.address), to);
  const std::vector<float> numbers = read_nf4(*tensor.nf4);
  std::ranges::copy(std::as_bytes(std::span(numbers)), to.begin());
}

void LaidOutProgram::upload(const NamedTensor& tensor, SafetensorsDtype dtype,
                            std::span<const std::byte> from) {
  if (tensor.nf4) {
    return write_nf4(*tensor.nf4, [&](int64_t first, std::span<float> numbers) {
      decode_in_parallel(from.data() + first * dtype_bytes(dtype), dtype, numbers);
    });
  }
  for (const SharedBytes& stretch : tensor.shared) {
    const OwnBytes own = own_bytes(stretch, data_rank());
    if (own.count > 0)
      copy_in(own.address, from.subspan(static_cast<size_t>(own.first), static_cast<size_t>(own.count)));
  }
  for (const TensorPiece& piece : tensor.pieces) upload_piece(piece, from);
  if (tensor.is_whole()) copy_in(static_cast<int64_t>(tensor.address), from);
  parameters_changed();
}

void LaidOutProgram::end_replies() {
  write_scalar(layout_.results.loss, 0.0f);
  number_data();
}

void LaidOutProgram::number_replies() {
  if (!ranks_) return;
  const int64_t replies = layout_.reply_micro_batches, data = layout_.gradient_accumulation_steps - replies;
  add_to_micro_batch_number(ranks_->rank(RankGroup::data) * (replies - data));
}

void LaidOutProgram::number_data() {
  if (!ranks_) return;
  const int64_t replies = layout_.reply_micro_batches, data = layout_.gradient_accumulation_steps - replies;
  const int64_t rank = ranks_->rank(RankGroup::data), later = ranks_->size(RankGroup::data) - 1 - rank;
  add_to_micro_batch_number(later * replies + rank * data);
}

void LaidOutProgram::add_to_micro_batch_number(int64_t count) {
  Counters now = counters();
  now.rng_step += count;
  set_counters(now);
}

std::optional<std::string> LaidOutProgram::step_through(Function function, bool look) {
  const std::vector<TracedCall> calls = layout_.calls.of(to_string(function));
  const ReadArena read = reader_of(*this);
  struct Found {};
  std::optional<std::string> found;
  size_t next = 0;
  const CallListener listener([&](void*) {
    wait();
    if (look && (found = non_finite_results(calls.at(next), read))) throw Found();
    ++next;
  });
  try {
    run(function);
  } catch (const Found&) {
  } catch (const RunError& error) {
    if (next == calls.size()) throw;
    throw RunError(fmt::format("{} failed: {}", calls[next].text(), error.what()));
  }
  return found;
}

void LaidOutProgram::run_checked(Function function) {
  if (const auto found = step_through(function, !layout_.state.loss_scale)) throw RunError(*found);
}

// The update that follows stops before it changes parameters: at the first number that is not finite, or, if
// all are finite, never.
std::optional<std::string> LaidOutProgram::repeat(const LastRun& run) {
  if (computes_together()) return std::nullopt;  // a part of a layer gives no numbers of the model
  if (run.inputs.empty()) return step_through(Function::evaluate, true);
  const auto micro_batches = static_cast<int64_t>(run.inputs.size());
  Counters now = counters();
  now.rng_step -= run.later_micro_batches + micro_batches * (ranks_ ? ranks_->size() : 1);
  set_counters(now);
  alone_ = true;
  const int64_t replies = layout_.reply_micro_batches;
  if (replies > 0) number_replies();
  for (int64_t i = 0; i < micro_batches; ++i) {
    if (replies > 0 && i == replies) number_data();
    copy_in(0, run.inputs[static_cast<size_t>(i)]);
    if (const auto found = step_through(Function::micro_step, true)) {
      return micro_batches == 1 ? *found
                                : fmt::format("in micro-batch {} of {}, {}", i + 1, micro_batches, *found);
    }
  }
  // An update of several ranks is a step of all of them; not all may come to it.
  return ranks_ ? std::nullopt : step_through(Function::update, true);
}

std::string LaidOutProgram::explain_divergence() {
  if (layout_.calls.empty()) return "";
  const ReadArena read = reader_of(*this);
  if (const auto found = non_finite_tensor(own_tensors(layout_.parameters), "parameter", read)) return *found;
  if (const auto found = non_finite_tensor(own_tensors(layout_.base_parameters), "parameter", read))
    return *found;
  if (const auto found = non_finite_tensor(own_tensors(layout_.optimizer_state), "optimizer state", read))
    return *found;
  if (const auto found = repeat(last_run())) return "first, " + *found;
  if (ranks_) return "";
  return "repeated call by call it gives finite numbers only: a fault of the hardware, or of hydrac";
}

}  // namespace hydrac::runtime
