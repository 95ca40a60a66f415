#include "runtime/app/train_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "runtime/app/exit_code.h"
#include "runtime/app/run_ranks.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"
#include "runtime/train/run/run_start.h"

namespace hydrac::runtime {

namespace {

int64_t count_parameters(const std::vector<NamedTensor>& tensors) {
  int64_t count = 0;
  for (const NamedTensor& tensor : tensors) {
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    count += elements;
  }
  return count;
}

std::string describe_parameters(StepProgram& program) {
  const int64_t own = count_parameters(program.tensors().parameters),
                base = count_parameters(program.tensors().base);
  if (base == 0) return fmt::format("{} parameters", human_count(static_cast<double>(own)));
  return fmt::format("adapters with {} parameters beside {} that stay as they are",
                     human_count(static_cast<double>(own)), human_count(static_cast<double>(base)));
}

const char* describe(CurriculumOrder order) {
  if (order == CurriculumOrder::file) return "in the order of the files";
  return order == CurriculumOrder::length ? "short ones first" : "those of common tokens first";
}

void print_mixture(const std::vector<DataSource>& mix) {
  double sum = 0;
  for (const DataSource& source : mix) sum += source.weight;
  for (const DataSource& source : mix)
    print_text(
        stdout,
        fmt::format(
            "{:.1f}% of the sequences are of {}{}\n", 100 * source.weight / sum, source.name,
            source.epochs > 0 ? fmt::format(", until {:g} epochs of it are read", source.epochs) : ""));
}

void print_start(const TrainSettings& settings, StepProgram& program, const BatchLoader& loader,
                 const Ranks* ranks) {
  print_text(
      stdout,
      fmt::format("{}: {}, {}{} of tensor memory, {}\n{} of {} an epoch\n", settings.name,
                  describe_parameters(program), ranks ? counted(ranks->size(), "rank") + ", each with " : "",
                  human_bytes(static_cast<uint64_t>(program.facts().arena_bytes)), program.description(),
                  counted(loader.samples_per_epoch(), "sequence"), settings.data.sequence_len));
  if (const SequenceWarmup& warmup = settings.data.sequence_warmup; warmup.cuts_rows())
    print_text(stdout,
               fmt::format("training sequences grow: {} tokens in the first step, {} from step {} on\n",
                           warmup.start, warmup.sequence_len, warmup.steps + 1));
  if (const Curriculum& curriculum = settings.data.curriculum; curriculum.steps > 0)
    print_text(stdout, fmt::format("curriculum: {} draw from the first {:g}% of these and ever more, {}\n",
                                   counted(curriculum.steps, "step"), 100 * curriculum.start,
                                   describe(curriculum.by)));
  print_mixture(settings.data.mix);
}

}  // namespace

int train_run(TrainSettings settings, const Corpus& corpus,
              const std::function<LaidOutProgram&(const RecordedChoices& recorded)>& make_program,
              Ranks* ranks) {
  TrainOptions& options = settings.train;
  for (const auto& [name, value] : corpus.identity.entries()) options.identity[name] = value;
  if (options.adapters && !options.weights.empty())
    options.identity[kBaseIdentity] = WeightFiles(options.weights).fingerprint();
  options.checkpoint_files.insert(corpus.files.begin(), corpus.files.end());
  options.tokenizer = corpus.tokenizer.get();
  const bool leads = !ranks || ranks->leads();
  RecordedChoices recorded = settings.choices;
  if (leads) recorded.add(check_run(options));
  LaidOutProgram& program = make_program(recorded);
  if (!options.quiet && leads) print_start(settings, program, *corpus.loader, ranks);
  if (ranks) {
    if (!leads) options.terminal = false;
    options.ranks = ranks;
    join_ranks(*ranks, settings, program);
    print_hosts(*ranks, program, options.quiet);
    if (leads && !options.quiet && !program.sums_by().empty())
      print_text(stdout, fmt::format("sums over ranks by {}\n", program.sums_by()));
  }
  return train(program, corpus.loader, options).stopped ? kExitStopped : kExitFine;
}

}  // namespace hydrac::runtime
