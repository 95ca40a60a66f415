#include "runtime/train/program_start.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "runtime/parallel/ranks.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"

namespace hydrac::runtime {

void start_program(StepProgram& program, const TrainOptions& options, bool continues) {
  const bool has_files = !options.weights.empty() && (!continues || options.adapters);
  std::vector<NamedTensor> given;
  if (has_files) given = WeightFiles::filled(program);
  if (continues) std::ranges::copy(program.tensors().parameters, std::back_inserter(given));
  program.start(given);
  if (has_files) WeightFiles(options.weights).fill(program);
  if (const auto& encoder = options.objective.encoder.weights; !encoder.empty())
    WeightFiles(encoder).fill_encoder(program);
  if (!options.adapter_weights.empty() && !continues) load_adapter(program, options.adapter_weights);
}

void number_micro_batches(StepProgram& program, const TrainOptions& options) {
  if (!options.ranks) return;
  Counters counters = program.counters();
  counters.rng_step += options.ranks->rank(RankGroup::data) * options.gradient_accumulation_steps;
  program.set_counters(counters);
}

}  // namespace hydrac::runtime
