#include "driver/slot_places.h"

#include <stdexcept>
#include <vector>

namespace hydrac::driver {

SlotPlaces slot_places(const Compiled& compiled, ir::ValueId id) {
  const ir::Value& value = compiled.graph.value(id);
  std::vector<int64_t> at;
  for (int slot = 0; slot < value.slots; ++slot)
    at.push_back(plan::address(compiled.graph, compiled.plan, {id, {false, slot}}, 0));
  for (int apart = 1; apart <= value.slots; ++apart) {
    const int64_t stride = apart > 1 ? at[1] - at[0] : 0;
    bool regular = true;
    for (int slot = 0; slot < value.slots; ++slot) regular &= at[slot] == at[0] + slot % apart * stride;
    if (regular) return {at[0], stride, apart};
  }
  throw std::logic_error(value.name + ": its slots lie at no regular distance");
}

}  // namespace hydrac::driver
