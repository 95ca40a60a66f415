// `hydrac data prepare PATH ... -o FOLDER`: a tokenizer and token shards from files of text.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "cli/output/new_folder.h"
#include "cli/verb.h"
#include "diag/suggest.h"
#include "hub/hub.h"
#include "prepare/prepare.h"
#include "runtime/base/quote.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;

namespace {

double fraction(const std::string& option, const std::string& text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    throw InputError(fmt::format("{} takes a number of {} to {}, not \"{}\"", option, least, most, text));
  return value;
}

// A source's short name: data/wiki.jsonl.gz, data/wiki, data/wiki/*.jsonl and hf:owner/wiki are wiki.
std::string short_name(const std::string& path) {
  if (hub::is_name(path)) return hub::short_name(path);
  fs::path name = folder_name(path);
  while (name.has_parent_path() && name.filename().string().find_first_of("*?[{") != std::string::npos)
    name = name.parent_path();
  const std::string last = name.filename().string();
  const std::string stem = last.substr(0, last.find('.', 1));
  return stem.empty() || stem.find_first_of("*?[{") != std::string::npos ? folder_name(path).generic_string()
                                                                         : stem;
}

bool is_below(const fs::path& file, const fs::path& folder) {
  const auto [end, behind] = std::ranges::mismatch(folder, file);
  return end == folder.end();
}

// Files among these that earlier preparations left.
std::set<fs::path> prepared_among(const std::vector<runtime::InputFile>& files) {
  std::set<fs::path> all;
  for (const runtime::InputFile& file : files) {
    const fs::path path = file.path;
    if (path.filename() != prepare::kReportFile) continue;
    for (const std::string& name : prepare::files_of_report(runtime::read_file(path)))
      all.insert(path.parent_path() / name);
  }
  return all;
}

// All text files, by name, in the folder and those below, sorted by name. Left out are hidden and empty
// files, token shards, tables, and results of earlier preparations (in `output`, next to it or elsewhere).
std::vector<runtime::InputFile> texts_in(const std::string& folder, const std::string& output) {
  const fs::path root = fs::weakly_canonical(folder), made = fs::weakly_canonical(folder_name(output));
  const fs::path unfinished = NewFolder::unfinished_of(made);
  std::error_code ignored;
  std::vector<runtime::InputFile> texts;
  if (!fs::is_empty(folder, ignored)) texts = runtime::expand_patterns({"**"}, folder);
  const std::set<fs::path> prepared = prepared_among(texts);
  std::erase_if(texts, [&](const runtime::InputFile& file) {
    const runtime::SourceKind kind = runtime::source_kind(file);
    return kind == runtime::SourceKind::tokens || kind == runtime::SourceKind::csv ||
           prepared.contains(file.path) || fs::is_empty(file.path, ignored) ||
           is_below(root / file.name, made) || is_below(root / file.name, unfinished);
  });
  if (texts.empty()) throw InputError(fmt::format("{}: there is no text in this folder", folder));
  for (runtime::InputFile& file : texts)
    file.name = (fs::path(folder) / file.name).lexically_normal().generic_string();
  return texts;
}

std::vector<runtime::InputFile> files_of(const std::string& path, const std::string& output) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return texts_in(path, output);
  if (!hub::is_name(path)) return runtime::expand_patterns({path}, ".");
  try {
    return runtime::expand_patterns(hub::paths_of(path, hub::Wanted::dataset), ".");
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} {}", path, error.what()));
  }
}

std::vector<prepare::Source> sources_of(const Arguments& arguments) {
  std::vector<std::string> paths = arguments.positional;
  paths.insert(paths.end(), arguments.overrides.begin(), arguments.overrides.end());  // folders as lang=en
  if (paths.empty()) throw InputError("which text? Give files, folders or patterns, as data/*.txt");
  std::vector<prepare::Source> sources;
  for (const std::string& path : paths) {
    const std::string name = short_name(path);
    const bool alone = std::ranges::count(paths, name, short_name) == 1;
    sources.push_back({alone ? name : path, files_of(path, *arguments.value("--output"))});
  }
  return sources;
}

void read_weights(const std::string& text, std::vector<prepare::Source>& sources) {
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(fmt::format("--weight takes NAME=W, as wiki=2, not \"{}\"", entry));
    const std::string name = entry.substr(0, equals);
    const auto source = std::ranges::find(sources, name, &prepare::Source::name);
    if (source == sources.end()) {
      std::vector<std::string> names;
      for (const prepare::Source& known : sources) names.push_back(known.name);
      throw InputError(
          fmt::format("--weight {}: no source is called {}, but {}", entry, name, fmt::join(names, ", ")));
    }
    constexpr double kLeast = 0.001, kMost = 1000;
    source->weight = fraction("--weight " + name, entry.substr(equals + 1), kLeast, kMost);
  }
}

prepare::Dedupe dedupe_of(const std::string& word) {
  if (word == "lines") return prepare::Dedupe::lines;
  if (word == "documents") return prepare::Dedupe::documents;
  throw InputError(fmt::format("--dedupe takes lines or documents, not \"{}\"", word));
}

prepare::Order order_of(const std::string& word) {
  if (word == "length") return prepare::Order::length;
  if (word == "rarity") return prepare::Order::rarity;
  throw InputError(fmt::format("--order takes length or rarity, not \"{}\"", word));
}

prepare::PrepareOptions options_of(const Arguments& arguments) {
  prepare::PrepareOptions options;
  if (arguments.has("--tokenizer") && arguments.has("--vocab-size"))
    throw InputError(
        "--vocab-size is for a tokenizer that is learned, and --tokenizer names one: give one of them");
  options.tokenizer = arguments.value("--tokenizer").value_or("");
  if (arguments.has("--tokenizer") && options.tokenizer.empty())
    throw InputError("--tokenizer takes byte, char, or the path of a tokenizer.json");
  options.vocab_size = arguments.number("--vocab-size", options.vocab_size);
  if (const auto text = arguments.value("--val-fraction"))
    options.val_fraction = fraction("--val-fraction", *text, 0, 0.5);
  if (const auto word = arguments.value("--dedupe")) options.dedupe = dedupe_of(*word);
  if (const auto word = arguments.value("--order")) options.order = order_of(*word);
  options.text_key = arguments.value("--text-key").value_or(options.text_key);
  options.seed = static_cast<uint64_t>(arguments.number("--seed", static_cast<int64_t>(options.seed)));
  constexpr int64_t kMostThreads = 1024;
  options.threads = static_cast<int>(std::clamp<int64_t>(
      arguments.number("--threads", std::thread::hardware_concurrency()), 1, kMostThreads));
  options.sources = sources_of(arguments);
  read_weights(arguments.value("--weight").value_or(""), options.sources);
  return options;
}

// True if there is a folder, which must hold nothing but what an earlier preparation wrote.
bool is_replaced(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return false;
  const fs::path report = folder / prepare::kReportFile;
  const std::vector<std::string> made = fs::is_regular_file(report, error)
                                            ? prepare::files_of_report(runtime::read_file(report))
                                            : std::vector<std::string>();
  if (made.empty()) {
    throw InputError(
        fmt::format("{} is there, and not made by data prepare: name another folder", folder.string()));
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (std::ranges::find(made, name) == made.end()) {
      throw InputError(
          fmt::format("{} would be replaced, but {} in it is not made by data prepare: move it, "
                      "or name another folder",
                      folder.string(), name));
    }
  }
  return true;
}

// A line every other second.
class Progress {
 public:
  void operator()(std::string_view phase, int64_t done, int64_t of) {
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::seconds(2)) return;
    shown_ = now;
    const bool tokens = phase == "merging" || phase == "writing";
    const auto amount = [&](int64_t count) {
      return tokens ? runtime::human_count(static_cast<double>(count))
                    : runtime::human_bytes(static_cast<uint64_t>(count));
    };
    runtime::print_text(
        stdout, fmt::format("{}: {} of {}{}\n", phase, amount(done), amount(of), tokens ? " tokens" : ""));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point shown_ = Clock::now();
};

std::string yaml_of(const prepare::PrepareReport& report, const std::string& tokenizer,
                    const fs::path& folder) {
  const std::string in = folder.generic_string();
  return fmt::format("data:\n  path: {0}/train-*.bin\n  {1}\n  tokenizer: {2}\n", in,
                     report.val_files.empty() ? "val_fraction: 0" : fmt::format("val_path: {}/val-*.bin", in),
                     tokenizer == "byte" ? tokenizer : in + "/tokenizer.json");
}

}  // namespace

int data_prepare_verb(const Arguments& arguments) {
  const std::optional<std::string> output = arguments.value("--output");
  if (!output || output->empty()) throw InputError("where to? Give -o FOLDER");
  prepare::PrepareOptions options = options_of(arguments);
  const bool quiet = arguments.has("--quiet");
  const bool replaced = is_replaced(folder_name(*output));
  const NewFolder folder(*output);
  options.folder = folder.unfinished();
  if (!quiet) options.progress = Progress();
  const prepare::PrepareReport report = prepare::prepare(options);
  folder.publish(replaced);
  if (!quiet) {
    runtime::print_text(
        stdout, runtime::printable(fmt::format("{}\nwrote {}; a spec reads it as\n{}",
                                               report_text(report, options), folder.name().generic_string(),
                                               yaml_of(report, options.tokenizer, folder.name()))));
  }
  return kFine;
}

}  // namespace hydrac::cli
