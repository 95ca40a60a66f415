#include "specialize/sharing.h"

#include <algorithm>

namespace hydrac::specialize {

namespace {

bool names_one_of(const Candidate& candidate, const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return candidate.words.contains(name); });
}

}  // namespace

void decide_sharing(std::vector<Candidate>& candidates) {
  for (bool changes = true; changes;) {
    changes = false;
    for (const Candidate& own : candidates) {
      if (!own.differs) continue;
      for (Candidate& other : candidates) {
        if (!other.differs && names_one_of(other, own.names)) other.differs = changes = true;
      }
    }
  }
  for (Candidate& candidate : candidates) candidate.is_shared = !candidate.differs && candidate.entries > 1;
  for (bool changes = true; changes;) {
    changes = false;
    for (const Candidate& shared : candidates) {
      if (!shared.is_shared) continue;
      for (Candidate& other : candidates) {
        if (!other.differs && !other.is_shared && names_one_of(shared, other.names))
          other.is_shared = changes = true;
      }
    }
  }
}

}  // namespace hydrac::specialize
