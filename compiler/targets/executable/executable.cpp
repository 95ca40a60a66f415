#include "targets/executable/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/types.cuh"  // how kernels round
#include "targets/executable/checkpoint_tensors.h"

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

// The matrices that a slot is kept as, as tensors of the program.
std::vector<runtime::NamedTensor> Executable::quantized(ir::ValueId id, int slot) const {
  const ir::Value& value = compiled_.graph.value(id);
  std::vector<runtime::NamedTensor> tensors;
  for (const runtime::Nf4Place& place : nf4_places(compiled_, value, slot))
    tensors.push_back({.name = value.name, .shape = {place.elements}, .nf4 = place});
  return tensors;
}

bool Executable::is_quantized(ir::ValueId id) const {
  const ir::Value& value = compiled_.graph.value(id);
  return value.parameter && value.parameter->nf4;
}

std::vector<float> Executable::read(ir::ValueId id, int slot) {
  if (is_quantized(id)) {
    std::vector<float> numbers(static_cast<size_t>(element_count(compiled_.graph.value(id).shape)));
    std::span<std::byte> rest = std::as_writable_bytes(std::span(numbers));
    for (const runtime::NamedTensor& tensor : quantized(id, slot)) {
      const auto bytes = static_cast<size_t>(tensor.bytes());
      steps().download(tensor, rest.first(bytes));
      rest = rest.subspan(bytes);
    }
    return numbers;
  }
  require_dense(compiled_.graph, id);
  const ir::Value& value = compiled_.graph.value(id);
  const auto elements = static_cast<size_t>(element_count(value.shape));
  std::vector<float> result(elements);
  if (value.dtype == ir::DType::u8) {
    std::vector<uint8_t> stored(elements);
    steps().copy_out(offset(id, slot), std::as_writable_bytes(std::span(stored)));
    result.assign(stored.begin(), stored.end());
    return result;
  }
  if (value.dtype == ir::DType::i32) {
    std::vector<int32_t> stored(elements);
    steps().copy_out(offset(id, slot), std::as_writable_bytes(std::span(stored)));
    result.assign(stored.begin(), stored.end());
    return result;
  }
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
  if (is_quantized(id)) {
    std::span<const std::byte> rest = std::as_bytes(data);
    for (const runtime::NamedTensor& tensor : quantized(id, slot)) {
      const auto bytes = static_cast<size_t>(tensor.bytes());
      steps().upload(tensor, rest.first(bytes));
      rest = rest.subspan(bytes);
    }
    return;
  }
  require_dense(compiled_.graph, id);
  const ir::DType dtype = compiled_.graph.value(id).dtype;
  if (compiled_.graph.value(id).parameter) steps().parameters_changed();
  if (dtype == ir::DType::u8) {
    std::vector<uint8_t> stored(data.size());
    std::ranges::transform(data, stored.begin(), [](float x) { return static_cast<uint8_t>(x); });
    return steps().copy_in(offset(id, slot), std::as_bytes(std::span(stored)));
  }
  if (!is_16_bit(dtype)) return steps().copy_in(offset(id, slot), std::as_bytes(data));
  std::vector<uint16_t> stored(data.size());
  std::ranges::transform(data, stored.begin(), [&](float x) { return narrow(x, dtype); });
  steps().copy_in(offset(id, slot), std::as_bytes(std::span(stored)));
}

namespace {

// True if a rank's replies fill its micro-batches: then all ranks together have the micro-batches of one
// process.
bool replies_fill_micro_batches(const spec::Spec& spec) {
  const auto& o = spec.objective;
  const int64_t of_a_row = spec.train.sequence_len / (o.prompt_tokens + o.max_new_tokens),
                places = spec.train.micro_batch_size * of_a_row;
  return spec::prompts_of_rank(spec) * o.replies % places == 0;
}

}  // namespace

std::string sums_of_ranks(const spec::Spec& spec) {
  const int64_t ranks = spec.parallel.data, each = spec.train.gradient_accumulation_steps,
                of_replies = spec::sampled_micro_batches(spec);
  const bool one_at_a_time = spec.parallel.zero > 1;
  // Ranks sum replies' micro-batches before those of data.
  const bool replies_as_one =
      of_replies == 0 || (of_replies == 1 && !one_at_a_time && replies_fill_micro_batches(spec));
  const bool as_one = each == 1 && replies_as_one;
  if (ranks == 1 || as_one) return "";
  return fmt::format("{} ranks of {}{}{}", ranks, each,
                     of_replies > 0 ? fmt::format(" and {} of replies", of_replies) : "",
                     one_at_a_time ? ", one at a time" : "");
}

}  // namespace hydrac::targets
