#include "emit/folder/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "emit/folder/manifest.h"
#include "emit/folder/staged_files.h"
#include "emit/hooks.h"
#include "emit/kernels/owned_kernels.h"
#include "emit/source_file.h"
#include "runtime/base/folder_links.h"
#include "runtime/error.h"

namespace hydrac::emit {

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw runtime::InputError(fmt::format("cannot read {}", path.string()));
  return text.str();
}

bool was_emitted(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string first;
  std::getline(in, first);
  return first.find(kProvenance) != std::string::npos;
}

// Folders of emitted files: the folder itself, the folders of the files, and those of earlier versions'
// files.
std::vector<fs::path> places(const fs::path& folder, const Files& files) {
  std::vector<fs::path> places = {folder, folder / "kernels", folder / "test"};
  for (const auto& [name, text] : files) places.push_back((folder / name).parent_path());
  std::ranges::sort(places);
  const auto [first, last] = std::ranges::unique(places);
  places.erase(first, last);
  return places;
}

// A file of a folder in which nothing was emitted yet. Hidden ones, such as .git, may stand alongside a
// program from its beginning.
std::optional<std::string> other_work(const fs::path& folder, const FolderState& state) {
  const bool is_own = !state.current.empty() || !state.changed.empty() || !state.edited.empty() ||
                      !state.kept.empty() || !state.outdated.empty() || !state.stale.empty();
  if (is_own || !fs::is_directory(folder)) return std::nullopt;
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.')) names.insert(name);
  }
  return names.empty() ? std::nullopt : std::optional(*names.begin());
}

}  // namespace

namespace {

// Throws where a kernel is kept that the program cannot call.
void require_fit(const fs::path& folder, const std::string& name, const std::string& text,
                 const Files& files) {
  const std::string obstacle = obstacle_to_keep(name, text, files);
  if (obstacle.empty()) return;
  const std::string path = (folder / name).string();
  if (is_hooks_file(name)) throw runtime::InputError(fmt::format("{}: {}", path, obstacle));
  throw runtime::InputError(fmt::format(
      "{} has the line \"{}\", but {}\nChange it to fit, or take the line out to have the file written", path,
      kKeepLine, obstacle));
}

class Comparison {
 public:
  Comparison(const fs::path& folder, const Files& files, const Consent& consent)
      : folder_(folder),
        files_(files),
        consent_(consent),
        written_(Manifest::read(folder, consent.overwrites_edits)) {}

  FolderState run() {
    for (const auto& [name, text] : files_) sort_in(name, text);
    for (const fs::path& place : places(folder_, files_)) {
      if (fs::is_directory(place)) find_stale(place);
    }
    std::ranges::sort(state_.stale);
    std::ranges::sort(state_.edited);
    state_.writer = written_.writer();
    return state_;
  }

 private:
  void sort_in(const std::string& name, const std::string& wanted) {
    const fs::path path = folder_ / name;
    if (!fs::exists(path)) return state_.missing.push_back(name);
    if (!fs::is_regular_file(path)) return state_.foreign.push_back(name);
    const std::string text = read(path);
    if (text == wanted) return state_.current.push_back(name);
    if (is_kept(name, text)) {
      require_fit(folder_, name, text, files_);
      const bool is_current = consent_.keeps_outdated || written_.lists(name, wanted);
      return (is_current ? state_.kept : state_.outdated).push_back(name);
    }
    if (!was_emitted(path)) return state_.foreign.push_back(name);
    (is_edited(name, text) ? state_.edited : state_.changed).push_back(name);
  }

  bool is_edited(const std::string& name, const std::string& text) const {
    return !consent_.overwrites_edits && !written_.lists(name, text);
  }

  void find_stale(const fs::path& place) {
    for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
      const std::string name = entry.path().lexically_relative(folder_).generic_string();
      if (!entry.is_regular_file() || files_.contains(name) || name == kManifestFile ||
          !was_emitted(entry.path()))
        continue;
      const std::string text = read(entry.path());
      if (is_kept(name, text)) require_fit(folder_, name, text, files_);
      (is_edited(name, text) ? state_.edited : state_.stale).push_back(name);
    }
  }

  const fs::path& folder_;
  const Files& files_;
  const Consent consent_;
  const Manifest written_;
  FolderState state_;
};

}  // namespace

// A loop of links, a folder that may not be read, a name that is too long.
FolderState compare(const fs::path& folder, const Files& files, const Consent& consent) {
  try {
    if (fs::exists(folder) && !fs::is_directory(folder))
      throw runtime::InputError(fmt::format("{} is not a folder", folder.string()));
    return Comparison(folder, files, consent).run();
  } catch (const fs::filesystem_error& error) {
    throw runtime::InputError(
        fmt::format("cannot look at {}: {}", error.path1().string(), error.code().message()));
  }
}

std::string text_of(const fs::path& folder, const std::string& name) {
  return read(folder / name);
}

std::optional<int64_t> recorded_threads(const fs::path& folder) {
  const fs::path path = folder / kSizesFile;
  if (!fs::is_regular_file(path) || !was_emitted(path)) return std::nullopt;
  const std::string text = read(path);
  const size_t found = text.find(kThreadsLine);
  if (found == std::string::npos) return std::nullopt;
  int64_t threads = 0;
  const char* digits = text.data() + found + std::string_view(kThreadsLine).size();
  const bool is_number = std::from_chars(digits, text.data() + text.size(), threads).ec == std::errc();
  return is_number && threads > 0 ? std::optional(threads) : std::nullopt;
}

std::string outdated_text(const FolderState& state) {
  return fmt::format(
      "kept, but what hydrac would write there has changed: {}\nNothing was written. Change in the kernel "
      "what has to follow (`hydrac diff` shows it), then say --accept",
      fmt::join(state.outdated, ", "));
}

void write(const fs::path& folder, const Files& files, const FolderState& state, const std::string& writer) {
  if (!state.foreign.empty()) {
    throw runtime::InputError(
        fmt::format("{} was not written by hydrac: choose another folder, or move it away",
                    (folder / state.foreign.front()).string()));
  }
  if (!state.edited.empty()) {
    throw runtime::InputError(
        fmt::format("{} edited since hydrac wrote {}: {}\n`hydrac diff` shows the edits. --force overwrites "
                    "them; a kernel whose "
                    "file has the line \"{}\" stays as it is",
                    state.edited.size() == 1 ? "a file was" : "files were",
                    state.edited.size() == 1 ? "it" : "them", fmt::join(state.edited, ", "), kKeepLine));
  }
  if (!state.outdated.empty()) throw runtime::InputError(outdated_text(state));
  if (const auto name = other_work(folder, state)) {
    throw runtime::InputError(fmt::format(
        "{} holds no program that hydrac wrote, but other files, such as {}: name a new folder or an "
        "empty one",
        folder.string(), *name));
  }
  for (const fs::path& place : places(folder, files)) runtime::require_inside(place, folder);
  StagedFiles staged;
  for (const fs::path& place : places(folder, files)) staged.make_folder(place);
  for (const std::vector<std::string>* names : {&state.changed, &state.missing}) {
    for (const std::string& name : *names) staged.add(folder / name, files.at(name));
  }
  const fs::path manifest = folder / kManifestFile;
  if (!fs::exists(manifest) || read(manifest) != manifest_text(files, state.writer))
    staged.add(manifest, manifest_text(files, writer));
  staged.publish();
  for (const std::string& name : state.stale) fs::remove(folder / name);
}

}  // namespace hydrac::emit
