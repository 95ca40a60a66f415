#include "driver/accesses.h"

namespace hydrac::driver {

std::vector<program::Access> accesses(const Compiled& compiled, const program::Call& call, int layer) {
  std::vector<program::Access> touched;
  for (size_t a = 0; a < call.arguments.size(); ++a) {
    const int64_t first = plan::address(compiled.graph, compiled.plan, call.arguments[a], layer);
    touched.push_back({first, first + plan::extent(compiled.graph, call.arguments[a]), call.writes[a]});
  }
  return touched;
}

}  // namespace hydrac::driver
