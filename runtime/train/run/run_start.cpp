#include "runtime/train/run/run_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/parallel/ranks.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_files.h"
#include "runtime/train/run/run_folder.h"

namespace hydrac::runtime {

namespace {

bool continues_run(const TrainOptions& options) {
  if (options.resume == Resume::if_possible) return holds_run(options.run_dir);
  return options.resume == Resume::required;
}

std::optional<Checkpoint> open_folder(StepProgram& program, const TrainOptions& options, Console& console,
                                      RunOutput& output) {
  const Note note = [&](std::string_view line) { console.message(line); };
  const bool resume = continues_run(options);
  if (resume) {
    RunFolder folder = RunFolder::open(options.run_dir);
    for (const std::string& line : clean_leftovers(options.run_dir)) note(line);
    if (std::optional<Checkpoint> checkpoint = checkpoint_to_resume(options.run_dir, note)) {
      output.hold(std::move(folder));
      return checkpoint;
    }
    note(fmt::format("the run in {} had saved nothing yet: beginning at step 0", options.run_dir.string()));
  }
  // An earlier run stays where it is when the new one cannot begin.
  if (!options.weights.empty()) WeightFiles(options.weights).check(program);
  if (!options.adapter_weights.empty()) check_adapter(program.tensors().parameters, options.adapter_weights);
  const char* hint = resume ? "" : "; --resume would have continued it";
  output.hold(RunFolder::create(options.run_dir,
                                [&](std::string_view line) { note(fmt::format("{}{}", line, hint)); }));
  return std::nullopt;
}

// In the run's folder, which another host may not have yet.
void open_rank_log(const TrainOptions& options, Console& console) {
  const Ranks& ranks = *options.ranks;
  std::error_code failed;  // open() says what is wrong
  std::filesystem::create_directories(options.run_dir, failed);
  const std::filesystem::path file = rank_log_path(options.run_dir, ranks.rank());
  const int log = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (log < 0) throw_run_error("open", file, errno);
  std::fflush(stdout);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
  console.message(fmt::format("rank {} of {}, process {}", ranks.rank(), ranks.size(), ::getpid()));
}

// A rank's view of a checkpoint, to be compared: its manifest has the sums of all other files.
std::string seen_of(const Checkpoint& checkpoint) {
  std::string manifest;
  const RegularFile file(checkpoint.dir / manifest_name);
  if (file.problem().empty()) file.read_all(manifest);
  return manifest;
}

// Every rank reads the checkpoint that rank 0 goes on from, and a host may have another folder.
void require_same_checkpoint(Ranks& ranks, const Checkpoint& checkpoint) {
  const std::vector<std::string> all = ranks.gather(seen_of(checkpoint));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    ranks.refuse_together(fmt::format(
        "{} {}, from which {} goes on: the run's folder must be one that all hosts share, or the checkpoint "
        "be copied to each",
        ranks.name(static_cast<int>(rank)),
        all[rank].empty() ? fmt::format("has no {}", checkpoint.dir.string())
                          : fmt::format("has another {}", checkpoint.dir.string()),
        ranks.name(0)));
  }
}

}  // namespace

std::optional<Checkpoint> agree_on_start(StepProgram& program, const TrainOptions& options, Console& console,
                                         RunOutput& output) {
  if (!options.ranks) return open_folder(program, options, console, output);
  std::optional<Checkpoint> own;
  if (options.ranks->leads()) own = open_folder(program, options, console, output);
  const std::string found =
      options.ranks->share(own ? fmt::format("{} {}", own->step, own->dir.string()) : "");
  if (!options.ranks->leads()) open_rank_log(options, console);
  if (found.empty()) return std::nullopt;
  const size_t space = found.find(' ');
  const Checkpoint checkpoint{found.substr(space + 1), std::stoll(found.substr(0, space))};
  require_same_checkpoint(*options.ranks, checkpoint);
  return checkpoint;
}

void compare_choices(const Checkpoint& checkpoint, const StepProgram& program, bool exact) {
  const std::optional<RecordedChoices> recorded = read_choices(checkpoint.dir);
  std::string problem;
  if (!recorded) {
    problem = fmt::format(
        "{} does not record which libraries and algorithms it was computed with; if they are "
        "others now, results differ in their last bits",
        checkpoint.dir.string());
  } else if (const auto lines = differences(*recorded, program.choices()); !lines.empty()) {
    problem =
        fmt::format("results will differ in their last bits from those that {} would have led to:\n  {}",
                    checkpoint.dir.string(), fmt::join(lines, "\n  "));
  }
  if (problem.empty()) return;
  if (exact)
    throw InputError(problem +
                     "\nrun it where they are the same, or without --exact to continue all the same");
  print_error(fmt::format("warning: {}\n", safe_message(problem)));
}

RecordedChoices check_run(const TrainOptions& options) {
  if (!continues_run(options)) {
    check_new_run(options.run_dir);
    if (!options.weights.empty()) WeightFiles{options.weights};  // throws where they are damaged
    if (!options.adapter_weights.empty()) SafetensorsReader{adapter_path(options.adapter_weights)};
    return {};
  }
  const RunFolder folder = RunFolder::open(options.run_dir);
  auto checkpoint = find_unfinished(options.run_dir);  // train() will finish it and continue from it
  if (!checkpoint) checkpoint = checkpoint_to_resume(options.run_dir, [](std::string_view) {});
  if (!checkpoint) return {};
  read_position(checkpoint->dir, options.identity);
  return read_choices(checkpoint->dir).value_or(RecordedChoices());
}

}  // namespace hydrac::runtime
