#include "runtime/cache/cache_warning.h"

#include <mutex>
#include <set>

#include "runtime/base/quote.h"
#include "runtime/log/output.h"

namespace hydrac::runtime {

void warn_of_cache(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!said.insert(line).second) return;
  print_error("warning: " + safe_message(line) + "\n");
}

void warn_of_unwritable_cache(const std::filesystem::path& folder) {
  warn_of_cache("the cache folder " + folder.string() +
                " cannot be written, so nothing new is remembered: is the disk full or the folder read-only? "
                "$HYDRAC_CACHE names another");
}

}  // namespace hydrac::runtime
