#include "spec/layers.h"

#include <utility>

namespace hydrac::spec {

void overlay_spec(Node& base, Node over) {
  Entry* below = base.find(kLength.section);
  const Entry* above = over.find(kLength.section);
  if (below != nullptr && above != nullptr) {
    const bool one = above->value.find(kLength.one) != nullptr,
               other = above->value.find(kLength.other) != nullptr;
    if (one && !other) below->value.erase(kLength.other);
    if (other && !one) below->value.erase(kLength.one);
  }
  overlay(base, std::move(over));
}

}  // namespace hydrac::spec
