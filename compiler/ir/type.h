// Element types and shapes of tensors.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::ir {

enum class DType {
#define HYDRAC_DTYPE(name, bytes, type, stored) name,
#include "runtime/base/dtypes.def"
};

int64_t size_of(DType dtype);  // bytes of one element
std::string_view to_string(DType dtype);
bool is_f8(DType dtype);            // what is larger than the largest number is rounded to that
bool is_narrow_float(DType dtype);  // of fewer than 32 bits: f32 in registers

// One dimension: its size, and the symbol that stands for it in comments of generated code ("B", "T", "3C").
struct Dim {
  int64_t size = 1;
  std::string symbol;
  bool operator==(const Dim& other) const { return size == other.size; }
};

// Row-major: the last dimension is contiguous unless a view says otherwise. A scalar has no dimensions.
using Shape = std::vector<Dim>;

// More of something than 64 bits count the bytes of.
struct SizeOverflow : std::overflow_error {
  SizeOverflow() : std::overflow_error("sizes beyond what 64 bits count") {}
};

int64_t element_count(const Shape& shape);   // SizeOverflow where their bytes could not be counted
std::string symbols_of(const Shape& shape);  // "[B,T,3C]"
std::string sizes_of(const Shape& shape);    // "[16,128,576]"
std::vector<int64_t> contiguous_strides(const Shape& shape);

}  // namespace hydrac::ir
