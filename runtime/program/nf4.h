// Matrices of 4-bit codes (hydrac/nf4.h), with QLoRA's double quantization. An element is its code's value
// times the absmax of its block of 64. The absmax is an 8-bit code (hydrac/dynamic_code.h) times a scale of
// 256 blocks, plus the mean over the matrix. 4.13 bits an element.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

struct Nf4 {
  std::vector<uint8_t> codes;        // [elements / 2]
  std::vector<uint8_t> block_codes;  // [blocks]
  std::vector<float> groups;         // [groups, 2]: scale, mean
};

// How many groups a matrix of so many elements has: its last one may have fewer blocks.
int64_t nf4_groups(int64_t elements);

// The place of the matrix that follows this one.
Nf4Place behind(const Nf4Place& place);

// Room for so many elements.
void resize(Nf4& matrix, int64_t elements);

// Quantizes a matrix piece by piece, so that it need not be in memory as a whole. A number that is not finite
// makes all groups NaN. Uses all threads; bits depend neither on the number of threads nor on the pieces.
class Nf4Encoder {
 public:
  // Begins one matrix after another.
  void begin(int64_t elements);
  // The next whole blocks of it, as they lie in memory.
  void add(std::span<const float> numbers);
  // When all are added. Valid until the next begin().
  const Nf4& finish();

 private:
  Nf4 matrix_;
  std::vector<float> magnitudes_;  // the largest of each block
  size_t added_ = 0;               // blocks
};

// The numbers that a program's kernels make of the codes, before they are rounded to what matmuls read.
void dequantize_nf4(const Nf4& matrix, std::span<float> numbers);

}  // namespace hydrac::runtime
