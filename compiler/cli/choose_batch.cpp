#include "cli/choose_batch.h"

#include "cli/build_program.h"
#include "cli/spec_input.h"
#include "driver/choose_batch.h"

namespace hydrac::cli {

namespace {

// With the memory of this machine's GPU, where the target is known by its architecture alone.
driver::CompileOptions options_for(const spec::Spec& spec, int64_t memory_bytes) {
  const targets::Target& target = *targets::find(spec.target);
  driver::CompileOptions options = planning_options(spec, memory_bytes);
  if (memory_bytes == 0 && !target.is_cpu() && target.memory_gib == 0 &&
      targets::detected_gpu() == target.name)
    options.memory_bytes = runtime::cuda::devices().front().memory_bytes / 100 * 95;
  return options;
}

}  // namespace

void choose_batch(spec::Spec& spec, int64_t memory_bytes) {
  if (!waits_for_plan(spec)) return;
  check_shapes(spec);
  complete_sizes(spec);
  spec::Spec planned = spec;  // `options` refers to the one that is not changed
  driver::choose_micro_batch(planned, options_for(spec, memory_bytes));
  spec = std::move(planned);
}

}  // namespace hydrac::cli
