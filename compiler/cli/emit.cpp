// `hydrac emit`: the program of a spec as source code.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <string_view>

#include "cli/build_program.h"
#include "cli/generation/reply_encoder.h"
#include "cli/input/spec_input.h"
#include "cli/input/train_settings.h"
#include "cli/output/emitted_files.h"
#include "cli/output/program_memory.h"
#include "cli/verb.h"
#include "cli/version.h"
#include "emit/folder/folder.h"
#include "emit/folder/runtime_files.h"
#include "emit/hooks.h"
#include "emit/settings.h"
#include "runtime/base/quote.h"
#include "runtime/encoder/open_encoder.h"
#include "runtime/error.h"
#include "runtime/log/output.h"

namespace hydrac::cli {

using runtime::InputError;

namespace {

constexpr std::string_view kThreadsKey = "optimizations.threads=";

// The command line's part of a program, its number of threads last, wherever that stood.
std::vector<std::string> recorded_overrides(const Arguments& arguments,
                                            const std::optional<std::string>& threads) {
  std::vector<std::string> overrides = arguments.overrides;
  std::erase_if(overrides, [](const std::string& word) { return word.starts_with(kThreadsKey); });
  if (threads) overrides.push_back(std::string(kThreadsKey) + *threads);
  return overrides;
}

std::optional<std::string> threads_asked_for(const Arguments& arguments) {
  if (const auto threads = arguments.value("--threads")) return threads;
  for (const std::string& word : arguments.overrides | std::views::reverse) {
    if (word.starts_with(kThreadsKey)) return word.substr(kThreadsKey.size());
  }
  return std::nullopt;
}

}  // namespace

emit::Consent consent_of(const Arguments& arguments) {
  return {.overwrites_edits = arguments.has("--force"), .keeps_outdated = arguments.has("--accept")};
}

// The same on every machine: nothing is asked of a GPU that happens to be here.
emit::Files emitted_files(const Arguments& arguments, LockedSpec locked,
                          const std::filesystem::path& folder) {
  spec::Spec& spec = locked.spec;
  std::optional<std::string> threads = threads_asked_for(arguments);
  // Cores that the spec names are as many on every machine.
  if (spec.target == "cpu" && spec.optimizations.threads == 0 && !spec.train.cpu_affinity.numbers.empty())
    spec.optimizations.threads = thread_count(spec);
  if (spec.target == "cpu" && spec.optimizations.threads == 0 && !threads) {
    spec.optimizations.threads = emit::recorded_threads(folder).value_or(0);
    threads = std::to_string(spec.optimizations.threads);
  }
  if (spec.target == "cpu" && spec.optimizations.threads == 0) {
    throw InputError(
        "an emitted program runs with a fixed number of threads, and optimizations.threads is 0, this "
        "machine's "
        "cores: give a number, such as --threads 8, or name the cores in train.cpu_affinity");
  }
  complete_for_planning(spec, memory_option(arguments));
  BuildOptions options = build_options(arguments);
  options.offline = true;
  const PlannedProgram planned = plan_program(spec, options);
  require_fit(planned.problem);
  const emit::Origin origin{std::filesystem::path(arguments.positional[0]).filename().string(),
                            recorded_overrides(arguments, threads)};
  runtime::TrainSettings settings = train_settings(planned.compiled.spec);
  settings.encoder = encoder_folder(planned.compiled.spec);
  if (!settings.encoder.folder.empty())
    settings.encoder.facts = runtime::encoder_facts(settings.encoder.folder);
  settings.choices = locked.choices;
  const bool has_hooks = arguments.has("--hooks") || emit::has_hooks(folder);
  emit::Files files =
      emit::emit(planned.compiled, settings, origin, has_hooks ? emit::Hooks::owned : emit::Hooks::none);
  if (arguments.has("--vendor-runtime")) files.merge(emit::carried_runtime(files));
  return files;
}

namespace {

bool is_of_runtime(const std::string& name) {
  return name.starts_with("runtime/") || name.starts_with("templates/");
}

emit::Files without_runtime(emit::Files files) {
  std::erase_if(files, [](const auto& file) { return is_of_runtime(file.first); });
  return files;
}

// The runtime's many files are counted, not listed.
void print_change(const std::string& change, const std::string& name) {
  if (!is_of_runtime(name)) fmt::print("{:<8} {}\n", change, name);
}

int64_t lines_of(const emit::Files& files) {
  int64_t lines = 0;
  for (const auto& [name, text] : files) lines += std::ranges::count(text, '\n');
  return lines;
}

}  // namespace

int emit_verb(const Arguments& arguments) {
  const auto folder = arguments.value("--output");
  if (!folder) throw InputError("where to? Name the folder: hydrac emit SPEC -o FOLDER");
  const std::optional<LockedSpec> locked = load_with_lock(arguments, LockFor::any_machine);
  if (!locked) return kBadInput;
  const emit::Files files = emitted_files(arguments, *locked, *folder);
  const emit::FolderState before = emit::compare(*folder, files, consent_of(arguments));
  if (!before.outdated.empty()) {
    if (!arguments.has("--quiet")) print_unified(*folder, files, before.outdated);
    runtime::print_error(fmt::format("hydrac: {}\n", emit::outdated_text(before)));
    return kFoundWanting;
  }
  emit::write(*folder, files, before, version_name());
  if (arguments.has("--quiet")) return kFine;
  for (const std::string& name : before.missing) print_change("new", name);
  for (const std::string& name : before.changed) print_change("changed", name);
  for (const std::string& name : before.kept) print_change("kept", name);
  for (const std::string& name : before.stale) print_change("removed", name);
  const emit::Files own = without_runtime(files);
  fmt::print(
      "{}: {} files, {} lines{}{}\n", runtime::printable(*folder), own.size(), lines_of(own),
      own.size() < files.size() ? fmt::format(", and {} of the runtime", files.size() - own.size()) : "",
      before.is_current() ? ", all as they were" : "");
  return kFine;
}

}  // namespace hydrac::cli
