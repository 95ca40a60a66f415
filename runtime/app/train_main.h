// main() of a program that was compiled ahead of time.
#pragma once
#include <functional>
#include <memory>

#include "runtime/app/train_run.h"
#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

// Makes the program, which repeats what is recorded; called once, after data and run folder were checked.
using MakeProgram = std::function<std::unique_ptr<LaidOutProgram>(const RecordedChoices& recorded)>;

// `open_encoder` opens settings.encoder, if there is one: runtime/encoder/open_encoder.h.
//
// Trains as `settings` say, changed by the options in argv (see --help), alone or as one of settings.ranks
// processes: a launcher started them, or this one becomes rank 0 and starts the others. Returns the exit code
// (see runtime/app/exit_code.h), with errors on stderr. The program is destroyed before it returns.
int train_main(int argc, const char* const* argv, const TrainSettings& settings,
               const OpenCorpus& open_corpus, const MakeProgram& make_program,
               const OpenEncoder& open_encoder = {});

}  // namespace hydrac::runtime
