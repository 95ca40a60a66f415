#include "runtime/app/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

#include "runtime/app/exit_code.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"
#include "runtime/parallel/ranks.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run_checkpoint.h"

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
  const int64_t own = count_parameters(program.parameters()),
                base = count_parameters(program.base_parameters());
  if (base == 0) return fmt::format("{} parameters", human_count(static_cast<double>(own)));
  return fmt::format("adapters with {} parameters beside {} that stay as they are",
                     human_count(static_cast<double>(own)), human_count(static_cast<double>(base)));
}

void print_start(const TrainSettings& settings, StepProgram& program, const BatchLoader& loader,
                 const Ranks* ranks) {
  print_text(stdout,
             fmt::format("{}: {}, {}{} of tensor memory, {}\n{} sequences of {} an epoch\n", settings.name,
                         describe_parameters(program),
                         ranks ? fmt::format("{} ranks, each with ", ranks->size()) : "",
                         human_bytes(static_cast<uint64_t>(program.arena_bytes())), program.description(),
                         loader.samples_per_epoch(), settings.data.sequence_len));
}

// What decides results, and what the bits of rank 0's program depend on.
std::string agreement_of(const TrainSettings& settings, StepProgram& program) {
  std::string text = settings.version + "\n";
  for (const auto& [name, value] : settings.train.identity) text += fmt::format("{} = {}\n", name, value);
  const RecordedChoices made = program.choices();
  for (const auto& [section, choices] : made.sections())
    for (const auto& [key, value] : choices) text += fmt::format("{} {} = {}\n", section, key, value);
  return text;
}

// The first line of `other` that is not in `own`, or that `own` has alone.
std::string first_difference(const std::string& own, const std::string& other) {
  const auto lines = [](const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  };
  const std::vector<std::string> a = lines(own), b = lines(other);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string ours = i < a.size() ? a[i] : "nothing", theirs = i < b.size() ? b[i] : "nothing";
    if (ours != theirs) return fmt::format("{}, where rank 0 has {}", theirs, ours);
  }
  return "";
}

void require_agreement(Ranks& ranks, const std::string& own) {
  const std::vector<std::string> all = ranks.gather(own);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::string difference = first_difference(all[0], all[rank]);
    if (!difference.empty())
      throw InputError(fmt::format("the ranks must train alike: rank {} has {}", rank, difference));
  }
}

}  // namespace

int train_run(TrainSettings settings, const Corpus& corpus,
              const std::function<LaidOutProgram&(const RecordedChoices& recorded)>& make_program,
              Ranks* ranks) {
  TrainOptions& options = settings.train;
  options.identity["data"] = corpus.fingerprint;
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
    program.join(*ranks);
    options.ranks = ranks;
    if (leads) {
      ranks->assemble();
      ranks->share(program.choices().to_json());
    } else {
      options.terminal = false;
    }
    require_agreement(*ranks, agreement_of(settings, program));
  }
  return train(program, corpus.loader, options).stopped ? kExitStopped : kExitFine;
}

}  // namespace hydrac::runtime
