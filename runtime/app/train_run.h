// One training run from its settings to its end, shared by `hydrac SPEC` and emitted programs: the same
// checks in the same order, the same output.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/corpus.h"
#include "runtime/program/laid_out_program.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

// Plain data: what a spec says about a run, beside the program itself.
struct TrainSettings {
  std::string name;  // of the spec
  // Without resume, quiet and the tokenizer; the identity without that of the data, checkpoint_files without
  // the corpus's.
  TrainOptions train;
  DataSettings data;
  // Choices that the program repeats instead of measuring, unless a checkpoint records others.
  RecordedChoices choices;
  std::string version = {};     // of what compiles the program; ranks must have the same
  int ranks = 1;                // processes that train together
  std::vector<int> cores = {};  // that the ranks share, in order; empty: all that there are
  // Embeds replies in place of the model. Opened before the run begins, it is train.objective.encoder.
  EncoderFolder encoder = {};
};

// Checks the run's folder, makes the program, prints what begins, and trains. `make_program` is called once,
// after all cheap checks, with the choices that the program must repeat: those of the checkpoint that the run
// continues from, else the settings'. The program and `corpus` must outlive this call. Returns the exit code:
// kExitFine, or kExitStopped. Errors as check_run() and train().
//
// With `ranks` this process is one of several, already assembled. Rank 0 makes its program first, and the
// others repeat its choices, which they get as settings.choices. InputError if ranks have different specs,
// data or versions of hydrac.
int train_run(TrainSettings settings, const Corpus& corpus,
              const std::function<LaidOutProgram&(const RecordedChoices& recorded)>& make_program,
              Ranks* ranks = nullptr);

}  // namespace hydrac::runtime
