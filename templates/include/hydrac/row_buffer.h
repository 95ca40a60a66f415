// Columns of a row that a kernel on the cpu keeps from one loop to the next.
#pragma once
#include <cstdint>

namespace hydrac {

// An array whose address the compiler does not follow. GCC 12 reaches a local array through its distance to a
// parameter's row in one loop, forgets that these accesses are the array's, and takes the next loop's reads
// of it, where that loop is unrolled, out of the loop over rows: they come before what they read is written.
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
