// Decisions of passes, for `hydrac explain` and dumps: one line a decision, under the pass's name.
#pragma once
#include <string>
#include <vector>

namespace hydrac::passes {

struct Decision {
  std::string pass;
  std::string text;
};
using Log = std::vector<Decision>;

}  // namespace hydrac::passes
