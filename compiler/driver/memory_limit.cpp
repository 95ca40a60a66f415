#include "driver/memory_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "runtime/error.h"
#include "runtime/log/units.h"
#include "runtime/parallel/world.h"
#include "targets/target.h"

namespace hydrac::driver {

namespace {

// Installed memory, or what a container (control groups, both versions) is allowed of it.
int64_t machine_memory() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t allowed = 0;  // "max" is no number: no limit
    if (std::ifstream(file) >> allowed && allowed > 0) bytes = std::min(bytes, allowed);
  }
  return bytes;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  return runtime::human_bytes(static_cast<uint64_t>(bytes));
}

int64_t given_memory(const spec::Spec& spec, const CompileOptions& options) {
  const auto limit = static_cast<int64_t>(spec.optimizations.memory_limit * 0x1p30);
  if (limit == 0 || options.memory_bytes == 0) return std::max(limit, options.memory_bytes);
  return std::min(limit, options.memory_bytes);
}

MemoryLimit memory_limit(const spec::Spec& spec, const CompileOptions& options) {
  if (const int64_t given = given_memory(spec, options); given > 0) {
    const bool by_key = given != options.memory_bytes;
    return {given, fmt::format("{} {}", by_key ? "optimizations.memory_limit is" : "it may take",
                               bytes_text(given))};
  }
  const targets::Target& target = *targets::find(spec.target);
  const int64_t all = target.is_cpu() ? machine_memory() : static_cast<int64_t>(target.memory_gib * 0x1p30);
  if (all == 0) return {0, fmt::format("the memory of {} is not known", target.name)};
  const int64_t reserve = all / 100 * 3 + (int64_t{600} << 20);
  // Ranks of other hosts take none of this machine's.
  const int ranks =
      target.is_cpu() ? runtime::ranks_of_this_host(static_cast<int>(spec::rank_count(spec))) : 1;
  const int64_t left = std::max<int64_t>((all - reserve) / ranks, 1);
  return {left,
          fmt::format("{} has {} for {} ({}, less {} for {})", target.is_cpu() ? "this machine" : target.name,
                      bytes_text(left), ranks == 1 ? "it" : fmt::format("each of {} ranks", ranks),
                      bytes_text(all), bytes_text(reserve),
                      target.is_cpu() ? "the rest of the process" : "the CUDA context and libraries")};
}

MemoryLimit known_memory_limit(const spec::Spec& spec, const CompileOptions& options, const char* key) {
  MemoryLimit limit = memory_limit(spec, options);
  if (limit.bytes == 0)
    throw runtime::InputError(
        fmt::format("{} fits the memory, and {}: name the GPU (target: h100), or give --memory or "
                    "optimizations.memory_limit",
                    key, limit.source));
  return limit;
}

}  // namespace hydrac::driver
