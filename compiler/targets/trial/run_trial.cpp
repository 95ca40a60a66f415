#include "targets/trial/run_trial.h"

#include <memory>
#include <utility>

#include "targets/trial/trial_memory.h"

namespace hydrac::targets {

namespace {

constexpr int kLayer = 1;

std::unique_ptr<TrialMemory> interpreted(const ir::Graph& graph, const Trial& trial, Numbers numbers,
                                         uint32_t seed) {
  auto memory = std::make_unique<TrialMemory>(graph, trial, numbers, seed);
  evaluate_rows(*trial.node->body, memory->strides(), trial.rows, kLayer, *memory);
  return memory;
}

// Memory that the kernel can be run on, if possible with finite results; nullptr where there is none.
std::unique_ptr<TrialMemory> memory_of(const ir::Graph& graph, const Trial& trial, uint32_t seed) {
  std::unique_ptr<TrialMemory> best;
  for (const Numbers numbers : {Numbers::both_signs, Numbers::positive, Numbers::ascending}) {
    if (best && numbers == Numbers::ascending) break;
    std::unique_ptr<TrialMemory> memory = interpreted(graph, trial, numbers, seed);
    if (!memory->is_readable()) continue;
    best = std::move(memory);
    if (best->expects_only_finite()) break;
  }
  return best;
}

}  // namespace

std::optional<std::string> run_trial(const ir::Graph& graph, const Trial& trial, const TrialLaunch& launch) {
  std::optional<std::string> last;
  for (uint32_t seed = 0; seed < 3 && last != ""; ++seed) {
    const std::unique_ptr<TrialMemory> memory = memory_of(graph, trial, seed);
    if (!memory) continue;
    launch(memory->arguments(), kLayer, trial.rows);
    last = memory->difference();
  }
  return last;
}

}  // namespace hydrac::targets
