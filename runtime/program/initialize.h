// Starting values of a program's memory, the same on every target: functions of the seed alone.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/program/layout.h"

namespace hydrac::runtime {

// Fills a part of one slot of a parameter: its elements from number `first` on. `stream` numbers the
// slot among all parameters' slots.
void initialize_parameter(std::span<float> out, int64_t first, const ParameterStart& start, uint32_t seed,
                          uint32_t stream);

// cos and sin of position t times rope's frequency i, [T, R/2], computed in float64; with rope's scaling.
void fill_rope_tables(const RopeTables& rope, std::span<float> cos, std::span<float> sin);

}  // namespace hydrac::runtime
