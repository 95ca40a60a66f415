#include "runtime/cache/cache_warning.h"

#include <cstdio>
#include <mutex>
#include <set>

#include "runtime/base/quote.h"

namespace hydrac::runtime {

void warn_of_cache(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!said.insert(line).second) return;
  std::fprintf(stderr, "warning: %s\n", safe_message(line).c_str());
}

}  // namespace hydrac::runtime
