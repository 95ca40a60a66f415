#include "runtime/program/non_finite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/program/nf4.h"

namespace hydrac::runtime {

namespace {

// The bits of a type's exponent and mantissa, at its width.
struct FloatBits {
  uint32_t exponent = 0, mantissa = 0;
};

std::optional<FloatBits> float_bits(SafetensorsDtype dtype) {
  switch (dtype) {
    case SafetensorsDtype::f32:
      return FloatBits{0x7F800000, 0x007FFFFF};
    case SafetensorsDtype::bf16:
      return FloatBits{0x7F80, 0x007F};
    case SafetensorsDtype::f16:
      return FloatBits{0x7C00, 0x03FF};
    default:
      return std::nullopt;
  }
}

// The position of element `index` in row-major order.
std::vector<int64_t> position_of(int64_t index, std::span<const int64_t> sizes) {
  std::vector<int64_t> position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; index /= sizes[d]) position[d] = index % sizes[d];
  return position;
}

std::optional<NonFinite> non_finite(const TensorView& view, const ReadArena& read) {
  if (!float_bits(view.dtype)) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<size_t>(view.bytes()));
  read(view.offset, bytes);
  return non_finite(view, bytes);
}

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

bool overlap(const TensorView& a, const TensorView& b) {
  return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
}

// The first operand that is not finite, of those that do not lie under a result.
std::optional<std::string> non_finite_input(const TracedCall& call, const ReadArena& read) {
  for (const TensorView& operand : call.reads) {
    if (std::ranges::any_of(call.makes, [&](const TensorView& made) { return overlap(operand, made); }))
      continue;
    if (const auto found = non_finite(operand, read)) return holds(operand.name, *found);
  }
  return std::nullopt;
}

}  // namespace

std::optional<NonFinite> non_finite(const TensorView& view, std::span<const std::byte> bytes) {
  const std::optional<FloatBits> bits = float_bits(view.dtype);
  if (!bits) return std::nullopt;
  const auto width = static_cast<size_t>(dtype_bytes(view.dtype));
  NonFinite found{.elements = 1};
  for (const int64_t size : view.shape) found.elements *= size;
  const int64_t row = view.shape.empty() ? 1 : view.shape.back();
  const int64_t stride = view.strides.empty() ? 1 : view.strides.back();
  for (int64_t index = 0; index < found.elements; index += row) {
    const std::vector<int64_t> position = position_of(index, view.shape);
    int64_t element = 0;
    for (size_t d = 0; d < position.size(); ++d) element += position[d] * view.strides[d];
    for (int64_t i = 0; i < row; ++i, element += stride) {
      uint32_t value = 0;  // little-endian, as all our targets are
      std::memcpy(&value, bytes.data() + static_cast<size_t>(element) * width, width);
      if ((value & bits->exponent) != bits->exponent) continue;
      if (found.count++ > 0) continue;
      found.first = position_of(index + i, view.shape);
      found.nan = (value & bits->mantissa) != 0;
    }
  }
  return found.count > 0 ? std::optional(found) : std::nullopt;
}

std::optional<std::string> non_finite_results(const TracedCall& call, const ReadArena& read) {
  for (const TensorView& made : call.makes) {
    const auto found = non_finite(made, read);
    if (!found) continue;
    const auto input = non_finite_input(call, read);
    return fmt::format("{} wrote {} to {}{}; {}", call.text(), kind_of(*found), made.name, places(*found),
                       input ? "of what it read, " + *input : "all that it read is finite");
  }
  return std::nullopt;
}

std::optional<std::string> non_finite_tensor(const std::vector<NamedTensor>& tensors, const char* kind,
                                             const ReadArena& read) {
  for (const NamedTensor& tensor : tensors) {
    TensorView view{tensor.name, tensor.dtype, static_cast<int64_t>(tensor.address), tensor.shape, {}};
    // A number that is not finite is seen in its groups.
    if (tensor.nf4)
      view = {tensor.name,
              SafetensorsDtype::f32,
              static_cast<int64_t>(tensor.nf4->groups),
              {nf4_groups(tensor.nf4->elements), 2},
              {}};
    view.strides.assign(view.shape.size(), 1);
    for (size_t d = view.strides.size(); d-- > 1;) view.strides[d - 1] = view.strides[d] * view.shape[d];
    if (tensor.transposed && !tensor.nf4) view.strides = {1, tensor.shape[0]};
    if (const auto found = non_finite(view, read))
      return holds(fmt::format("the {} {}", kind, tensor.name), *found);
  }
  return std::nullopt;
}

}  // namespace hydrac::runtime
