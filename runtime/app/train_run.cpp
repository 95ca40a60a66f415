#include "runtime/app/train_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "runtime/app/exit_code.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"

namespace hydrac::runtime {

namespace {

int64_t count_parameters(StepProgram& program) {
  int64_t count = 0;
  for (const NamedTensor& tensor : program.parameters()) {
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    count += elements;
  }
  return count;
}

void print_start(const TrainSettings& settings, StepProgram& program, const BatchLoader& loader) {
  print_text(stdout,
             fmt::format("{}: {} parameters, {} of tensor memory, {}\n{} sequences of {} an epoch\n",
                         settings.name, human_count(static_cast<double>(count_parameters(program))),
                         human_bytes(static_cast<uint64_t>(program.arena_bytes())), program.description(),
                         loader.samples_per_epoch(), settings.data.sequence_len));
}

}  // namespace

int train_run(TrainSettings settings, const Corpus& corpus,
              const std::function<StepProgram&(const RecordedChoices& recorded)>& make_program) {
  TrainOptions& options = settings.train;
  options.identity["data"] = corpus.fingerprint;
  options.checkpoint_files.insert(corpus.files.begin(), corpus.files.end());
  options.tokenizer = corpus.tokenizer.get();
  RecordedChoices recorded = settings.choices;
  recorded.add(check_run(options));
  StepProgram& program = make_program(recorded);
  if (!options.quiet) print_start(settings, program, *corpus.loader);
  return train(program, corpus.loader, options).stopped ? kExitStopped : kExitFine;
}

}  // namespace hydrac::runtime
