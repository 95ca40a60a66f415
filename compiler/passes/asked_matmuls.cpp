#include "passes/asked_matmuls.h"

#include <fnmatch.h>

#include <algorithm>

namespace hydrac::passes {

bool names_matmul(std::span<const std::string> patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

Asked asked_of(const FusedMatmuls& options, const std::string& name) {
  if (names_matmul(options.own, name)) return Asked::ours;
  return names_matmul(options.library, name) ? Asked::library : Asked::nothing;
}

}  // namespace hydrac::passes
