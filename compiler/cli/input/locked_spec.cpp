#include "cli/input/locked_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/input/spec_input.h"
#include "cli/output/checkpoint_files.h"
#include "cli/verb.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "targets/cuda/machine.h"
#include "tune/lock_file.h"
#include "tune/machine.h"

namespace hydrac::cli {

namespace {

// Keys that change no kernel and no size: where results go, how often something happens, numbers in kernels.
bool decides_time(const std::string& key) {
  static constexpr std::string_view free[] = {"name",
                                              "target",
                                              "data.path",
                                              "data.val_path",
                                              "data.val_fraction",
                                              "data.text_key",
                                              "data.format",
                                              "data.shuffle",
                                              "data.cache_dir",
                                              "model.initializer_range",
                                              "model.norm_eps",
                                              "model.rope_theta",
                                              "train.max_steps",
                                              "train.epochs",
                                              "train.seed",
                                              "train.log_steps",
                                              "train.optimizer.learning_rate",
                                              "train.optimizer.betas",
                                              "train.optimizer.eps",
                                              "train.optimizer.weight_decay",
                                              "train.optimizer.momentum",
                                              "train.max_grad_norm"};
  static constexpr std::string_view free_beginnings[] = {"train.eval_",
                                                         "train.save_",
                                                         "train.lr_scheduler.",
                                                         "model.rope_scaling.",
                                                         "sample.",
                                                         "tune.",
                                                         "profile.",
                                                         "output.",
                                                         "data.curriculum.",
                                                         "data.mix",
                                                         "data.val"};
  return std::ranges::find(free, key) == std::end(free) &&
         std::ranges::none_of(free_beginnings,
                              [&](std::string_view start) { return key.starts_with(start); });
}

// JSON of one key as text without the quotes of a string.
std::string plain(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : json;
}

struct Fit {
  const tune::LockSection* section = nullptr;
  std::string why_not;               // one line
  std::vector<std::string> changed;  // of the spec, which makes it unfit; or of the software, which does not
};

Fit fit(const tune::LockFile& lock, const spec::Spec& spec, LockFor whose) {
  Fit fit;
  tune::Machine machine;
  if (whose == LockFor::this_machine) {
    machine = tune::this_machine(spec);
    fit.section = section_of(lock, machine.identity);
    if (fit.section == nullptr) {
      fit.why_not = fmt::format("has no section for this machine ({})", tune::describe(machine.identity));
      return fit;
    }
  } else {
    fit.section = section_for(lock, spec.target);
    if (fit.section == nullptr) {
      fit.why_not = fmt::format("has no section for {}", spec.target);
      return fit;
    }
  }
  fit.changed = tune::changes(fit.section->spec, tuned_keys(spec));
  if (!fit.changed.empty()) {
    fit.section = nullptr;
    fit.why_not = "is for another spec";
    return fit;
  }
  fit.changed = tune::changes(fit.section->software, machine.software);
  return fit;
}

// A GPU that is not here cannot be compared: what only plans is then as on any machine.
LockFor whose_is_known(const spec::Spec& spec, LockFor whose) {
  const bool is_here = targets::find(spec.target)->is_cpu() || targets::detected_gpu() == spec.target;
  return is_here ? whose : LockFor::any_machine;
}

std::string in_lines(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : fmt::format(":\n  {}", fmt::join(lines, "\n  "));
}

}  // namespace

std::map<std::string, std::string> tuned_keys(const spec::Spec& spec) {
  std::map<std::string, std::string> keys;
  for (const auto& [key, json] : all_keys(spec)) {
    if (decides_time(key)) keys[key] = plain(json);
  }
  return keys;
}

std::string lock_path_of(const Arguments& arguments) {
  if (const auto lock = arguments.value("--lock")) return *lock == "none" ? "" : *lock;
  return tune::lock_path(arguments.positional.at(0));
}

std::optional<LockedSpec> load_with_lock(const Arguments& arguments, LockFor whose) {
  if (arguments.positional.size() != 1) return LockedSpec{*load(arguments), {}, ""};  // it says what is wrong
  const std::string path = lock_path_of(arguments);
  const bool must = arguments.has("--locked"), named = arguments.has("--lock") && !path.empty();
  const bool is_there = !path.empty() && std::filesystem::exists(path);
  if (!is_there) {
    if (must || named)
      throw runtime::InputError(fmt::format(
          "{}: there is no lock file {}; `hydrac tune {}` writes one", must ? "--locked" : "--lock",
          path.empty() ? "when --lock is none" : path, arguments.positional[0]));
    std::optional<spec::Spec> spec = load(arguments);
    return spec ? std::optional(LockedSpec{std::move(*spec), {}, ""}) : std::nullopt;
  }
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = load_over(arguments, nullptr, diagnostics);
  if (!spec) return print_diagnostics(arguments, diagnostics, false), std::nullopt;
  diag::Diagnostics of_lock;
  const std::optional<tune::LockFile> lock = tune::read_lock(path, of_lock);
  if (!lock) return runtime::print_error(of_lock.render()), std::nullopt;
  const Fit found = fit(*lock, *spec, whose_is_known(*spec, whose));
  if (found.section == nullptr) {
    const std::string what = fmt::format("{} {}{}", path, found.why_not, in_lines(found.changed));
    if (must) throw runtime::InputError(fmt::format("--locked: {}", what));
    print_diagnostics(arguments, diagnostics, true);
    if (!arguments.has("--quiet"))
      runtime::print_error(
          fmt::format("note: {}\nnote: the spec's own values are taken; `hydrac tune {}` finds better ones\n",
                      what, arguments.positional[0]));
    return LockedSpec{std::move(*spec), {}, ""};
  }
  if (!found.changed.empty()) {
    const std::string what = fmt::format("{} was tuned with other software{}", path, in_lines(found.changed));
    if (must) throw runtime::InputError(fmt::format("--locked: {}", what));
    if (!arguments.has("--quiet")) runtime::print_error(fmt::format("note: {}\n", what));
  }
  const spec::Node keys = as_spec(*found.section);
  spec = load_over(arguments, &keys, of_lock);  // which can quote the lock's lines
  print_diagnostics(arguments, of_lock, spec.has_value());
  if (!spec) return std::nullopt;
  return LockedSpec{std::move(*spec), found.section->choices, path};
}

void compare_with_lock(const Arguments& arguments, const LockedSpec& locked,
                       const runtime::RecordedChoices& now) {
  if (locked.lock.empty()) return;
  const auto lines = differences(locked.choices, now, "in the lock", "now");
  if (lines.empty()) return;
  const std::string what =
      fmt::format("this machine does not repeat the choices of {}{}", locked.lock, in_lines(lines));
  if (arguments.has("--locked")) throw runtime::InputError("--locked: " + what);
  runtime::print_error(fmt::format("warning: {}\n", what));
}

}  // namespace hydrac::cli
