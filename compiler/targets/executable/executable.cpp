#include "targets/executable/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cuda/types.cuh"  // how kernels round
#include "models/parameters.h"
#include "runtime/error.h"
#include "targets/executable/checkpoint_tensors.h"
#include "targets/executable/initialize.h"

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

std::vector<float> Executable::read(ir::ValueId id, int slot) const {
  require_dense(compiled_.graph, id);
  const ir::Value& value = compiled_.graph.value(id);
  const auto elements = static_cast<size_t>(element_count(value.shape));
  std::vector<float> result(elements);
  if (!is_16_bit(value.dtype)) {
    copy_out(offset(id, slot), std::as_writable_bytes(std::span(result)));
    return result;
  }
  std::vector<uint16_t> stored(elements);
  copy_out(offset(id, slot), std::as_writable_bytes(std::span(stored)));
  std::ranges::transform(stored, result.begin(), [&](uint16_t bits) { return widen(bits, value.dtype); });
  return result;
}

void Executable::write(ir::ValueId id, int slot, std::span<const float> data) {
  require_dense(compiled_.graph, id);
  const ir::DType dtype = compiled_.graph.value(id).dtype;
  if (compiled_.graph.value(id).parameter) stale_ = true;
  if (!is_16_bit(dtype)) return copy_in(offset(id, slot), std::as_bytes(data));
  std::vector<uint16_t> stored(data.size());
  std::ranges::transform(data, stored.begin(), [&](float x) { return narrow(x, dtype); });
  copy_in(offset(id, slot), std::as_bytes(std::span(stored)));
}

void Executable::initialize() {
  clear_persistent();
  const auto seed = static_cast<uint32_t>(compiled_.spec.train.seed);
  uint32_t stream = 0;
  std::vector<float> data;
  for (const ir::Value& value : compiled_.graph.values) {
    if (!value.parameter) continue;
    const int64_t row = element_count(value.shape) / value.shape[0].size;
    data.resize(static_cast<size_t>(models::checkpoint_rows(value) * row));  // the padding stays 0
    for (int slot = 0; slot < value.slots; ++slot) {
      initialize_parameter(data, value.parameter->init, seed, stream++);
      write(value.id, slot, data);
    }
  }
  const models::Interface& io = compiled_.interface;
  write_scalar(io.rng_seed, seed);
  if (io.loss_scale != ir::kNoValue)
    write_scalar(io.loss_scale, static_cast<float>(optimizers::LossScaling{}.initial));
  if (io.rope_cos != ir::kNoValue) {
    std::vector<float> cos(static_cast<size_t>(element_count(compiled_.graph.value(io.rope_cos).shape)));
    std::vector<float> sin(cos.size());
    fill_rope_tables(compiled_.spec, cos, sin);
    write(io.rope_cos, 0, cos);
    write(io.rope_sin, 0, sin);
  }
}

void Executable::refresh_working_copy() {
  if (!stale_) return;
  stale_ = false;
  const auto has_load = [](const program::Function& function) { return function.name == "load"; };
  if (std::ranges::any_of(compiled_.program.functions, has_load)) run_once("load");
}

ReadArena Executable::reader() const {
  return [this](int64_t at, std::span<std::byte> to) { copy_out(at, to); };
}

void Executable::run_checked(const std::string& function) const {
  const bool overflows = compiled_.interface.loss_scale != ir::kNoValue;
  step_through(function, [&](const CallPlace& place) {
    if (overflows) return true;
    if (const auto found = non_finite_results(compiled_, place, reader())) throw runtime::RunError(*found);
    return true;
  });
}

std::optional<std::string> Executable::first_non_finite(const std::string& function) const {
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
  const auto now = read_scalar<uint32_t>(compiled_.interface.rng_step);
  write_scalar(compiled_.interface.rng_step,
               static_cast<uint32_t>(now - run.later_micro_batches - micro_batches));
  for (int64_t i = 0; i < micro_batches; ++i) {
    copy_in(0, run.inputs[static_cast<size_t>(i)]);
    if (const auto found = first_non_finite("micro_step")) {
      return micro_batches == 1 ? *found
                                : fmt::format("in micro-batch {} of {}, {}", i + 1, micro_batches, *found);
    }
  }
  return first_non_finite("update");
}

std::string Executable::explain_divergence() {
  if (const auto found = non_finite_state(compiled_, reader())) return *found;
  if (const auto found = repeat(last_run())) return "first, " + *found;
  return "repeated call by call it gives finite numbers only: a fault of the hardware, or of hydrac";
}

std::vector<runtime::NamedTensor> Executable::parameters() {
  return parameter_tensors(compiled_, 0);
}

std::vector<runtime::NamedTensor> Executable::optimizer_state() {
  return optimizer_tensors(compiled_, 0);
}

void Executable::download(const runtime::NamedTensor& tensor, std::span<std::byte> to) {
  copy_out(static_cast<int64_t>(tensor.address), to);
}

void Executable::upload(const runtime::NamedTensor& tensor, std::span<const std::byte> from) {
  copy_in(static_cast<int64_t>(tensor.address), from);
  stale_ = true;
}

runtime::Counters Executable::counters() const {
  return {read_scalar<int32_t>(compiled_.graph.find("step")),
          read_scalar<uint32_t>(compiled_.interface.rng_step)};
}

void Executable::set_counters(const runtime::Counters& counters) {
  write_scalar(compiled_.graph.find("step"), static_cast<int32_t>(counters.step));
  write_scalar(compiled_.interface.rng_step, static_cast<uint32_t>(counters.rng_step));
}

// 6 N + 6 * layers * width * T, as llm.c counts: N weights of matrix products, attention's mask counted once.
double Executable::flop_per_target() const {
  double weights = 0;
  for (const ir::Value& value : compiled_.graph.values) {
    if (!value.parameter || value.shape.size() != 2) continue;
    const bool only_looked_up =
        value.name == "position_embedding" ||
        (value.name == "token_embedding" && !compiled_.spec.model.tie_word_embeddings);
    if (!only_looked_up) weights += static_cast<double>(element_count(value.shape) * value.slots);
  }
  const spec::Model& m = compiled_.spec.model;
  return 6 * weights + 6.0 * static_cast<double>(m.num_hidden_layers * m.num_attention_heads * m.head_dim *
                                                 compiled_.spec.train.sequence_len);
}

}  // namespace hydrac::targets
