#include "runtime/cpu/cpu_step_program.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"
#include "runtime/program/transfer.h"

namespace hydrac::runtime {

CpuStepProgram::CpuStepProgram(ProgramLayout given) : LaidOutProgram(std::move(given), 1) {
  const auto bytes = static_cast<size_t>(layout().arena_bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw RunError(
        fmt::format("cannot allocate the {} bytes of tensor memory: lower train.micro_batch_size, or "
                    "set optimizations.recompute: block",
                    bytes));
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  arena_ = static_cast<std::byte*>(memory);
}

CpuStepProgram::~CpuStepProgram() {
  munmap(arena_, static_cast<size_t>(layout().arena_bytes));
}

void CpuStepProgram::copy_out(int64_t offset, std::span<std::byte> to) {
  std::memcpy(to.data(), arena_ + offset, to.size());
}

void CpuStepProgram::copy_in(int64_t offset, std::span<const std::byte> from) {
  std::memcpy(arena_ + offset, from.data(), from.size());
}

void CpuStepProgram::clear_persistent() {
  std::memset(arena_, 0, static_cast<size_t>(layout().persistent_bytes));
}

void CpuStepProgram::micro_step(const Batch& batch, float inv_count) {
  refresh_working_copies();
  fill_inputs(layout().inputs, batch, inv_count, arena_);
  if (std::exchange(step_ended_, false)) inputs_.clear();
  inputs_.emplace_back(arena_, arena_ + layout().input_bytes);
  perform(Function::micro_step);
}

void CpuStepProgram::update() {
  if (unread_result_) throw std::logic_error("update() before the last step's result was read");
  perform(Function::update);
  unread_result_ = step_ended_ = true;
}

// Before the data, one process that accumulates has the sum of all replies' gradients. Rank 0 gets the same
// sum here, so sums are in that process's order. If ranks keep only parts of gradients, each micro-batch is
// summed over ranks as it is computed.
void CpuStepProgram::end_replies() {
  LaidOutProgram::end_replies();
  if (!has_ranks()) return;
  for (const GradientPlace& place : layout().gradients) {
    const std::span sums(at<float>(place.gradients), static_cast<size_t>(place.gradients.elements));
    ranks().all_reduce(sums);
    if (!ranks().leads()) std::ranges::fill(sums, 0.0f);
  }
}

StepResult CpuStepProgram::finish_step() {
  if (!unread_result_) throw std::logic_error("no step is unfinished");
  unread_result_ = false;
  StepResult result = step_result(layout(), arena_);
  add_hook_metrics(result, hook_metrics_, reinterpret_cast<const std::byte*>(hook_values_.data()));
  return result;
}

HookMemory CpuStepProgram::add_hooks(std::vector<MetricText> metrics, size_t scratch_bytes) {
  hook_metrics_ = std::move(metrics);
  hook_values_.resize(hook_metrics_.size());
  hook_scratch_.resize(scratch_bytes);
  return {hook_values_.data(), hook_scratch_.data()};
}

void CpuStepProgram::perform(Function function) {
  if (checking()) return run_checked(function);
  if (timing()) return perform_timed(function);
  execute(function);
}

void CpuStepProgram::perform_timed(Function function) {
  std::vector<CallTimes> times;
  const CallListener listener([&](void*) { times.back().ended = monotonic_seconds(); },
                              [&](void*) { times.push_back({.began = monotonic_seconds()}); });
  execute(function);
  add_timed({function}, times);
}

void CpuStepProgram::compute(Function function, const Batch* batch) {
  refresh_working_copies();
  if (batch) fill_inputs(layout().inputs, *batch, 1.0f, arena_);
  if (function == Function::evaluate) inputs_.clear();
  perform(function);
}

}  // namespace hydrac::runtime
