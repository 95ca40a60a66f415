#include "cli/input/spec_input.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cli/input/choose_keys.h"
#include "cli/verb.h"
#include "diag/diagnostic.h"
#include "models/adapter.h"
#include "models/freeze.h"
#include "runtime/app/run_ranks.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/parallel/cores.h"
#include "runtime/parallel/world.h"
#include "spec/checks/divisors.h"
#include "spec/load.h"
#include "spec/reader/overrides.h"
#include "targets/cuda/machine.h"

namespace hydrac::cli {

using runtime::InputError;

namespace {

// The overrides as one line, as load_over() read them: what print_found_late() shows of them.
std::string& command_line() {
  static std::string line;
  return line;
}

}  // namespace

std::optional<spec::Spec> load(const Arguments& arguments) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = load_over(arguments, nullptr, diagnostics);
  print_diagnostics(arguments, diagnostics, spec.has_value());
  return spec;
}

std::optional<spec::Spec> load_of_run(const Arguments& arguments) {
  diag::Diagnostics diagnostics, of_overrides;
  std::optional<spec::Spec> spec = load_over(arguments, nullptr, diagnostics);
  if (!spec) {
    print_diagnostics(arguments, diagnostics, false);
    return spec;
  }
  of_overrides.add_source(diag::kCommandLine, command_line());
  for (const diag::Diagnostic& d : diagnostics.all())
    if (d.where.on_command_line()) of_overrides.report(d.kind, d.where, d.message, d.suggestion);
  print_diagnostics(arguments, of_overrides, true);
  return spec;
}

void print_diagnostics(const Arguments& arguments, const diag::Diagnostics& diagnostics, bool good) {
  const std::string text = diagnostics.render();
  if (!text.empty() && !(good && arguments.has("--quiet"))) runtime::print_error(text);
}

namespace {

// Sizes that attention's kernels take, on every target.
bool head_dim_fits(int64_t head_dim) {
  constexpr int64_t kStep = 8, kMost = 256;
  return head_dim % kStep == 0 && head_dim <= kMost;
}

// The way out: if head_dim follows from the number of heads, the nearest other number.
std::string fitting_heads(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  if (spec.is_set("model.head_dim") || m.attention_kind != spec::AttentionKind::gqa)
    return "write head_dim: 64, 128 or another multiple of 8";
  int64_t best = 0;
  for (const int64_t heads : spec::divisors(m.hidden_size)) {
    if (!head_dim_fits(m.hidden_size / heads)) continue;
    if (best == 0 || std::abs(heads - m.num_attention_heads) < std::abs(best - m.num_attention_heads))
      best = heads;
  }
  return best > 0 ? fmt::format("num_attention_heads: {} would fit; or write head_dim", best)
                  : "write head_dim: 64, or a hidden_size that is a multiple of 64";
}

void check_head_dim(const spec::Spec& spec, diag::Diagnostics& diagnostics) {
  const int64_t head_dim = spec.model.head_dim;
  if (head_dim_fits(head_dim)) return;
  diag::Location place;
  for (const char* key : {"model.head_dim", "model.num_attention_heads", "model.hidden_size"})
    if (!place.known()) place = spec.where(key);
  diagnostics.report(
      diag::Kind::option_unsupported, place,
      fmt::format("head_dim is {}, and attention's kernels take multiples of 8 up to 256", head_dim),
      fitting_heads(spec));
}

}  // namespace

std::optional<spec::Spec> load_over(const Arguments& arguments, const spec::Node* laid_over,
                                    diag::Diagnostics& diagnostics) {
  if (arguments.positional.empty() || arguments.positional[0].empty())
    throw InputError("which spec? Give the path of a YAML file");
  if (arguments.positional.size() > 1) {
    throw InputError(fmt::format("\"{}\" is one argument too many: overrides are written key=value",
                                 arguments.positional[1]));
  }
  std::vector<std::string> overrides = arguments.overrides;
  if (auto threads = arguments.value("--threads")) {
    require_option("--threads", "optimizations.threads", *threads);
    overrides.push_back("optimizations.threads=" + *threads);
  }
  if (arguments.has("--numerics")) overrides.emplace_back("tune.numerics=true");
  std::optional<spec::Spec> spec = spec::load_spec(arguments.positional[0], overrides, diagnostics,
                                                   targets::detected_gpu().value_or("cpu"), laid_over);
  command_line() = diagnostics.source_line({diag::kCommandLine, 1, 1});
  if (spec) models::check_freeze(*spec, diagnostics);
  if (spec) models::check_adapter(*spec, diagnostics);
  if (spec) check_head_dim(*spec, diagnostics);
  return diagnostics.has_errors() ? std::nullopt : std::move(spec);
}

void require_option(const std::string& option, const std::string& key, const std::string& value) {
  const std::string problem = spec::option_problem(key, value, option);
  if (!problem.empty()) throw InputError(problem);
}

runtime::SampleOptions sample_options(const spec::Spec& spec) {
  runtime::SampleOptions options;
  options.temperature = static_cast<decltype(options.temperature)>(spec.sample.temperature);
  options.top_k = static_cast<decltype(options.top_k)>(spec.sample.top_k);
  options.top_p = static_cast<decltype(options.top_p)>(spec.sample.top_p);
  options.min_p = spec.sample.min_p;
  options.repetition_penalty = spec.sample.repetition_penalty;
  options.seed = static_cast<uint64_t>(spec.sample.seed);
  return options;
}

void require_one_process(const spec::Spec& spec, const std::string& verb) {
  if (spec::rank_count(spec) == 1) return;
  diag::Diagnostics diagnostics;
  const auto refuse = [&](const char* key, int64_t ranks) {
    if (ranks > 1)
      diagnostics.report(diag::Kind::option_unsupported, spec.where(key),
                         fmt::format("hydrac {} is about one process, and {} is {}", verb, key, ranks),
                         fmt::format("write {}=1 behind the spec's name", key));
  };
  refuse("parallel.data", spec.parallel.data);
  refuse("parallel.tensor", spec.parallel.tensor);
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void require_no_objective(const spec::Spec& spec, const std::string& verb, const std::string& why) {
  if (!spec::has_objective(spec)) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(
      diag::Kind::objective_unsupported, spec.where("objective.name"),
      fmt::format("hydrac {} {}, and objective.name is {}", verb, why, to_string(spec.objective.name)),
      "write objective.name=none behind the spec's name");
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void note_found_rate(const spec::Spec& spec, const std::string& verb) {
  const spec::LearningRate& rate = spec.train.optimizer.learning_rate;
  if (!rate.automatic) return;
  fmt::print(
      stderr,
      "note: train.optimizer.learning_rate is auto, which a run finds by a range test; hydrac {} takes {}, "
      "{}'s default\n",
      verb, rate.value, to_string(spec.train.optimizer.name));
}

void note_unsampled_replies(const spec::Spec& spec, const std::string& verb) {
  if (!spec::samples_replies(spec)) return;
  runtime::print_error(fmt::format(
      "note: hydrac {} samples no replies: it times the part of a step that trains, in which {} of {} "
      "micro-batches are those of replies\n",
      verb, spec::sampled_micro_batches(spec), spec::micro_batches_of_step(spec)));
}

void print_found_late(diag::Diagnostics& diagnostics) {
  for (const diag::Diagnostic& diagnostic : diagnostics.all()) {
    std::ostringstream source;
    if (diagnostic.where.file == diag::kCommandLine)
      source << command_line();
    else if (std::ifstream file(diagnostic.where.file); file)
      source << file.rdbuf();
    diagnostics.add_source(diagnostic.where.file, source.str());
  }
  runtime::print_error(diagnostics.render());
}

passes::Log complete_for_planning(spec::Spec& spec, int64_t memory_bytes) {
  passes::Log decisions = choose_keys(spec, memory_bytes);
  if (spec::waits_for_data(spec))
    open_corpus(spec, true, memory_bytes);
  else
    complete_sizes(spec);
  return decisions;
}

std::string yaml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else
      quoted += c;
  }
  return quoted + "\"";
}

int thread_count(const spec::Spec& spec) {
  if (spec.optimizations.threads > 0) return static_cast<int>(spec.optimizations.threads);
  const std::vector<int>& cores = spec.train.cpu_affinity.numbers;
  const int count = cores.empty() ? runtime::usable_cores() : static_cast<int>(cores.size());
  return std::max(1, count / runtime::ranks_of_this_host(static_cast<int>(spec::rank_count(spec))));
}

void require_cores(const spec::Spec& spec) {
  const std::string problem = runtime::problem_with_cores(
      runtime::cores_to_check(spec.train.cpu_affinity.numbers, static_cast<int>(spec::rank_count(spec))));
  if (problem.empty()) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(diag::Kind::core_missing, spec.where("train.cpu_affinity"), problem,
                     "name other cores, or write cpu_affinity: none");
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void run_on_its_cores(const spec::Spec& spec) {
  require_cores(spec);
  runtime::use_cores(spec.train.cpu_affinity.numbers);
}

}  // namespace hydrac::cli
