// A frozen matrix after it has been stored as 4-bit codes, as QLoRA's double quantization does (Dettmers et
// al., 2023: arXiv 2305.14314), in float64 but for the choice of the nearest number.
#pragma once
#include <cstdint>

namespace hydrac::oracle {

// `numbers` are one linear layer's: blocks of 64 are divided by their largest magnitude, and each number
// becomes the nearest of the 16 of NormalFloat. The magnitudes less their mean become 8-bit codes, in groups
// of 256 (quantize.h).
void store_as_nf4(double* numbers, std::int64_t count);

}  // namespace hydrac::oracle
