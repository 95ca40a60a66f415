// Element types and shapes of tensors.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::ir {

enum class DType { f32, bf16, f16, i32, u32, u8 };

int64_t size_of(DType dtype);  // bytes of one element
std::string_view to_string(DType dtype);

// One dimension: its size, and the symbol that stands for it in comments of generated code ("B", "T", "3C").
struct Dim {
  int64_t size = 1;
  std::string symbol;
  bool operator==(const Dim& other) const { return size == other.size; }
};

// Row-major: the last dimension is contiguous unless a view says otherwise. A scalar has no dimensions.
using Shape = std::vector<Dim>;

int64_t element_count(const Shape& shape);
std::string symbols_of(const Shape& shape);  // "[B,T,3C]"
std::string sizes_of(const Shape& shape);    // "[16,128,576]"
std::vector<int64_t> contiguous_strides(const Shape& shape);

}  // namespace hydrac::ir
