// `hydrac check`: whether a run would begin here, what it needs, and with -v the resolved spec.
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "cli/build_program.h"
#include "cli/generation/generation_plan.h"
#include "cli/generation/reply_encoder.h"
#include "cli/input/locked_spec.h"
#include "cli/input/run_refusals.h"
#include "cli/input/spec_input.h"
#include "cli/input/train_settings.h"
#include "cli/output/program_memory.h"
#include "cli/report/report.h"
#include "cli/report/report_json.h"
#include "cli/verb.h"
#include "driver/prediction.h"
#include "models/adapter.h"
#include "runtime/data/input_files.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "spec/hugging_face/hugging_face.h"
#include "spec/print.h"

namespace hydrac::cli {

namespace {

std::string verdict(const PlannedProgram& planned, const std::string& name) {
  const int64_t needed = planned.compiled.plan.device_bytes();
  const driver::MemoryLimit& limit = planned.limit;
  const char* fits = limit.bytes == 0 ? "may fit" : limit.allows(needed) ? "fits" : "does not fit";
  return fmt::format("{} {}: it needs {}, and {}\n", name, fits, driver::bytes_text(needed), limit.source);
}

// "predicted: 7.87 s a step, 66.6k tokens/s, 1d 19:44:00 for 20000 steps".
std::string prediction_text(const driver::Compiled& c, int64_t tokens_of_step) {
  const double seconds = driver::predicted_seconds(c);
  const char* unit = c.spec.model.input == spec::Input::tokens ? "tokens" : "rows";
  return fmt::format("predicted: {} a step, {} {}/s, {} for {}\n",
                     seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds),
                     runtime::human_count(static_cast<double>(tokens_of_step) / seconds), unit,
                     runtime::human_duration(seconds * static_cast<double>(c.spec.train.max_steps)),
                     runtime::counted(c.spec.train.max_steps, "step"));
}

std::string step_text(const driver::Compiled& c) {
  const auto& t = c.spec.train;
  const int64_t micro_batches = t.gradient_accumulation_steps, ranks = c.spec.parallel.data;
  const int64_t tokens = t.micro_batch_size * micro_batches * ranks * t.sequence_len;
  std::string text = fmt::format("{} of {} {}: {} of {}", runtime::counted(t.max_steps, "step"), tokens,
                                 c.spec.model.input == spec::Input::tokens ? "tokens" : "rows",
                                 runtime::counted(t.micro_batch_size, "sequence"), t.sequence_len);
  if (micro_batches > 1) text += fmt::format(", {} times", micro_batches);
  if (ranks > 1) text += fmt::format(", on each of {} ranks", ranks);
  const targets::Target& target = *targets::find(c.spec.target);
  if (driver::rates_of(target, c.spec.optimizations.precision).are_known)
    return text + "\n" + prediction_text(c, tokens);
  return text + "\n";
}

// Says how rope scaling depends on the sequences' length.
std::string rope_text(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  const int64_t length = spec.train.sequence_len, trained = m.rope_scaling.original_max_position_embeddings;
  if (spec::scales_rope(m, spec::RopeType::longrope))
    return fmt::format("rope has its {}: {} tokens are {} than {}\n",
                       length > trained ? "long_factor" : "short_factor", length,
                       length > trained ? "more" : "not more", trained);
  if (spec::scales_rope(m, spec::RopeType::dynamic))
    return fmt::format("rope's base is {:.6g} for {} tokens\n", spec::rope_base(spec), length);
  return "";
}

// The end of an answer about training.
std::string training_text(const driver::Compiled& c) {
  const spec::Spec& spec = c.spec;
  std::string text = step_text(c);
  if (spec.train.optimizer.learning_rate.automatic)
    text += fmt::format(
        "a run begins with a range test of up to {} steps, which finds train.optimizer.learning_rate\n",
        kRangeSteps);
  text += rope_text(spec);
  if (spec.model.input == spec::Input::tokens)
    text += describe(spec::hugging_face_model(spec), models::has_adapters(spec)) + "\n";
  return text;
}

std::string answer_text(const PlannedProgram& planned, const passes::Log& chosen, bool trains) {
  std::string text = verdict(planned, planned.compiled.spec.name) + memory_summary(planned.compiled, "");
  for (const passes::Decision& decision : chosen)
    text += fmt::format("{}: {}\n", decision.pass, decision.text);
  return trains ? text + training_text(planned.compiled) : text;
}

void print_comment(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) fmt::print("# {}\n", line);
}

std::string data_text(const spec::Spec& spec, const runtime::Corpus& corpus) {
  uint64_t bytes = 0;
  const std::vector<runtime::InputFile> files = runtime::expand_patterns(spec::train_paths(spec), ".");
  for (const runtime::InputFile& file : files) bytes += std::filesystem::file_size(file.path);
  return fmt::format("{} in {}: {}{} an epoch\n", runtime::human_bytes(bytes),
                     runtime::counted(std::ssize(files), "data file"), corpus.is_cut ? "at least " : "",
                     runtime::counted(corpus.loader->samples_per_epoch(), "sequence"));
}

// Refuses the data that a run would refuse; otherwise says how much there is. Data of another machine need
// not be present.
std::string check_data(const spec::Spec& spec, bool runs_here) {
  if (!runs_here && !has_data_files(spec)) return "the data is not here, and was not looked at\n";
  open_reply_encoder(spec);
  return data_text(spec, look_at_corpus(spec));
}

}  // namespace

int check_verb(const Arguments& arguments) {
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  spec::Spec* const spec = &locked->spec;
  const bool runs_here = targets::find(spec->target)->is_cpu() || targets::detected_gpu() == spec->target;
  const bool trains = !arguments.has("--generate");
  if (trains) require_own_command(*spec);
  if (runs_here) trains ? require_places(*spec) : require_cores(*spec);
  leave_training_as_it_is(arguments, *spec);
  const passes::Log chosen = complete_for_planning(*spec, memory_option(arguments));
  BuildOptions options = build_options(arguments);
  options.chosen = chosen;
  spec::Spec program = *spec;  // with --generate, that of another one than the spec's own
  options.generation = generation_option(arguments, program);
  const PlannedProgram planned = plan_program(program, options);
  const bool json = arguments.has("--json"), verbose = arguments.has("--verbose");
  const std::string answer = answer_text(planned, chosen, trains);
  const auto say = [&](const std::string& text) {
    if (!json) verbose ? print_comment(text) : fmt::print("{}", text);
  };
  if (json) fmt::print("{}", check_json(planned.compiled, planned.limit));
  say(answer);
  if (trains && !planned.problem) say(check_data(planned.compiled.spec, runs_here));
  if (verbose && !json) fmt::print("\n{}", spec::to_yaml(*spec));
  require_fit(planned.problem);
  if (trains) require_weights(planned.compiled);
  return kFine;
}

}  // namespace hydrac::cli
