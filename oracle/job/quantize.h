// A block of numbers after it has been stored as 8-bit codes and a scale: dynamic tree quantization (Dettmers
// et al.: 8-bit Optimizers via Block-wise Quantization, ICLR 2022), from its table, in float64.
#pragma once
#include <cstdint>

namespace hydrac::oracle {

// Divides the numbers by the largest magnitude among them, replaces each by the nearest of the 256 values of
// the map, and multiplies again. Without signs, no number but 0 becomes 0. Where the largest is smaller than
// a normal float32, all become 0.
void quantize_block(double* numbers, std::int64_t count, bool is_signed);

}  // namespace hydrac::oracle
