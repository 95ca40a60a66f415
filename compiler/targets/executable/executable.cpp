#include "targets/executable/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/types.cuh"  // how kernels round
#include "runtime/error.h"

namespace hydrac::targets {

namespace {

float widen(uint16_t bits, ir::DType dtype) {
  return dtype == ir::DType::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
}

uint16_t narrow(float x, ir::DType dtype) {
  return dtype == ir::DType::bf16 ? from_float<bf16>(x).bits : from_float<f16>(x).bits;
}

bool is_16_bit(ir::DType dtype) {
  return dtype == ir::DType::bf16 || dtype == ir::DType::f16;
}

// A view's elements must lie as a dense tensor's do.
void require_dense(const ir::Graph& graph, ir::ValueId id) {
  const ir::Value& value = graph.value(id);
  if (resolved_view(graph, id).strides != contiguous_strides(value.shape))
    throw std::logic_error(value.name + " is not dense");
}

}  // namespace

int64_t Executable::offset(ir::ValueId value, int slot) const {
  return plan::address(compiled_.graph, compiled_.plan, {value, {false, slot}}, 0);
}

std::vector<float> Executable::read(ir::ValueId id, int slot) {
  require_dense(compiled_.graph, id);
  const ir::Value& value = compiled_.graph.value(id);
  const auto elements = static_cast<size_t>(element_count(value.shape));
  std::vector<float> result(elements);
  if (!is_16_bit(value.dtype)) {
    steps().copy_out(offset(id, slot), std::as_writable_bytes(std::span(result)));
    return result;
  }
  std::vector<uint16_t> stored(elements);
  steps().copy_out(offset(id, slot), std::as_writable_bytes(std::span(stored)));
  std::ranges::transform(stored, result.begin(), [&](uint16_t bits) { return widen(bits, value.dtype); });
  return result;
}

void Executable::write(ir::ValueId id, int slot, std::span<const float> data) {
  require_dense(compiled_.graph, id);
  const ir::DType dtype = compiled_.graph.value(id).dtype;
  if (compiled_.graph.value(id).parameter) steps().parameters_changed();
  if (!is_16_bit(dtype)) return steps().copy_in(offset(id, slot), std::as_bytes(data));
  std::vector<uint16_t> stored(data.size());
  std::ranges::transform(data, stored.begin(), [&](float x) { return narrow(x, dtype); });
  steps().copy_in(offset(id, slot), std::as_bytes(std::span(stored)));
}

ReadArena Executable::reader() {
  return [this](int64_t at, std::span<std::byte> to) { steps().copy_out(at, to); };
}

void Executable::run_checked(const std::string& function) {
  const bool overflows = compiled_.interface.loss_scale != ir::kNoValue;
  step_through(function, [&](const CallPlace& place) {
    if (overflows) return true;
    if (const auto found = non_finite_results(compiled_, place, reader())) throw runtime::RunError(*found);
    return true;
  });
}

std::optional<std::string> Executable::first_non_finite(const std::string& function) {
  std::optional<std::string> found;
  step_through(function, [&](const CallPlace& place) {
    found = non_finite_results(compiled_, place, reader());
    return !found;
  });
  return found;
}

// The update that follows ends where it would change parameters: at the first number that is not finite, or
// never, when all are.
std::optional<std::string> Executable::repeat(const LastRun& run) {
  if (run.inputs.empty()) return first_non_finite("evaluate");
  const auto micro_batches = static_cast<int64_t>(run.inputs.size());
  runtime::Counters counters = steps().counters();
  counters.rng_step -= run.later_micro_batches + micro_batches;
  steps().set_counters(counters);
  for (int64_t i = 0; i < micro_batches; ++i) {
    steps().copy_in(0, run.inputs[static_cast<size_t>(i)]);
    if (const auto found = first_non_finite("micro_step")) {
      return micro_batches == 1 ? *found
                                : fmt::format("in micro-batch {} of {}, {}", i + 1, micro_batches, *found);
    }
  }
  return first_non_finite("update");
}

std::string Executable::first_bad_value() {
  if (const auto found = non_finite_state(compiled_, reader())) return *found;
  if (const auto found = repeat(last_run())) return "first, " + *found;
  return "repeated call by call it gives finite numbers only: a fault of the hardware, or of hydrac";
}

}  // namespace hydrac::targets
