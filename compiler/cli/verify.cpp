// `hydrac verify`: the comparison with LibTorch in float64, as a table; on a GPU also the settings that must
// not change a bit.
#include "verify/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/build_program.h"
#include "cli/input/choose_keys.h"
#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "spec/batch.h"
#include "spec/fit_keys.h"
#include "spec/print.h"
#include "targets/cpu/executor.h"
#include "verify/oracle.h"
#include "verify/repeat.h"
#include "verify/small.h"

namespace hydrac::cli {

namespace {

constexpr uint64_t kBatchSeed = 20240229;

// Choices of optimizations.fit for the whole model: a small one would fit without.
std::vector<std::string> chosen_overrides(spec::Spec& whole) {
  if (!waits_for_fit(whole)) return {};
  const spec::OpenKeys open = open_keys(whole);
  choose_keys(whole, 0);
  const auto& o = whole.optimizations;
  std::vector<std::string> overrides = {"optimizations.fit=none"};
  const auto write = [&](bool is_open, const char* key, std::string_view value) {
    if (is_open) overrides.push_back(fmt::format("optimizations.{}={}", key, value));
  };
  write(open.recompute, "recompute", to_string(driver::recompute_choice(whole)));
  write(open.recompute_layers, "recompute_layers", std::to_string(o.recompute_layers));
  write(open.loss, "loss", to_string(o.loss));
  write(open.offload, "offload.optimizer_state", to_string(o.offload.optimizer_state));
  write(open.optimizer_state, "optimizer_state", to_string(o.optimizer_state));
  return overrides;
}

// With --small the spec is loaded twice: what shrinks it depends on it. The user's own overrides win.
std::optional<spec::Spec> load_for_verify(Arguments arguments) {
  if (!arguments.has("--small")) return load(arguments);
  std::optional<spec::Spec> whole = load(arguments);
  if (!whole) return whole;
  std::vector<std::string> overrides = chosen_overrides(*whole);
  const std::vector<std::string> smaller = verify::small_overrides(*whole);
  overrides.insert(overrides.end(), smaller.begin(), smaller.end());
  fmt::print("small: {}\n", overrides.empty() ? "as it is" : fmt::format("{}", fmt::join(overrides, " ")));
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  arguments.overrides = std::move(overrides);
  arguments.options["--quiet"] = "";  // no warnings about sizes that nobody asked for
  return load(arguments);
}

// The results of trainings, and the job for the oracle. The programs' memory is freed before the oracle runs,
// because on a GPU it needs memory too.
struct Computed {
  verify::Training training;
  std::vector<verify::Sameness> repetitions;
  std::string tried;  // on the cpu: kernels beside the interpreter
};

Computed compute(const spec::Spec& spec, const verify::Batches& batches,
                 const std::filesystem::path& job_dir) {
  Computed computed;
  {
    const BuiltProgram built = build_program(spec);
    if (const auto* program = dynamic_cast<const targets::CpuProgram*>(built.program.get()))
      computed.tried = program->kernels().tried;
    computed.training = verify::train(*built.program, batches);
    verify::initialize(*built.program);
    verify::write_verify_job(job_dir, *built.program, batches, computed.training.choices);
    if (!built.machine) return computed;
    computed.repetitions.push_back(
        verify::compare_bits("two runs", computed.training, verify::train(*built.program, batches)));
  }
  const auto compare = [&](const char* what, const spec::Spec& other) {
    const BuiltProgram built = build_program(other);
    computed.repetitions.push_back(
        verify::compare_bits(what, computed.training, verify::train(*built.program, batches)));
  };
  spec::Spec other = spec;
  other.optimizations.cuda_graph = !spec.optimizations.cuda_graph;
  compare("with and without a CUDA graph", other);
  const auto& offload = spec.optimizations.offload;
  if (offload.activations || offload.optimizer_state.any()) {
    other = spec;
    // Matmuls of weights that are fetched may be other kernels.
    other.optimizations.offload = {.weights = offload.weights};
    compare("with and without offload", other);
  }
  return computed;
}

void print(const verify::Difference& d, bool has_yardstick) {
  const std::string yardstick =
      has_yardstick ? fmt::format(" {:>12}", d.yardstick ? fmt::format("{:.2e}", *d.yardstick) : "") : "";
  const std::string note =
      d.left_out > 0 ? fmt::format("  without {} elements whose gradient is rounding noise", d.left_out) : "";
  fmt::print("{:<10} {:<28} {:>12.2e}{} {:>10.1e}{}{}\n", d.what, d.name, d.relative, yardstick, d.tolerance,
             d.passed() ? "" : "  BEYOND", note);
}

void print(const verify::Sameness& same) {
  fmt::print("{:<10} {:<28} {}\n", "repeat", same.what,
             same.passed() ? fmt::format("equal bit for bit: all {} tensors", same.compared)
                           : fmt::format("BEYOND: {} of {} tensors differ, first {}", same.differing.size(),
                                         same.compared, same.differing[0]));
}

// "; gradients at most 1.13 times as far from it as autocast's": the largest share of the yardstick.
std::string yardstick_summary(const std::vector<verify::Difference>& differences) {
  double worst = 0;
  for (const verify::Difference& d : differences) {
    if (d.what == "gradient" && d.yardstick && *d.yardstick > 0)
      worst = std::max(worst, d.relative / *d.yardstick);
  }
  return fmt::format("; gradients at most {:.2f} times as far from it as autocast's", worst);
}

}  // namespace

int verify_verb(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load_for_verify(arguments);
  if (!spec) return kBadInput;
  complete_for_planning(*spec);
  spec::train_in_one_process(*spec);
  note_found_rate(*spec, "verify");
  run_on_its_cores(*spec);
  verify::tolerances(*spec);  // before anything is compiled: are there any?
  const verify::Yardstick yardstick = verify::yardstick_of(*spec);
  const bool has_yardstick = !yardstick.prefix().empty();
  const std::filesystem::path oracle = verify::find_oracle(arguments.value("--oracle"));
  const verify::JobFolder folder(arguments.value("--keep"));
  const int64_t steps = arguments.count("--steps", 3);
  const Computed computed = compute(*spec, verify::random_batches(*spec, steps, kBatchSeed), folder.path());
  std::vector<std::string> options;
  if (!computed.repetitions.empty()) options = {"--device", "auto"};
  verify::run_oracle(oracle, "verify", folder.path(), options);
  const runtime::SafetensorsReader reference(folder.path() / "result.safetensors");
  const auto differences = verify::compare(computed.training, reference, *spec);

  const std::string column = yardstick.prefix().substr(0, yardstick.prefix().find('.'));
  fmt::print("{:<10} {:<28} {:>12}{} {:>10}\n", "", "", "difference",
             has_yardstick ? fmt::format(" {:>12}", column) : "", "tolerance");
  for (const verify::Difference& d : differences) print(d, has_yardstick);
  for (const verify::Sameness& same : computed.repetitions) print(same);
  if (!computed.tried.empty()) fmt::print("{:<10} {}\n", "kernels", computed.tried);
  const auto failed = std::ranges::count_if(differences, [](const auto& d) { return !d.passed(); });
  const bool repeats = std::ranges::all_of(computed.repetitions, &verify::Sameness::passed);
  fmt::print("{}: {} of {} within tolerance of LibTorch in float64, after {} steps{}{}\n", spec->name,
             differences.size() - static_cast<size_t>(failed), differences.size(), steps,
             yardstick.measures_gradients() ? yardstick_summary(differences) : "",
             computed.repetitions.empty() ? ""
             : repeats                    ? "; repeats bit for bit"
                                          : "; does NOT repeat");
  return failed == 0 && repeats ? kFine : kFoundWanting;
}

}  // namespace hydrac::cli
