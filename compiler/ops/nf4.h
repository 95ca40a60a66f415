// Matrices of 4-bit codes, quantized twice: hydrac/nf4.h, runtime/program/nf4.h.
#pragma once
#include <vector>

#include "ops/builder.h"

namespace hydrac::ops {

// Groups of 256 blocks of a matrix whose parts were quantized each by itself.
int64_t nf4_groups(const std::vector<ir::RowRange>& parts, int64_t columns);

// matrix [rows, columns] = the numbers that the codes in this slot of `stored` stand for.
void dequantize_nf4(RegionBuilder& b, const ir::Nf4Storage& stored, ir::Slot slot, Use matrix);

}  // namespace hydrac::ops
