// One training run from its settings to its end, as `hydrac SPEC` and programs that were emitted do it: the
// same checks in the same order, the same text on the screen.
#pragma once
#include <functional>
#include <string>

#include "runtime/data/corpus.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

// Plain data: what a spec says about a run, beside the program itself.
struct TrainSettings {
  std::string name;  // of the spec
  // Without resume, quiet and the tokenizer; the identity without that of the data, checkpoint_files without
  // the corpus's.
  TrainOptions train;
  DataSettings data;
  // What the program repeats instead of measuring it, unless a checkpoint records other choices.
  RecordedChoices choices;
};

// Checks the run's folder, makes the program, says what begins, and trains. `make_program` is called once,
// after all that is cheap to check, with the choices for the program to repeat: those of the checkpoint that
// the run continues from, else the settings'; what it returns must live until this returns, as must `corpus`.
// Returns the exit code: kExitFine, or kExitStopped. Errors as check_run() and train().
int train_run(TrainSettings settings, const Corpus& corpus,
              const std::function<StepProgram&(const RecordedChoices& recorded)>& make_program);

}  // namespace hydrac::runtime
