#include "runtime/app/train_run.h"

#include <fmt/format.h>

#include <cstdio>

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
  fmt::print("{}: {} parameters, {} of tensor memory, {}\n", settings.name,
             human_count(static_cast<double>(count_parameters(program))),
             human_bytes(static_cast<uint64_t>(program.arena_bytes())), program.description());
  fmt::print("{} sequences of {} an epoch\n", loader.samples_per_epoch(), settings.data.sequence_len);
  std::fflush(stdout);
}

}  // namespace

void train_run(TrainSettings settings, const Corpus& corpus,
               const std::function<StepProgram&(const RecordedChoices& recorded)>& make_program) {
  TrainOptions& options = settings.train;
  options.identity["data"] = corpus.fingerprint;
  options.checkpoint_files.insert(corpus.files.begin(), corpus.files.end());
  options.tokenizer = corpus.tokenizer.get();
  StepProgram& program = make_program(check_run(options));
  if (!options.quiet) print_start(settings, program, *corpus.loader);
  train(program, corpus.loader, options);
}

}  // namespace hydrac::runtime
