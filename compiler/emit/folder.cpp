#include "emit/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "emit/source_file.h"
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

// Where emitted files lie: the folder itself and the folders of the files.
std::vector<fs::path> places(const fs::path& folder, const Files& files) {
  std::vector<fs::path> places = {folder, folder / "kernels"};
  for (const auto& [name, text] : files) places.push_back((folder / name).parent_path());
  std::ranges::sort(places);
  const auto [first, last] = std::ranges::unique(places);
  places.erase(first, last);
  return places;
}

// A file of a folder in which nothing was emitted yet. Hidden ones, such as .git, may stand beside a program
// from its beginning.
std::optional<std::string> other_work(const fs::path& folder, const FolderState& state) {
  const bool is_own = !state.current.empty() || !state.changed.empty() || !state.stale.empty();
  if (is_own || !fs::is_directory(folder)) return std::nullopt;
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.')) names.insert(name);
  }
  return names.empty() ? std::nullopt : std::optional(*names.begin());
}

void write_file(const fs::path& path, const std::string& text) {
  fs::path part = path;
  part += ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) fs::rename(part, path, error);
  if (out && !error) return;
  fs::remove(part, error);
  throw runtime::RunError(
      fmt::format("cannot write {}: is the disk full or the folder read-only?", path.string()));
}

}  // namespace

namespace {

FolderState compare_files(const fs::path& folder, const Files& files) {
  FolderState state;
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw runtime::InputError(fmt::format("{} is not a folder", folder.string()));
  for (const auto& [name, text] : files) {
    const fs::path path = folder / name;
    if (!fs::exists(path)) {
      state.missing.push_back(name);
    } else if (!fs::is_regular_file(path) || !was_emitted(path)) {
      state.foreign.push_back(name);
    } else {
      (read(path) == text ? state.current : state.changed).push_back(name);
    }
  }
  for (const fs::path& place : places(folder, files)) {
    if (!fs::is_directory(place)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
      const std::string name = entry.path().lexically_relative(folder).generic_string();
      if (entry.is_regular_file() && !files.contains(name) && was_emitted(entry.path()))
        state.stale.push_back(name);
    }
  }
  std::ranges::sort(state.stale);
  return state;
}

}  // namespace

// A loop of links, a folder that may not be read, a name that is too long.
FolderState compare(const fs::path& folder, const Files& files) {
  try {
    return compare_files(folder, files);
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

FolderState write(const fs::path& folder, const Files& files) {
  const FolderState state = compare(folder, files);
  if (!state.foreign.empty()) {
    throw runtime::InputError(
        fmt::format("{} was not written by hydrac: choose another folder, or move it away",
                    (folder / state.foreign.front()).string()));
  }
  if (const auto name = other_work(folder, state)) {
    throw runtime::InputError(fmt::format(
        "{} holds no program that hydrac wrote, but other files, such as {}: name a new folder or an "
        "empty one",
        folder.string(), *name));
  }
  std::error_code error;
  for (const fs::path& place : places(folder, files)) {
    fs::create_directories(place, error);
    if (error)
      throw runtime::RunError(fmt::format("cannot make the folder {}: {}", place.string(), error.message()));
  }
  for (const std::vector<std::string>* names : {&state.changed, &state.missing}) {
    for (const std::string& name : *names) write_file(folder / name, files.at(name));
  }
  for (const std::string& name : state.stale) fs::remove(folder / name);
  return state;
}

}  // namespace hydrac::emit
