#include "cli/input/choose_keys.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "cli/build_program.h"
#include "cli/input/spec_input.h"
#include "cli/output/program_memory.h"
#include "driver/fit.h"
#include "runtime/log/output.h"

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

// On a terminal a line that updates itself, elsewhere one line, and neither where planning is quick.
class PlanningProgress {
 public:
  explicit PlanningProgress(int64_t combinations) : combinations_(combinations) {}
  ~PlanningProgress() {
    if (shown_ && terminal_) runtime::print_error("\r\033[K");
  }

  void show(int64_t planned) {
    // A user at a terminal wants to know soon; a log on a busy machine should equal that of an idle one.
    const std::chrono::seconds quick(terminal_ ? 2 : 30);
    if (std::chrono::steady_clock::now() - began_ < quick) return;
    if (terminal_)
      runtime::print_error(fmt::format("\r\033[Kplanning, to fit the memory: {} of up to {} programs",
                                       planned, combinations_));
    else if (!shown_)
      runtime::print_error(
          fmt::format("note: planning up to {} programs, to fit the memory\n", combinations_));
    shown_ = true;
  }

 private:
  const int64_t combinations_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
};

}  // namespace

passes::Log choose_keys(spec::Spec& spec, int64_t memory_bytes) {
  if (!waits_for_plan(spec) && !waits_for_fit(spec)) return {};
  check_shapes(spec);
  complete_sizes(spec);
  spec::Spec planned = spec;  // `options` refers to the one that is not changed
  driver::ChosenKeys chosen;
  {
    PlanningProgress progress(driver::fit_space(spec).combinations());
    chosen = with_countable_sizes(spec, [&] {
      return driver::choose_open_keys(planned, options_for(spec, memory_bytes),
                                      [&](int64_t count) { progress.show(count); });
    });
  }
  require_fit(chosen.problem);
  spec = std::move(planned);
  return std::move(chosen.decisions);
}

}  // namespace hydrac::cli
