#include "driver/choose_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "driver/fit_memory.h"
#include "runtime/error.h"
#include "spec/batch.h"

namespace hydrac::driver {

namespace {

// The most positions of a micro-batch that are tried.
int64_t most_positions(const spec::Spec& spec) {
  constexpr int64_t kCached = 4096, kCounted = INT32_MAX;  // on a cpu; in a GPU's kernels
  return targets::find(spec.target)->is_cpu() ? kCached : kCounted;
}

// `recompute: auto` is asked once the batch is known: more sequences at once are not worth computing again.
bool fits(spec::Spec spec, int64_t size, CompileOptions options, const MemoryLimit& limit) {
  using Mode = spec::Recompute::Mode;
  set_micro_batch(spec, size);
  if (waits_for_data(spec)) spec.train.max_steps = 1;  // only numbers in kernels depend on it
  options.dump_dir.clear();
  if (spec.optimizations.recompute.mode == Mode::automatic) spec.optimizations.recompute.mode = Mode::none;
  return limit.allows(compile(spec, options).plan.device_bytes());
}

}  // namespace

void choose_micro_batch(spec::Spec& spec, const CompileOptions& options) {
  const MemoryLimit limit = memory_limit(spec, options);
  if (limit.bytes == 0) {
    throw runtime::InputError(
        fmt::format("train.micro_batch_size: auto fits the memory, and {}: name the GPU (target: h100), give "
                    "--memory, or write a number",
                    limit.source));
  }
  std::vector<int64_t> sizes = micro_batch_sizes(spec);
  const auto too_long = [&](int64_t size) {
    return size > 1 && size > most_positions(spec) / spec.train.sequence_len;
  };
  const int64_t least = sizes.front();
  std::erase_if(sizes, too_long);
  // Memory grows with the micro-batch.
  const auto first_too_large =
      std::ranges::partition_point(sizes, [&](int64_t size) { return fits(spec, size, options, limit); });
  set_micro_batch(spec, first_too_large == sizes.begin() ? least : *std::prev(first_too_large));
}

}  // namespace hydrac::driver
