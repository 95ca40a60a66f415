#include "targets/executable/non_finite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "spec/key_table.h"
#include "targets/executable/checkpoint_tensors.h"

namespace hydrac::targets {

namespace {

// The bits of a type's exponent and mantissa, at its width.
struct FloatBits {
  uint32_t exponent = 0, mantissa = 0;
};

std::optional<FloatBits> float_bits(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32:
      return FloatBits{0x7F800000, 0x007FFFFF};
    case ir::DType::bf16:
      return FloatBits{0x7F80, 0x007F};
    case ir::DType::f16:
      return FloatBits{0x7C00, 0x03FF};
    default:
      return std::nullopt;
  }
}

std::vector<int64_t> lengths(const ir::Shape& shape) {
  std::vector<int64_t> lengths;
  for (const ir::Dim& dim : shape) lengths.push_back(dim.size);
  return lengths;
}

int64_t count_of(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

// The position of element `index` in row-major order.
std::vector<int64_t> position_of(int64_t index, std::span<const int64_t> sizes) {
  std::vector<int64_t> position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; index /= sizes[d]) position[d] = index % sizes[d];
  return position;
}

}  // namespace

std::optional<NonFinite> non_finite(std::span<const std::byte> bytes, ir::DType dtype,
                                    std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  const std::optional<FloatBits> bits = float_bits(dtype);
  if (!bits) return std::nullopt;
  const auto width = static_cast<size_t>(size_of(dtype));
  NonFinite found;
  found.elements = count_of(sizes);
  const int64_t row = sizes.empty() ? 1 : sizes.back(), stride = sizes.empty() ? 1 : strides.back();
  for (int64_t index = 0; index < found.elements; index += row) {
    const std::vector<int64_t> position = position_of(index, sizes);
    int64_t element = 0;
    for (size_t d = 0; d < position.size(); ++d) element += position[d] * strides[d];
    for (int64_t i = 0; i < row; ++i, element += stride) {
      uint32_t value = 0;  // little-endian, as all our targets are
      std::memcpy(&value, bytes.data() + static_cast<size_t>(element) * width, width);
      if ((value & bits->exponent) != bits->exponent) continue;
      if (found.count++ > 0) continue;
      found.first = position_of(index + i, sizes);
      found.nan = (value & bits->mantissa) != 0;
    }
  }
  return found.count > 0 ? std::optional(found) : std::nullopt;
}

std::optional<NonFinite> non_finite(const driver::Compiled& compiled, ir::Use use, int layer,
                                    const ReadArena& read) {
  const ir::Value& value = compiled.graph.value(use);
  if (!float_bits(value.dtype)) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(plan::extent(compiled.graph, use)));
  read(plan::address(compiled.graph, compiled.plan, use, layer), bytes);
  return non_finite(bytes, value.dtype, lengths(value.shape),
                    resolved_view(compiled.graph, use.value).strides);
}

namespace {

const char* kind_of(const NonFinite& found) {
  return found.nan ? "NaN" : "infinity";
}

// To follow the tensor or its contents; empty for a scalar.
std::string places(const NonFinite& found) {
  if (found.first.empty()) return "";
  return fmt::format(" in {} of {} elements, the first at [{}]", found.count, found.elements,
                     fmt::join(found.first, ", "));
}

std::string holds(const std::string& tensor, const NonFinite& found) {
  return fmt::format("{} holds {}{}", tensor, kind_of(found), places(found));
}

}  // namespace

std::string tensor_name(const ir::Graph& graph, ir::Use use, int layer) {
  const ir::Value& value = graph.value(use);
  return value.slots > 1 ? fmt::format("{}[{}]", value.name, use.slot.at(layer)) : value.name;
}

namespace {

// Of a section, where the first of its keys that the user wrote stands.
diag::Location where(const spec::Spec& spec, const std::string& key) {
  if (spec::find_key(key)) return spec.where(key);
  for (const spec::KeyRow& row : spec::key_rows()) {
    if (row.path.starts_with(key + ".") && spec.is_set(row.path)) return spec.where(row.path);
  }
  return {};
}

}  // namespace

std::string place_of(const spec::Spec& spec, const std::string& key) {
  const diag::Location location = where(spec, key);
  if (!location.known()) return key + ", by default";
  if (location.on_command_line()) return key + " on the command line";
  return fmt::format("{}, {}:{}", key, location.file, location.line);
}

std::string to_text(const driver::Compiled& compiled, const CallPlace& place) {
  const program::Call& call = place.call;
  std::string text = call.kind == program::Call::Kind::launch ? "kernel " : "";
  text += name_of(compiled.program, call);
  if (call.kind == program::Call::Kind::gemm) text += " for " + call.label;
  if (place.section.layers > 0) text += fmt::format(" of layer {}", place.layer);
  return text + fmt::format(" ({})", place_of(compiled.spec, call.origin));
}

namespace {

struct Range {
  int64_t first, last;
};

Range range_of(const driver::Compiled& compiled, ir::Use use, int layer) {
  const int64_t first = plan::address(compiled.graph, compiled.plan, use, layer);
  return {first, first + plan::extent(compiled.graph, use)};
}

// The first operand that is not finite, of those that do not lie under a result.
std::optional<std::string> non_finite_input(const driver::Compiled& compiled, const CallPlace& place,
                                            const ReadArena& read) {
  const program::Call& call = place.call;
  for (ir::Use use : call.operands) {
    if (use.value == compiled.interface.targets) continue;  // regression's missing ones are NaN
    const Range read_range = range_of(compiled, use, place.layer);
    const bool overwritten = std::ranges::any_of(call.results, [&](ir::Use result) {
      const Range written = range_of(compiled, result, place.layer);
      return read_range.first < written.last && written.first < read_range.last;
    });
    if (overwritten) continue;
    if (const auto found = non_finite(compiled, use, place.layer, read)) {
      return holds(tensor_name(compiled.graph, use, place.layer), *found);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> non_finite_results(const driver::Compiled& compiled, const CallPlace& place,
                                              const ReadArena& read) {
  for (ir::Use use : place.call.results) {
    const auto found = non_finite(compiled, use, place.layer, read);
    if (!found) continue;
    const auto input = non_finite_input(compiled, place, read);
    return fmt::format("{} wrote {} to {}{}; {}", to_text(compiled, place), kind_of(*found),
                       tensor_name(compiled.graph, use, place.layer), places(*found),
                       input ? "of what it read, " + *input : "all that it read is finite");
  }
  return std::nullopt;
}

namespace {

ir::DType element_type(runtime::SafetensorsDtype dtype) {
  switch (dtype) {
    case runtime::SafetensorsDtype::f32:
      return ir::DType::f32;
    case runtime::SafetensorsDtype::bf16:
      return ir::DType::bf16;
    case runtime::SafetensorsDtype::f16:
      return ir::DType::f16;
    default:
      return ir::DType::i32;  // a counter: always finite
  }
}

std::optional<std::string> non_finite_tensor(const std::vector<runtime::NamedTensor>& tensors,
                                             const char* kind, const ReadArena& read) {
  for (const runtime::NamedTensor& tensor : tensors) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
    read(static_cast<int64_t>(tensor.address), bytes);
    std::vector<int64_t> strides(tensor.shape.size(), 1);
    for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * tensor.shape[d];
    if (tensor.transposed) strides = {1, tensor.shape[0]};
    if (const auto found = non_finite(bytes, element_type(tensor.dtype), tensor.shape, strides))
      return holds(fmt::format("the {} {}", kind, tensor.name), *found);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> non_finite_state(const driver::Compiled& compiled, const ReadArena& read) {
  if (auto found = non_finite_tensor(parameter_tensors(compiled), "parameter", read)) return found;
  return non_finite_tensor(optimizer_tensors(compiled), "optimizer state", read);
}

}  // namespace hydrac::targets
