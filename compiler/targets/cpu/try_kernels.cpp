#include "targets/cpu/try_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "targets/trial/run_trial.h"

namespace hydrac::targets {

Tried try_kernels(const ir::Graph& graph, const program::Program& program, const KernelLibrary& library) {
  using Launch = void (*)(void* const* arguments, int layer, int64_t rows);
  const auto start = std::chrono::steady_clock::now();
  Trials trials = trials_of(graph, program);
  size_t right = 0;
  Tried tried;
  for (const Trial& trial : trials.trials) {
    const std::string& name = program.kernels[static_cast<size_t>(trial.kernel)].name;
    const auto launch = reinterpret_cast<Launch>(symbol(library, name + "__launch"));
    const std::optional<std::string> difference =
        run_trial(graph, trial, [&](const std::vector<void*>& arguments, int layer, int64_t rows) {
          launch(arguments.data(), layer, rows);
        });
    if (!difference) {
      trials.untried.push_back(name);
    } else if (difference->empty()) {
      ++right;
    } else {
      tried.wrong = fmt::format("{} wrong: {}", name, *difference);
      return tried;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  tried.summary =
      fmt::format("{} kernels are what their definitions say, tried in {:.3f} s", right, seconds.count());
  if (!trials.untried.empty())
    tried.summary += fmt::format("; not tried: {}", fmt::join(trials.untried, ", "));
  return tried;
}

}  // namespace hydrac::targets
