// Matrices of 4-bit codes (hydrac/nf4.h), quantized twice as QLoRA does: an element is its code's number
// times the largest magnitude of its block of 64, and these are 8-bit codes (hydrac/dynamic_code.h) times a
// scale of 256 blocks plus the mean of all of the matrix. 4.13 bits an element.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/train/step_program.h"

namespace hydrac::runtime {

struct Nf4 {
  std::vector<uint8_t> codes;        // [elements / 2]
  std::vector<uint8_t> block_codes;  // [blocks]
  std::vector<float> groups;         // [groups, 2]: scale, mean
};

// How many groups a matrix of so many elements has: its last one may have fewer blocks.
int64_t nf4_groups(int64_t elements);

// The place of a matrix that lies behind this one.
Nf4Place behind(const Nf4Place& place);

// Room for so many elements.
Nf4 empty_nf4(int64_t elements);

// Whole blocks, as they lie in memory. A number that is not finite makes all groups NaN. On all threads; bits
// do not depend on their number.
Nf4 quantize_nf4(std::span<const float> numbers);

// The numbers that a program's kernels make of the codes, before they are rounded to what matmuls read.
void dequantize_nf4(const Nf4& matrix, std::span<float> numbers);

}  // namespace hydrac::runtime
