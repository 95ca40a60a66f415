#include "hub/hub.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

#include "hub/client_script.h"
#include "process/run_program.h"
#include "runtime/cache/sealed_file.h"
#include "runtime/error.h"

namespace hydrac::hub {
namespace {

namespace fs = std::filesystem;
using runtime::InputError;

constexpr std::string_view kPrefix = "hf:";
constexpr const char* kKinds[] = {"model", "config", "tokenizer", "dataset"};

struct Name {
  std::string repository, revision, subset, split;
};

Name parsed(const std::string& text, Wanted wanted) {
  static const std::string part = "[A-Za-z0-9_][A-Za-z0-9._-]*",
                           repository = "hf:(" + part + "/" + part + ")";
  static const std::regex model(repository + "(?:@([A-Za-z0-9._/-]+))?");
  static const std::regex dataset(repository +
                                  "(?:@([A-Za-z0-9._-]+))?(?:/([^/:]+))?(?::([A-Za-z0-9._-]+))?");
  const bool is_dataset = wanted == Wanted::dataset;
  std::smatch found;
  if (!std::regex_match(text, found, is_dataset ? dataset : model) || text.find("..") != std::string::npos)
    throw InputError(fmt::format("is no name of a {0}: write hf:OWNER/NAME{1}",
                                 is_dataset ? "dataset" : "model",
                                 is_dataset ? "[@REVISION][/SUBSET][:SPLIT]" : "[@REVISION]"));
  const auto group = [&](size_t index, const char* usual) {
    return index < found.size() && found[index].length() > 0 ? found[index].str() : usual;
  };
  return {group(1, ""), group(2, "main"), group(3, ""), is_dataset ? group(4, "train") : ""};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value ? value : "";
  if (text == "~" || text.starts_with("~/")) text.replace(0, 1, variable("HOME"));
  return text;
}

// huggingface_hub's own rule.
fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = variable(name); !folder.empty()) return folder;
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache)) / "huggingface/hub";
}

std::string replaced(std::string text) {
  for (size_t at; (at = text.find('/')) != std::string::npos;) text.replace(at, 1, "--");
  return text;
}

std::string text_of(const fs::path& path) {
  return runtime::read_whole(path).value_or("");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A commit, and its files that were asked for.
struct Snapshot {
  std::string commit;
  std::vector<std::string> files;
};

// A repository's place in the cache. In addition to Hugging Face's own folders it has a record of each
// complete fetch, because the files alone do not show that none is missing.
class CachedRepository {
 public:
  CachedRepository(const Name& name, Wanted wanted)
      : revision_(name.revision),
        root_(cache_folder() /
              ((wanted == Wanted::dataset ? "datasets--" : "models--") + replaced(name.repository))),
        record_(root_ / "hydrac" /
                replaced(fmt::format("{}@{}@{}@{}", kKinds[static_cast<int>(wanted)], name.revision,
                                     name.subset, name.split))) {}

  // The record, unless the revision is another commit by now or files were removed.
  std::optional<Snapshot> find() const {
    std::vector<std::string> lines = lines_of(text_of(record_));
    if (lines.size() < 2) return std::nullopt;
    Snapshot snapshot{lines[0], {lines.begin() + 1, lines.end()}};
    const std::string commit = text_of(root_ / "refs" / revision_);
    if (snapshot.commit != (commit.empty() ? revision_ : commit)) return std::nullopt;
    std::error_code ignored;
    for (const std::string& file : snapshot.files) {
      if (!fs::is_regular_file(folder_of(snapshot) / file, ignored)) return std::nullopt;
    }
    return snapshot;
  }

  // A record that cannot be written is made again next time.
  void remember(const Snapshot& snapshot) const {
    runtime::write_whole(record_, fmt::format("{}\n{}\n", snapshot.commit, fmt::join(snapshot.files, "\n")),
                         /*durable=*/false);
  }

  fs::path folder_of(const Snapshot& snapshot) const { return root_ / "snapshots" / snapshot.commit; }

 private:
  std::string revision_;
  fs::path root_, record_;
};

// Its answer after the letter, which is one of `good`; else the sentence of what is wrong is thrown.
template <class Error>
std::pair<char, std::string> run_client(std::vector<std::string> arguments, std::string_view good) {
  const std::string python = runtime::python_program();
  std::vector<std::string> words = {python, "-c", kClientScript};
  std::ranges::move(arguments, std::back_inserter(words));
  const Ended ended = run_program(words, Says::to_caller);
  if (ended.said.empty() && ended.code != 127)
    throw Error(fmt::format("cannot be had: {} {}", python, describe(ended)));
  const char letter = ended.code == 127 ? 'M' : ended.said.front();
  if (letter == 'M')
    throw Error(
        fmt::format("needs huggingface_hub, and {} {}: install it (pip install huggingface_hub), or name a "
                    "Python that has "
                    "it in $HYDRAC_PYTHON",
                    python, ended.code == 127 ? "cannot be run" : "does not have it"));
  std::string answer = ended.said.substr(1);
  if (answer.ends_with('\n')) answer.pop_back();
  if (good.find(letter) == std::string_view::npos) throw Error(answer);
  return {letter, answer};
}

Snapshot fetched(const Name& name, Wanted wanted, const CachedRepository& cache) {
  const auto [letter, answer] = run_client<InputError>(
      {"fetch", kKinds[static_cast<int>(wanted)], name.repository, name.revision, name.subset, name.split},
      "PL");
  std::vector<std::string> lines = lines_of(answer);
  Snapshot snapshot{lines.front(), {lines.begin() + 1, lines.end()}};
  if (letter == 'P') cache.remember(snapshot);
  return snapshot;
}

}  // namespace

bool is_name(std::string_view text) {
  return text.starts_with(kPrefix);
}

std::string short_name(const std::string& name) {
  const size_t slash = std::min(name.find('/'), name.size() - 1);
  return name.substr(slash + 1, name.find_first_of("@/:", slash + 1) - slash - 1);
}

std::vector<std::string> paths_of(const std::string& text, Wanted wanted) {
  const Name name = parsed(text, wanted);
  const CachedRepository cache(name, wanted);
  std::optional<Snapshot> snapshot = cache.find();
  if (!snapshot) snapshot = fetched(name, wanted, cache);
  const fs::path folder = cache.folder_of(*snapshot);
  if (wanted == Wanted::tokenizer) return {(folder / "tokenizer.json").string()};
  if (wanted != Wanted::dataset) return {folder.string()};
  std::vector<std::string> paths;
  for (const std::string& file : snapshot->files) paths.push_back((folder / file).string());
  return paths;
}

void create(const std::string& repository) {
  run_client<InputError>({"create", repository}, "U");
}

std::string upload(const std::string& folder, const std::string& repository) {
  return run_client<runtime::RunError>({"upload", folder, repository}, "U").second;
}

}  // namespace hydrac::hub
