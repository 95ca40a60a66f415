// `hydrac diff SPEC FOLDER`: the lines of an emitted program that are not as they would be emitted now.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/input/spec_input.h"
#include "cli/output/emitted_files.h"
#include "cli/verb.h"
#include "cli/version.h"
#include "emit/folder/folder.h"
#include "emit/folder/line_diff.h"
#include "runtime/base/quote.h"
#include "runtime/error.h"
#include "runtime/log/output.h"

namespace hydrac::cli {

namespace {

const char* color_of(char mark) {
  switch (mark) {
    case '-':
      return "\033[31m";
    case '+':
      return "\033[32m";
    case '@':
      return "\033[36m";
    default:
      return "";
  }
}

// A line of the diff, which may lack its end as the file's last line does.
void print_line(char mark, std::string_view text, bool colored) {
  const bool ended = text.ends_with('\n');
  if (ended) text.remove_suffix(1);
  const std::string_view color = colored ? color_of(mark) : "";
  fmt::print("{}{}{}{}\n{}", color, mark, runtime::printable(text), color.empty() ? "" : "\033[0m",
             ended ? "" : "\\ No newline at end of file\n");
}

// From what the folder holds to what would be emitted.
void print_file(const std::filesystem::path& path, const std::vector<emit::Hunk>& hunks, bool colored) {
  fmt::print("--- {}\n+++ {} (as emitted now)\n", path.string(), path.string());
  for (const emit::Hunk& hunk : hunks) {
    print_line('@', header_of(hunk).substr(1) + "\n", colored);
    for (const emit::DiffLine& line : hunk.lines) print_line(line.mark, line.text, colored);
  }
}

std::string changed_lines(const std::string& old_text, const std::string& new_text) {
  size_t added = 0, removed = 0;
  for (const emit::Hunk& hunk : emit::line_diff(old_text, new_text, 0)) {
    for (const emit::DiffLine& line : hunk.lines) {
      added += line.mark == '+';
      removed += line.mark == '-';
    }
  }
  return fmt::format("+{} -{}", added, removed);
}

// The text that would be emitted; empty for a file that would be removed.
std::string wanted_text(const emit::Files& files, const std::string& name) {
  const auto found = files.find(name);
  return found == files.end() ? "" : found->second;
}

// Names first, so that what is missing or stale is not lost among lines.
void print_difference(const Arguments& arguments, const std::filesystem::path& folder,
                      const emit::Files& files, const emit::FolderState& state) {
  const bool stat = arguments.has("--stat"), names = stat || arguments.has("--quiet");
  for (const auto& [kind, list] :
       {std::pair("changed ", &state.changed), std::pair("edited  ", &state.edited),
        std::pair("outdated", &state.outdated)}) {
    for (const std::string& name : *list) {
      if (stat)
        fmt::print("{} {}  {}\n", kind, name,
                   changed_lines(emit::text_of(folder, name), wanted_text(files, name)));
      else if (names)
        fmt::print("{} {}\n", kind, name);
    }
  }
  for (const std::string& name : state.kept) fmt::print("kept     {}\n", name);
  for (const std::string& name : state.missing) fmt::print("missing  {}\n", name);
  for (const std::string& name : state.stale) fmt::print("stale    {}\n", name);
  for (const std::string& name : state.foreign) fmt::print("foreign  {}\n", name);
  if (names) return;
  for (const auto* list : {&state.changed, &state.edited, &state.outdated})
    print_unified(folder, files, *list);
}

}  // namespace

void print_unified(const std::filesystem::path& folder, const emit::Files& files,
                   const std::vector<std::string>& names) {
  const bool colored = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  for (const std::string& name : names) {
    const std::string now = emit::text_of(folder, name);
    print_file(folder / name, emit::line_diff(now, wanted_text(files, name)), colored);
  }
}

int diff_folder(const Arguments& arguments, const std::string& folder) {
  Arguments of_spec = arguments;
  of_spec.positional.resize(1);
  if (std::filesystem::exists(std::filesystem::path(folder) / "runtime"))
    of_spec.options["--vendor-runtime"] = "";
  const std::optional<LockedSpec> locked = load_with_lock(of_spec, LockFor::any_machine);
  if (!locked) return kBadInput;
  if (!std::filesystem::is_directory(folder))
    throw runtime::InputError(fmt::format("{} is no folder: `hydrac emit` makes one", folder));
  const emit::Files files = emitted_files(of_spec, *locked, folder);
  const emit::FolderState state = emit::compare(folder, files);
  print_difference(arguments, folder, files, state);
  const bool is_of_another = !state.writer.empty() && state.writer != version_name();
  if (!state.is_current() && is_of_another)
    runtime::print_error(
        fmt::format("hydrac: emitted by another hydrac: {}; this is {}\n", state.writer, version_name()));
  return state.is_current() ? kFine : kFoundWanting;
}

}  // namespace hydrac::cli
