// `hydrac tune`: measures what the spec leaves open, and writes what was best into the lock file.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "cli/input/locked_spec.h"
#include "cli/input/spec_input.h"
#include "cli/output/program_memory.h"
#include "cli/tune_bench.h"
#include "cli/verb.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cuda/monitor.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/log/signal.h"
#include "runtime/log/units.h"
#include "spec/fit_keys.h"
#include "spec/print.h"
#include "tune/machine.h"

namespace hydrac::cli {

namespace {

using runtime::InputError;
using tune::Effort;
using tune::Found;
using tune::Objective;

template <class Value>
Value word_of(const Arguments& arguments, const char* option,
              std::initializer_list<std::pair<const char*, Value>> words, Value fallback) {
  const auto text = arguments.value(option);
  if (!text) return fallback;
  std::string all;
  for (const auto& [word, value] : words) {
    if (*text == word) return value;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", word);
  }
  throw InputError(fmt::format("{}: \"{}\" is none of {}", option, *text, all));
}

tune::SearchOptions search_options(const Arguments& arguments) {
  tune::SearchOptions options;
  options.effort =
      word_of(arguments, "--effort",
              {{"quick", Effort::quick}, {"normal", Effort::normal}, {"max", Effort::max}}, Effort::normal);
  options.objective =
      word_of(arguments, "--objective",
              {{"time", Objective::time}, {"memory", Objective::memory}, {"energy", Objective::energy}},
              Objective::time);
  options.seconds = options.effort == Effort::quick ? 30 : options.effort == Effort::normal ? 120 : 600;
  if (const auto minutes = arguments.value("--minutes")) {
    char* end = nullptr;
    const double value = std::strtod(minutes->c_str(), &end);
    if (*end != '\0' || minutes->empty() || !(value > 0 && value <= 24 * 60))
      throw InputError(fmt::format("--minutes: \"{}\" is no number of minutes", *minutes));
    options.seconds = 60 * value;
  }
  return options;
}

// Refused before anything is measured.
void require_energy(const spec::Spec& spec) {
  if (!targets::find(spec.target)->is_cpu()) {
    const runtime::cuda::GpuMonitor monitor(runtime::cuda::devices().front().pci_bus_id);
    if (monitor.energy_joules()) return;
    throw InputError(fmt::format(
        "--objective energy: {}",
        monitor.note().empty() ? "this GPU does not count the energy that it uses" : monitor.note()));
  }
  throw InputError(
      "--objective energy: hydrac counts the energy of GPUs, through NVML, and not that of a cpu");
}

std::vector<std::string> installed_blas() {
  std::vector<std::string> words;
  for (const char* word : {"onednn", "openblas"}) {
    try {
      runtime::BlasOptions options;
      options.preference = word;
      runtime::Blas::open(options);
      words.push_back(word);
    } catch (const InputError&) {  // not installed
    }
  }
  return words;
}

// Finds out now, not after minutes, if it can be written: by the file that is going to become it.
void require_writable(const std::string& path) {
  const std::string temporary = runtime::temporary_of(path).string();
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    throw InputError(fmt::format("the lock file {} cannot be written ({}): give another with -o", path,
                                 std::strerror(errno)));
  ::close(file);
  ::unlink(temporary.c_str());
}

// The lock file as it is, to be added to.
tune::LockFile existing_lock(const std::string& path) {
  require_writable(path);
  if (!std::filesystem::exists(path)) return {};
  diag::Diagnostics diagnostics;
  std::optional<tune::LockFile> lock = tune::read_lock(path, diagnostics);
  if (!lock) {
    runtime::print_error(diagnostics.render());
    throw Reported{kBadInput};
  }
  return std::move(*lock);
}

// Figures that are made small, of the best program and of the defaults.
struct Figures {
  std::string best, defaults;
  const char* compared;  // how the share of the two was found
};

Figures figures_of(const Found& found, Objective objective, double tokens) {
  const auto human = [](double bytes) { return runtime::human_bytes(static_cast<uint64_t>(bytes)); };
  switch (objective) {
    case Objective::memory: {
      const auto bytes = static_cast<double>(found.planned.bytes);
      return {human(bytes) + " planned", human(bytes / found.gain), "compared by plan"};
    }
    case Objective::energy:
      return {fmt::format("{:.3g} J a token", found.round.joules / tokens),
              fmt::format("{:.3g}", found.defaults.joules / tokens), "compared in turns"};
    case Objective::time:
      break;
  }
  return {fmt::format("{:.2f} ms a step", found.round.seconds * 1e3),
          fmt::format("{:.2f}", found.defaults.seconds * 1e3), "compared in turns"};
}

// A comparison's result: "recompute [act]: 0.981x the time (+-0.002), taken".
std::string words_of(const tune::Comparison& comparison, Objective objective) {
  const char* const what = objective == Objective::time     ? "time"
                           : objective == Objective::memory ? "memory"
                                                            : "energy";
  const std::string noise = comparison.noise > 0 ? fmt::format(" (+-{:.3f})", comparison.noise) : "";
  return fmt::format("{}: {:.3f}x the {}{}{}", comparison.candidate.text(), comparison.ratio, what, noise,
                     comparison.taken ? ", taken" : "");
}

// A line for each comparison; on a terminal one more below them, which updates itself.
class Progress {
 public:
  Progress(const tune::SearchOptions& options, double tokens, bool quiet, double now)
      : options_(options), tokens_(tokens), quiet_(quiet), began_(now) {}
  ~Progress() { end_line(); }

  void show(const Found& found, double now) {
    if (quiet_) return;
    const std::string time = fmt::format("tune {} of {}", runtime::human_duration(now - began_),
                                         runtime::human_duration(options_.seconds));
    const std::string best = fmt::format(
        "{}: {} tried, best {} ({:+.1f}%): {}", time, found.comparisons.size(),
        figures_of(found, options_.objective, tokens_).best, 100 * (found.gain - 1), found.best.text());
    if (terminal_) fmt::print("\r\033[K");
    if (!found.comparisons.empty())
      fmt::print("{}: {}\n", time, words_of(found.comparisons.back(), options_.objective));
    else if (!terminal_)
      fmt::print("{}\n", best);
    if (terminal_) fmt::print("{}", best);
    std::fflush(stdout);
    open_ = terminal_;
  }
  void end_line() {
    if (open_) fmt::print("\n");
    open_ = false;
  }

 private:
  const tune::SearchOptions options_;
  const double tokens_;  // of a step
  const bool quiet_;
  const double began_;
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  bool open_ = false;
};

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

double tokens_of(const spec::Spec& spec) {
  return static_cast<double>(spec.train.global_batch_size * spec.train.sequence_len);
}

tune::Facts measured(const spec::Spec& spec, const Found& found, targets::Executable& program) {
  tune::Facts facts = {{"step_ms", number(found.round.seconds * 1e3)},
                       {"spread_percent", number(100 * found.spread)},
                       {"defaults_step_ms", number(found.defaults.seconds * 1e3)},
                       {"tokens_per_second", fmt::format("{:.0f}", tokens_of(spec) / found.round.seconds)},
                       {"planned_bytes", std::to_string(program.steps().facts().arena_bytes)}};
  if (const auto bytes = program.measured_bytes())
    facts.emplace_back("measured_bytes", std::to_string(*bytes));
  if (found.round.joules > 0)
    facts.emplace_back("joules_per_token", number(found.round.joules / tokens_of(spec)));
  return facts;
}

// Defaults that the program takes are written down too: that results repeat does not depend on them.
tune::Candidate completed(tune::Candidate candidate, const spec::Spec& base, const spec::OpenKeys& open) {
  const auto& o = base.optimizations;
  const auto take = [&](bool is_open, const char* key, const std::string& value) {
    if (is_open) candidate.values.try_emplace(key, value);
  };
  take(open.micro_batch_size, "train.micro_batch_size", std::to_string(base.train.micro_batch_size.value));
  take(open.recompute, "optimizations.recompute", to_string(driver::recompute_choice(base)));
  const auto recompute = candidate.values.find("optimizations.recompute");
  take(open.recompute_layers && (recompute == candidate.values.end() || recompute->second != "none"),
       "optimizations.recompute_layers", std::to_string(o.recompute_layers));
  take(open.loss, "optimizations.loss", std::string(to_string(o.loss)));
  take(open.offload, "optimizations.offload.optimizer_state", to_string(o.offload.optimizer_state));
  if (targets::find(base.target)->is_cpu() && base.optimizations.threads == 0)
    candidate.values.try_emplace("optimizations.threads", std::to_string(thread_count(base)));
  return candidate;
}

tune::LockSection section(const Arguments& arguments, const tune::Machine& machine, const Found& found,
                          const tune::Candidate& best, targets::Executable& program) {
  diag::Diagnostics ignored;
  tune::LockSection section;
  section.machine = machine.identity;
  section.software = machine.software;
  section.measured = measured(program.compiled().spec, found, program);
  section.keys = best.keys();
  section.choices = program.steps().choices();
  section.spec = tuned_keys(*load_over(arguments, nullptr, ignored));
  return section;
}

void print_summary(const Found& found, const tune::SearchOptions& options, double tokens,
                   const std::string& path) {
  const Figures figures = figures_of(found, options.objective, tokens);
  fmt::print("{}: {}; the defaults, at the start: {}; {}: {:+.1f}%\n", found.best.text(), figures.best,
             figures.defaults, figures.compared, 100 * (found.gain - 1));
  fmt::print("{} {}, {} passed over as far slower, {} as programs that were measured{}\n",
             runtime::counted(std::ssize(found.comparisons), "candidate"),
             options.objective == Objective::memory ? "planned" : "measured", found.passed_over, found.same,
             found.complete ? ""
                            : fmt::format("; the time ({}) was over before all were tried",
                                          runtime::human_duration(options.seconds)));
  const auto slowest = std::ranges::max_element(found.comparisons, {}, &tune::Comparison::seconds);
  if (slowest != found.comparisons.end() && slowest->seconds > 0)
    fmt::print("the slowest of them, {}: {:.2f} ms\n", slowest->candidate.text(), slowest->seconds * 1e3);
  const bool noisy = found.spread > tune::kTooNoisy || found.undecided > 0;
  if (noisy && options.objective != Objective::memory)
    fmt::print(
        "this machine is noisy: rounds of the same program differ by {:.1f}%; {} neither faster nor slower "
        "by "
        "more than the noise, and not taken\n",
        100 * found.spread,
        runtime::counted(found.undecided, "candidate") + (found.undecided == 1 ? " was" : " were"));
  fmt::print("written: {}\n", path);
}

// Candidates that round in another way, each beside the best program: never part of the lock file.
void report_numerics(SpecWorkbench& bench, const tune::Candidate& best, const spec::Spec& base) {
  constexpr int64_t kSteps = 20;
  const std::vector<tune::Candidate> variants = tune::numerics_of(base);
  if (variants.empty()) {
    fmt::print("numerics: nothing to try, {} computes in fp32 alone\n", base.target);
    return;
  }
  struct Row {
    double seconds, loss;
    int64_t bytes;
  };
  const auto measure = [&](const tune::Candidate& candidate) {
    const std::unique_ptr<SpecRunner> runner = bench.runner(candidate);
    const double loss = runner->loss_after(kSteps);
    return Row{runner->run(kSteps).seconds, loss, runner->program().steps().facts().arena_bytes};
  };
  const Row as_is = measure(best);
  fmt::print(
      "\nWhat rounds in another way, not in the lock file: write it into the spec to have it.\n"
      "{:<36} {:>10} {:>10} {:>22}\n",
      "", "time", "memory", fmt::format("loss after {} steps", kSteps));
  fmt::print("{:<36} {:>8.2f} ms {:>10} {:>22.5f}\n", "as the spec says", as_is.seconds * 1e3,
             runtime::human_bytes(static_cast<uint64_t>(as_is.bytes)), as_is.loss);
  for (const tune::Candidate& variant : variants) {
    if (bench.stopped()) return;
    tune::Candidate both = best;
    both.values.insert(variant.values.begin(), variant.values.end());
    if (!bench.plan(both)) continue;
    const Row row = measure(both);
    fmt::print("{:<36} {:>9.3f}x {:>9.3f}x {:>13.5f} {:>+7.2f}%\n", variant.text(),
               row.seconds / as_is.seconds, double(row.bytes) / double(as_is.bytes), row.loss,
               100 * (row.loss / as_is.loss - 1));
  }
}

}  // namespace

int tune_verb(const Arguments& arguments) {
  const tune::SearchOptions options = search_options(arguments);
  std::optional<spec::Spec> base = load(arguments);
  if (!base) return kBadInput;
  require_one_process(*base, "tune");
  note_unsampled_replies(*base, "tune");
  note_found_rate(*base, "tune");
  require_runnable(*base);
  run_on_its_cores(*base);
  if (options.objective == Objective::energy) require_energy(*base);
  const std::string path = arguments.value("--output").value_or(lock_path_of(arguments));
  tune::LockFile lock = existing_lock(path);
  if (const std::string others = tune::used_by_others(*base); !others.empty())
    runtime::print_error(fmt::format(
        "note: other processes use this GPU, {}: differences that drown in what they do to the time of a "
        "step are not taken\n",
        others));
  const spec::OpenKeys open = open_keys(*base);
  complete_for_planning(*base, memory_option(arguments));
  const tune::Machine machine = tune::this_machine(*base);
  runtime::install_stop_handlers();

  // Counters of energy tick too seldom for parts of a step.
  SpecWorkbench bench(arguments, *base, options.objective != Objective::energy);
  if (!bench.plan({})) return build_program(*base, build_options(arguments)), kBadInput;  // it says why
  const bool cpu = targets::find(base->target)->is_cpu();
  const tune::Equipment equipment{thread_count(*base), cpu ? installed_blas() : std::vector<std::string>{}};
  const double tokens = tokens_of(*base);
  Progress progress(options, tokens, arguments.has("--quiet"), bench.now());
  const Found found =
      search(bench, knobs_of(*base, open.micro_batch_size, equipment, options.effort, bench.parts()), options,
             tune::CostModel(*targets::find(base->target), base->optimizations.precision),
             [&](const Found& so_far) { progress.show(so_far, bench.now()); });
  progress.end_line();
  if (found.round.seconds == 0) {
    runtime::print_error(fmt::format("stopped before anything was measured; {} stays as it was\n", path));
    return runtime::kExitStopped;
  }
  const tune::Candidate best = completed(found.best, *base, open);
  {
    const std::unique_ptr<SpecRunner> runner = bench.runner(best);
    put(lock, section(arguments, machine, found, best, runner->program()));
  }
  runtime::replace_file(path,
                        to_yaml(lock, std::filesystem::path(arguments.positional[0]).filename().string()));
  if (!arguments.has("--quiet")) print_summary(found, options, tokens, path);
  if (!bench.stopped() && base->tune.numerics) report_numerics(bench, best, *base);
  return bench.stopped() ? runtime::kExitStopped : kFine;
}

}  // namespace hydrac::cli
