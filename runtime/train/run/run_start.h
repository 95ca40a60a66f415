// A run's start: a folder of its own, or the newest checkpoint of an earlier session.
#pragma once
#include <optional>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/console.h"
#include "runtime/train/run/run_output.h"
#include "runtime/train/train.h"

namespace hydrac::runtime {

// Throws what train() would throw about run_dir, resume and identity, and changes nothing: call it before
// spending time on data and compiling. Returns the choices of the checkpoint that train() will continue from,
// for the program to repeat; none for a new run.
RecordedChoices check_run(const TrainOptions& options);

// Locks the run's folder for `output`, and empties it of other runs unless a checkpoint to continue from is
// returned. With several ranks, the leading one does so and tells the others; from then on all output of the
// others, errors too, goes to a log of each. Errors of RunFolder, and of weights that the run cannot begin
// with.
std::optional<Checkpoint> agree_on_start(StepProgram& program, const TrainOptions& options, Console& console,
                                         RunOutput& output);

// Says, also in a quiet run, why its results will not be bit for bit those of the run that it continues. With
// `exact` that is an InputError.
void compare_choices(const Checkpoint& checkpoint, const StepProgram& program, bool exact);

}  // namespace hydrac::runtime
