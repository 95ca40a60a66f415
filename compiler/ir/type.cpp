#include "ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hydrac::ir {

int64_t size_of(DType dtype) {
  static constexpr int64_t sizes[] = {
#define HYDRAC_DTYPE(name, bytes, type, stored) bytes,
#include "runtime/base/dtypes.def"
  };
  return sizes[static_cast<size_t>(dtype)];
}

bool is_f8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

bool is_narrow_float(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 || is_f8(dtype);
}

std::string_view to_string(DType dtype) {
  static constexpr std::string_view names[] = {
#define HYDRAC_DTYPE(name, bytes, type, stored) #name,
#include "runtime/base/dtypes.def"
  };
  return names[static_cast<size_t>(dtype)];
}

int64_t element_count(const Shape& shape) {
  constexpr int64_t kMost = int64_t{1} << 59;  // leaves room for bytes of an element, and slots
  int64_t count = 1;
  for (const Dim& dim : shape)
    if (__builtin_mul_overflow(count, dim.size, &count) || count > kMost) throw SizeOverflow();
  return count;
}

std::string symbols_of(const Shape& shape) {
  std::vector<std::string> names;
  for (const Dim& dim : shape) names.push_back(dim.symbol.empty() ? std::to_string(dim.size) : dim.symbol);
  return fmt::format("[{}]", fmt::join(names, ","));
}

std::string sizes_of(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : shape) sizes.push_back(dim.size);
  return fmt::format("[{}]", fmt::join(sizes, ","));
}

std::vector<int64_t> contiguous_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i].size;
  }
  return strides;
}

}  // namespace hydrac::ir
