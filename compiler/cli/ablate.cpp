#include "cli/ablate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/build_program.h"
#include "cli/input/spec_input.h"
#include "cli/output/checkpoint_files.h"
#include "cli/verb.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "tune/ablation.h"
#include "tune/timed_steps.h"

namespace hydrac::cli {

namespace {

using tune::Variant;
using Json = nlohmann::ordered_json;

constexpr int64_t kAblationSteps = 20, kAblationWarmup = 3;
constexpr int kRounds = 5;  // the times of equal rows lie apart by chance in one of 126 pairs

struct AblationRow {
  Variant variant;
  std::string impossible;  // why it did not run; then there are no figures
  spec::Spec spec;
  std::vector<double> step_ms;  // of each round the median
  double first_step_s = 0, loss = 0;
  int64_t planned_bytes = 0;
  std::optional<int64_t> measured_bytes;
  std::optional<double> joules_per_token;

  double tokens() const {
    return static_cast<double>(spec.train.global_batch_size * spec.train.sequence_len);
  }
  double median_ms() const { return tune::median(step_ms); }
  double tokens_per_second() const { return tokens() / median_ms() * 1e3; }
};

double elapsed_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Trains from the initial weights, on the same batches for every row. The first round takes all steps, and
// its last loss is the row's; later rounds time half as many steps.
void measure_round(AblationRow& row, int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  const BuiltProgram built = build_program(row.spec);
  targets::Executable& program = *built.program;
  program.steps().initialize();
  tune::TimedSteps run(program);
  run.run(1);
  const double first_step_s = elapsed_since(start);
  const int64_t warmup = steps > kAblationWarmup + 1 ? kAblationWarmup : 0;
  if (warmup > 0) run.run(warmup);
  const bool is_first = row.step_ms.empty();
  const int64_t timed = std::max<int64_t>(1, (steps - 1 - warmup) / (is_first ? 1 : 2));
  const auto before = program.energy_joules();
  row.step_ms.push_back(tune::median(run.run(timed)) * 1e3);
  if (!is_first) return;
  const auto after = program.energy_joules();
  // Counters of energy tick tens of milliseconds apart.
  if (before && after && row.step_ms.front() * static_cast<double>(timed) > 500)
    row.joules_per_token = (*after - *before) / static_cast<double>(timed) / row.tokens();
  row.first_step_s = first_step_s;
  row.loss = run.last_result().loss;
  row.planned_bytes = program.steps().facts().arena_bytes;
  row.measured_bytes = program.measured_bytes();
}

AblationRow row_of(const Arguments& arguments, const Variant& variant) {
  AblationRow row{variant};
  Arguments changed = arguments;
  changed.overrides.insert(changed.overrides.end(), variant.overrides.begin(), variant.overrides.end());
  diag::Diagnostics diagnostics;
  const std::optional<spec::Spec> spec = load_over(changed, nullptr, diagnostics);
  for (const diag::Diagnostic& d : diagnostics.all()) {
    if (severity(d.kind) == diag::Severity::error && row.impossible.empty()) row.impossible = d.message;
  }
  if (!spec) return row;
  row.spec = *spec;
  try {
    complete_for_planning(row.spec);
  } catch (const Reported&) {  // optimizations.fit finds nothing for this row
    row.impossible = "no combination of open keys fits the memory";
    return row;
  }
  const PlannedProgram planned = plan_program(row.spec, {.offline = true});
  if (planned.problem) row.impossible = planned.problem->message;
  return row;
}

// In turns, so that a machine that is slower for a while is slower for all rows.
void measure(std::vector<AblationRow>& rows, int64_t steps) {
  for (int round = 0; round < kRounds; ++round) {
    for (AblationRow& row : rows) {
      if (!row.impossible.empty()) continue;
      try {
        measure_round(row, steps);
      } catch (const runtime::InputError& error) {  // a kernel that this machine does not have
        row.impossible = error.what();
      }
    }
  }
}

struct Effect {
  std::string against;  // the name of the row that this one changes by one thing
  tune::Speedup speedup;
};

std::optional<Effect> effect_of(const AblationRow& row, const std::vector<AblationRow>& rows) {
  if (row.variant.kind == Variant::Kind::baseline) return std::nullopt;
  const bool is_of_spec = row.variant.kind == Variant::Kind::without;
  const auto reference = std::ranges::find(rows, is_of_spec ? Variant::Kind::as_is : Variant::Kind::baseline,
                                           [](const AblationRow& other) { return other.variant.kind; });
  if (!reference->impossible.empty()) return std::nullopt;
  return Effect{reference->variant.name, tune::speedup_of(row.step_ms, reference->step_ms)};
}

std::string effect_text(const std::optional<Effect>& effect) {
  if (!effect) return "";
  const auto& [median, least, most, within_spread] = effect->speedup;
  return within_spread ? "within the spread" : fmt::format("{:.2f}x to {:.2f}x", least, most);
}

std::string memory_text(const AblationRow& row) {
  const auto human = [](int64_t bytes) { return runtime::human_bytes(static_cast<uint64_t>(bytes)); };
  return row.measured_bytes ? fmt::format("{} | {}", human(row.planned_bytes), human(*row.measured_bytes))
                            : fmt::format("{} | ", human(row.planned_bytes));
}

// Difference of the loss from the first row's: the same model in plain fp32.
std::string difference(const AblationRow& row, const AblationRow& baseline) {
  return &row == &baseline ? "" : fmt::format("{:+.3f}%", 100 * (row.loss / baseline.loss - 1));
}

void print_markdown(const std::vector<AblationRow>& rows, int64_t steps) {
  fmt::print(
      "| | tokens/s | ms a step | spread, ms | speed, of plain | effect | planned | measured | J a token | "
      "first "
      "step, s | loss after {} steps | against plain fp32 |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
      steps);
  const AblationRow& baseline = rows.front();
  const bool has_baseline = baseline.impossible.empty();
  for (const AblationRow& row : rows) {
    if (!row.impossible.empty()) {
      fmt::print("| {} | not possible: {} | | | | | | | | | | |\n", row.variant.name, row.impossible);
      continue;
    }
    const auto [least, most] = std::ranges::minmax(row.step_ms);
    fmt::print(
        "| {} | {} | {:.2f} | {:.2f} to {:.2f} | {} | {} | {} | {} | {:.2f} | {:.5f} | {} |\n",
        row.variant.name, runtime::human_count(row.tokens_per_second()), row.median_ms(), least, most,
        has_baseline ? fmt::format("{:.2f}x", tune::speedup_of(row.step_ms, baseline.step_ms).median) : "",
        effect_text(effect_of(row, rows)), memory_text(row),
        row.joules_per_token ? fmt::format("{:.2e}", *row.joules_per_token) : "", row.first_step_s, row.loss,
        has_baseline ? difference(row, baseline) : "");
  }
  fmt::print(
      "\nRows were measured in {} turns. The effect is the speed against plain fp32, or against the spec "
      "where a row "
      "lacks something of it, in the least and the most of the turns; within the spread: the times overlap, "
      "as those of "
      "equal programs do.\n",
      kRounds);
}

std::string_view kind_word(Variant::Kind kind) {
  switch (kind) {
    case Variant::Kind::baseline:
      return "baseline";
    case Variant::Kind::as_is:
      return "spec";
    case Variant::Kind::without:
      return "without";
    case Variant::Kind::with:
      return "with";
  }
  return "";
}

Json ablation_json(const std::vector<AblationRow>& rows, const spec::Spec& spec, int64_t steps) {
  Json list = Json::array();
  for (const AblationRow& row : rows) {
    Json one = {{"name", row.variant.name},
                {"kind", kind_word(row.variant.kind)},
                {"overrides", row.variant.overrides}};
    if (!row.impossible.empty()) {
      one["impossible"] = row.impossible;
    } else {
      one["tokens_per_second"] = row.tokens_per_second();
      one["step_ms"] = row.median_ms();
      one["step_ms_rounds"] = row.step_ms;
      if (const std::optional<Effect> effect = effect_of(row, rows)) {
        const auto& [median, least, most, within_spread] = effect->speedup;
        one["effect"] = {{"against", effect->against},
                         {"speed", median},
                         {"least", least},
                         {"most", most},
                         {"within_spread", within_spread}};
      }
      one["planned_bytes"] = row.planned_bytes;
      if (row.measured_bytes) one["measured_bytes"] = *row.measured_bytes;
      if (row.joules_per_token) one["joules_per_token"] = *row.joules_per_token;
      one["first_step_s"] = row.first_step_s;
      one["loss"] = row.loss;
    }
    list.push_back(std::move(one));
  }
  return {{"spec", spec.name}, {"target", spec.target}, {"steps", steps}, {"rows", list}};
}

// Separated by commas, but for those within [].
std::vector<std::string> combinations_of(const Arguments& arguments) {
  std::vector<std::string> list;
  int depth = 0;
  const std::string text = arguments.value("--combine").value_or("");
  if (text.empty()) return list;
  list.emplace_back();
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      list.emplace_back();
    else
      list.back() += c;
  }
  return list;
}

// Chooses, once for all rows, the keys that the spec leaves to planning (optimizations.fit, micro_batch_size:
// auto). Otherwise each row would choose its own, and rows would differ in more than their names say. Returns
// the choices as overrides.
std::vector<std::string> choose_for_all_rows(spec::Spec& spec) {
  const auto open = all_keys(spec);
  std::vector<std::string> overrides;
  if (spec.optimizations.fit != spec::Fit::none) overrides.push_back("optimizations.fit=none");
  complete_for_planning(spec);
  for (const auto& [key, value] : all_keys(spec)) {
    const bool is_planned = key.starts_with("optimizations.") || key.starts_with("train.");
    if (is_planned && (!open.contains(key) || open.at(key) != value)) overrides.push_back(key + "=" + value);
  }
  return overrides;
}

}  // namespace

int ablate(const Arguments& given) {
  Arguments arguments = given;
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) return kBadInput;
  require_one_process(*spec, "bench --ablate");
  note_unsampled_replies(*spec, "bench --ablate");
  note_found_rate(*spec, "bench --ablate");
  require_runnable(*spec);
  run_on_its_cores(*spec);
  const std::vector<std::string> chosen = choose_for_all_rows(*spec);
  arguments.overrides.insert(arguments.overrides.end(), chosen.begin(), chosen.end());
  const auto keys = all_keys(*spec);
  const auto variants = variants_of(tune::optimizations_of(keys), keys, combinations_of(arguments));
  const int64_t steps = arguments.count("--steps", kAblationSteps);
  std::vector<AblationRow> rows;
  for (const Variant& variant : variants) rows.push_back(row_of(arguments, variant));
  measure(rows, steps);
  if (arguments.has("--json"))
    fmt::print("{}\n", ablation_json(rows, *spec, steps).dump());
  else
    print_markdown(rows, steps);
  return kFine;
}

}  // namespace hydrac::cli
