#include "spec/layers.h"

#include <utility>

namespace hydrac::spec {

void overlay_spec(Node& base, Node over) {
  for (const Alternatives& two : {kLength, kGlobalBatch, kSources, kValidation}) {
    Entry* below = base.find(two.section);
    const Entry* above = over.find(two.section);
    if (below == nullptr || above == nullptr) continue;
    const bool one = above->value.find(two.one) != nullptr, other = above->value.find(two.other) != nullptr;
    if (one && !other) below->value.erase(two.other);
    if (other && !one) below->value.erase(two.one);
  }
  overlay(base, std::move(over));
}

}  // namespace hydrac::spec
