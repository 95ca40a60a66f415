// Loss and accuracy on held-out data.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/data/batch.h"
#include "runtime/program/step_program.h"

namespace hydrac::runtime {

class Ranks;

struct Evaluation {
  double loss = 0;                 // mean of the targets
  std::optional<double> accuracy;  // share of the targets that the model predicts; of classes, or of pairs
  std::map<std::string, double> losses;  // of each set; empty where there is one without a name
};

// Over the first `max_batches` validation batches of each set: the same ones each time, in order. nullopt
// without validation data. InputError if those batches of a set have no targets. `ranks` divide the batches
// among them, and the sum is bit-identical to that of one process.
std::optional<Evaluation> evaluate(StepProgram& program, const BatchLoader& loader, int64_t max_batches,
                                   Ranks* ranks = nullptr);

}  // namespace hydrac::runtime
