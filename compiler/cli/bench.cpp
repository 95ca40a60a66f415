// `hydrac bench`: how long a training step takes, where the time goes, and how it compares.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cli/ablate.h"
#include "cli/build_program.h"
#include "cli/generation/bench_generate.h"
#include "cli/generation/generation_plan.h"
#include "cli/generation/objective_steps.h"
#include "cli/input/locked_spec.h"
#include "cli/input/spec_input.h"
#include "cli/output/kernel_rows.h"
#include "cli/verb.h"
#include "driver/floor.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "tune/timed_steps.h"
#include "verify/job.h"
#include "verify/oracle.h"

namespace hydrac::cli {

namespace {

using tune::median;
using Json = nlohmann::ordered_json;

constexpr int64_t kWarmupSteps = 3;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// As many steps as fit 1.5 s, between 20 and 300: a GPU's clock needs time to settle, and tens of short steps
// end before that. bench/peers measures its programs by the same rule.
int64_t steps_worth_timing(double seconds_a_step) {
  return std::clamp<int64_t>(static_cast<int64_t>(1.5 / seconds_a_step), 20, 300);
}

// Parts of a step with an objective.
Json objective_json(const ObjectiveSteps& run) {
  const ObjectiveParts& parts = run.parts();
  const runtime::GenerateCounts& sampled = run.sampled();
  return {
      {"reply_tokens", sampled.new_tokens},
      {"prompt_tokens", sampled.prompt_tokens},
      {"sampled_tokens_per_second", static_cast<double>(sampled.new_tokens) / (parts.prefill + parts.decode)},
      {"prefill_ms", 1e3 * parts.prefill},
      {"decode_ms", 1e3 * parts.decode},
      {"decode_steps", sampled.decode_steps},
      {"scoring_ms", 1e3 * parts.scoring},
      {"training_ms", 1e3 * parts.training}};
}

// `asked`: how many steps are timed; no value: as many as are worth it.
Json measure(const BuiltProgram& built, std::optional<int64_t> asked) {
  targets::Executable& program = *built.program;
  const driver::Compiled& c = program.compiled();
  std::vector<StartPhase> start = built.phases;
  start.push_back({"weights", seconds_of([&] { program.steps().initialize(); })});
  std::optional<ObjectiveSteps> sampling;
  std::optional<tune::TimedSteps> training;
  if (spec::samples_replies(c.spec))
    sampling.emplace(program);
  else
    training.emplace(program);
  const auto run = [&](int64_t count) { return sampling ? sampling->run(count) : training->run(count); };
  start.push_back({"step", seconds_of([&] { run(1); })});
  const int64_t steps = asked.value_or(steps_worth_timing(median(run(kWarmupSteps))));
  const std::optional<double> energy_before = program.energy_joules();
  const std::vector<double> seconds = run(steps);
  const std::optional<double> energy_after = program.energy_joules();
  const double typical = median(seconds);
  const spec::Train& t = c.spec.train;
  const auto micro_batch = static_cast<double>(t.micro_batch_size * t.sequence_len);
  const double tokens = micro_batch * static_cast<double>(t.gradient_accumulation_steps);
  const double trained = micro_batch * static_cast<double>(spec::micro_batches_of_step(c.spec));
  const double flops =
      program.steps().facts().flop_per_target * trained / (sampling ? sampling->parts().training : typical);
  Json result = {{"spec", c.spec.name},
                 {"target", c.spec.target},
                 {"steps", steps},
                 {"step_ms", typical * 1e3},
                 {"step_ms_min", *std::ranges::min_element(seconds) * 1e3},
                 {"tokens_per_second", tokens / typical},
                 {"gflops", flops / 1e9}};
  if (const double peak = program.peak_flops(); peak > 0) {
    result["peak_gflops"] = peak / 1e9;
    result["mfu"] = flops / peak;
    const driver::Peaks peaks =
        driver::peaks_of(*targets::find(c.spec.target), c.spec.optimizations.precision);
    if (peaks.bytes_per_second > 0) result["peak_gbs"] = peaks.bytes_per_second / 1e9;
  }
  // Counters of energy tick tens of milliseconds apart.
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (energy_before && energy_after && all > 0.5) {
    result["joules_a_step"] = (*energy_after - *energy_before) / static_cast<double>(steps);
    result["watts"] = (*energy_after - *energy_before) / all;
    if (const auto limit = program.power_limit_watts()) result["watts_allowed"] = *limit;
  }
  Json phases;
  double first = 0;
  for (const StartPhase& phase : start) {
    phases[phase.what] = phase.seconds;
    first += phase.seconds;
  }
  result["first_step_s"] = first;
  result["start_s"] = phases;
  result["planned_bytes"] = program.steps().facts().arena_bytes;
  if (const auto bytes = program.measured_bytes()) result["measured_bytes"] = *bytes;
  result["loss"] = (sampling ? sampling->last_result() : training->last_result()).loss;
  if (sampling) result["objective"] = objective_json(*sampling);
  return result;
}

Json measure_peer(const Arguments& arguments, const spec::Spec& spec, int threads, int64_t steps) {
  if (arguments.value("--peer") != "libtorch") throw runtime::InputError("--peer: only libtorch is known");
  const verify::JobFolder folder(std::nullopt);
  verify::write_bench_job(folder.path(), spec, threads, steps);
  return Json::parse(
      verify::run_oracle(verify::find_oracle(arguments.value("--oracle")), "bench", folder.path()));
}

// Printed after the line of the step's time.
void print_objective(const Json& o) {
  const auto ms = [&](const char* part) { return o[part].get<double>(); };
  fmt::print("\nof it, sampling {:.3f} ms (prefill {:.3f}, {} steps of decode {:.3f}): ",
             ms("prefill_ms") + ms("decode_ms"), ms("prefill_ms"), o["decode_steps"].get<int64_t>(),
             ms("decode_ms"));
  fmt::print("{} tokens of replies behind {} of prompts, {} tokens/s\n", o["reply_tokens"].get<int64_t>(),
             o["prompt_tokens"].get<int64_t>(),
             runtime::human_count(o["sampled_tokens_per_second"].get<double>()));
  fmt::print("scoring {:.3f} ms; training {:.3f} ms, replies included, whose GFLOP/s these are",
             ms("scoring_ms"), ms("training_ms"));
}

void print_result(const Json& r, const runtime::StepProgram& program) {
  fmt::print("{}: {:.3f} ms a step (least {:.3f}), {} tokens/s, {:.0f} GFLOP/s", r["spec"].get<std::string>(),
             r["step_ms"].get<double>(), r["step_ms_min"].get<double>(),
             runtime::human_count(r["tokens_per_second"].get<double>()), r["gflops"].get<double>());
  if (r.contains("mfu")) {
    fmt::print(
        " = {:.1f}% of the peak of {:.0f} (6 flop a token and weight, and attention's over the keys that are "
        "seen)",
        100 * r["mfu"].get<double>(), r["peak_gflops"].get<double>());
  }
  if (r.contains("objective")) print_objective(r["objective"]);
  if (r.contains("watts_allowed")) {
    const double watts = r["watts"].get<double>(), allowed = r["watts_allowed"].get<double>();
    fmt::print("\n{:.2f} J a step, {:.0f} W of the {:.0f} that are allowed{}",
               r["joules_a_step"].get<double>(), watts, allowed,
               watts > 0.95 * allowed ? ": the GPU lowers its clock to stay there" : "");
  }
  fmt::print("\n{} of tensor memory planned", runtime::human_bytes(r["planned_bytes"].get<uint64_t>()));
  if (r.contains("measured_bytes"))
    fmt::print(", {} measured", runtime::human_bytes(r["measured_bytes"].get<uint64_t>()));
  std::vector<std::string> phases;
  for (const auto& [what, seconds] : r["start_s"].items())
    phases.push_back(fmt::format("{} {:.2f}", what, seconds.get<double>()));
  fmt::print("\nfirst step after {:.2f} s: {}\n{}\n", r["first_step_s"].get<double>(),
             fmt::join(phases, ", "), program.description());
}

}  // namespace

int bench_verb(const Arguments& arguments) {
  if (arguments.has("--combine") && !arguments.has("--ablate"))
    throw runtime::InputError("--combine is for --ablate");
  if (arguments.has("--ablate")) return ablate(arguments);
  std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::this_machine);
  if (!locked) return kBadInput;
  spec::Spec* const spec = &locked->spec;
  require_one_process(*spec, "bench");
  note_found_rate(*spec, "bench");
  run_on_its_cores(*spec);
  leave_training_as_it_is(arguments, *spec);
  complete_for_planning(*spec);
  if (const auto generation = generation_option(arguments, *spec))
    return bench_generate(arguments, *spec, *generation);
  if (arguments.has("--peer"))
    require_no_objective(*spec, "bench --peer",
                         "compares steps with LibTorch's, which learn next tokens alone");
  std::optional<int64_t> steps;
  if (arguments.has("--steps")) steps = arguments.count("--steps", 1);
  Json result;
  {
    const BuiltProgram built = build_program(*spec, {.recorded = locked->choices});
    compare_with_lock(arguments, *locked, built.program->steps().choices());
    result = measure(built, steps);
    const driver::Peaks peaks = driver::peaks_of(*targets::find(spec->target), spec->optimizations.precision);
    const std::vector<KernelRow> rows = kernel_rows(
        *built.program, {{"micro_step", spec::micro_batches_of_step(*spec)}, {"update", 1}}, peaks);
    if (arguments.has("--json")) {
      result["kernels"] = rows_json(rows);
    } else {
      print_result(result, built.program->steps());
      print_rows(rows);
    }
  }
  if (arguments.has("--peer")) {
    const Json peer = measure_peer(arguments, *spec, thread_count(*spec), result["steps"].get<int64_t>());
    result["peer"] = peer;
    result["ratio"] = peer["ms_per_step_median"].get<double>() / result["step_ms"].get<double>();
    if (!arguments.has("--json")) {
      fmt::print("\nLibTorch {}: {:.2f} ms a step; hydrac is {:.2f}x as fast\n",
                 peer["torch"].get<std::string>(), peer["ms_per_step_median"].get<double>(),
                 result["ratio"].get<double>());
    }
  }
  if (arguments.has("--json")) fmt::print("{}\n", result.dump());
  return kFine;
}

}  // namespace hydrac::cli
