// Places of a tensor's slots in the arena.
#pragma once
#include "driver/compile.h"

namespace hydrac::driver {

// Slot s begins at offset + (s % apart) * stride bytes; apart 1: all slots share one place.
struct SlotPlaces {
  int64_t offset = 0, stride = 0;
  int apart = 1;
};

// Places of a value that the plan has placed, a view too. std::logic_error if the slots lie at no regular
// distance, which the plan never makes.
SlotPlaces slot_places(const Compiled& compiled, ir::ValueId value);

}  // namespace hydrac::driver
