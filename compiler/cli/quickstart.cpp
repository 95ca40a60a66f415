// `hydrac quickstart`: the built-in spec, trained wherever one stands, as files that can be edited.
#include "cli/quickstart.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "emit/folder/runtime_files.h"
#include "runtime/base/quote.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "spec/reader/paths.h"
#include "targets/templates/templates.h"

namespace hydrac::cli {

namespace fs = std::filesystem;

namespace {

// The only text of some size that every hydrac has: the sources that it carries for emitted programs.
std::string own_sources() {
  std::string text;
  for (const emit::RuntimeFile& file : emit::runtime_files()) text += file.text;
  for (const targets::TemplateFile& file : targets::template_files()) text += file.text;
  return text;
}

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  const size_t at = text.find(word);
  if (at == std::string::npos) throw std::logic_error("the quickstart's spec has no " + word);
  return text.replace(at, word.size(), by);
}

std::string spec_text(const fs::path& folder, const std::optional<std::string>& data) {
  std::string text = quickstart_files().front().text;
  text = replaced(text, "@WHAT@", data ? "your text" : "hydrac's own sources");
  text = replaced(text, "@SPEC@", (folder / "quickstart.yaml").string());
  text = replaced(text, "@DATA@", yaml_quoted(data ? spec::path_in(folder, *data) : "text.txt"));
  text = replaced(text, "@PROMPT@", data ? "The " : "// ");
  return replaced(text, "@RUN@", yaml_quoted((folder / "run").string()));
}

std::optional<std::string> contents(const fs::path& path) {
  const runtime::RegularFile file(path);
  std::string text;
  return file.problem().empty() && file.read_all(text) ? std::optional(text) : std::nullopt;
}

// A file of the user's, or a spec that was edited, stays as it is.
void write_new(const fs::path& path, const std::string& text) {
  const std::optional<std::string> there = contents(path);
  if (there == text) return;
  if (there || fs::exists(fs::symlink_status(path))) {
    throw runtime::InputError(
        fmt::format("{} is there already and is not what quickstart would write: train it with `hydrac "
                    "SPEC`, or start in "
                    "another folder: hydrac quickstart -o FOLDER",
                    path.string()));
  }
  runtime::replace_file(path, text);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw runtime::InputError(fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
}

void print_next(const std::string& spec_file, const std::string& run_folder) {
  const std::string spec = runtime::shell_quoted(spec_file), run = runtime::shell_quoted(run_folder);
  const std::pair<std::string, const char*> lines[] = {
      {fmt::format("hydrac sample {} --prompt \"...\"", run), "continues a text of yours"},
      {fmt::format("hydrac {}", spec), "trains again, after you have edited it"},
      {fmt::format("hydrac {} --resume", spec), "goes on where a run was interrupted"},
      {fmt::format("hydrac explain {}", spec), "shows the program that was made of it"}};
  std::string text = "\nWhat to do next\n";
  for (const auto& [command, what] : lines) text += fmt::format("  {:<52}  {}\n", command, what);
  runtime::print_text(stdout, text);
}

}  // namespace

int quickstart_verb(const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    throw runtime::InputError(fmt::format(
        "quickstart brings its own spec: {} is one argument too many (--data names a text to learn from)",
        arguments.positional[0]));
  }
  const fs::path folder = fs::path(arguments.value("--output").value_or("quickstart")).lexically_normal();
  const std::optional<std::string> data = arguments.value("--data");
  const fs::path spec = folder / "quickstart.yaml";
  make_folder(folder);
  write_new(spec, spec_text(folder, data));
  if (!data) write_new(folder / "text.txt", own_sources());
  Arguments run = arguments;
  run.positional = {spec.string()};
  const int code = run_verb(run);
  if (code == kFine && !arguments.has("--quiet")) print_next(spec.string(), (folder / "run").string());
  return code;
}

}  // namespace hydrac::cli
