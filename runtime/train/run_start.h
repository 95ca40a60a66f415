// A run's start: a folder of its own, or the newest checkpoint of an earlier session.
#pragma once
#include <optional>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/console.h"
#include "runtime/train/run_output.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

// Throws what train() would throw about run_dir, resume and identity, and changes nothing: to be called
// before time is spent on data and compiling. Returns the choices of the checkpoint that train() will
// continue from, for the program to repeat; none for a new run.
RecordedChoices check_run(const TrainOptions& options);

// Gives the run's folder to `output`, locked, and empty of other runs unless a checkpoint to continue from is
// returned. Of several ranks the one that leads does so and tells the others; from then on all that these
// say, errors too, goes to a log of each. Errors of RunFolder, and of weights that the run cannot begin with.
std::optional<Checkpoint> agree_on_start(StepProgram& program, const TrainOptions& options, Console& console,
                                         RunOutput& output);

// Says, also to a quiet run, why its results will not be bit for bit those of the run that it continues.
// InputError instead where they have to be: `exact`.
void compare_choices(const Checkpoint& checkpoint, const StepProgram& program, bool exact);

}  // namespace hydrac::runtime
