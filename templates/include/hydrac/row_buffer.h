// Columns of a row that a kernel on the cpu keeps from one loop to the next.
#pragma once
#include <cstdint>

namespace hydrac {

// An array whose address the compiler does not follow. In one loop GCC 12 addresses a local array by its
// distance to a parameter's row, and loses track that these accesses write the array. It then hoists the
// reads of the next, unrolled loop out of the loop over rows, before the writes.
template <std::int64_t size>
class RowBuffer {
 public:
  RowBuffer() : row_(memory_) { asm("" : "+r"(row_)); }
  RowBuffer(const RowBuffer&) = delete;
  RowBuffer& operator=(const RowBuffer&) = delete;

  float& operator[](std::int64_t i) { return row_[i]; }

 private:
  alignas(64) float memory_[size];
  float* row_;
};

}  // namespace hydrac
