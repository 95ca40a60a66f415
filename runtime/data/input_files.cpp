#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "runtime/data/input_files.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxAlternatives = 1024;  // of the braces of one pattern

// "a{b,c}d" as "abd" and "acd". A brace without a partner is itself.
void expand_braces(const std::string& pattern, std::vector<std::string>& out) {
  const size_t open = pattern.find('{');
  size_t close = std::string::npos;
  std::vector<size_t> cuts = {open};  // the outer braces and the commas between them
  int depth = 0;
  for (size_t i = open; i < pattern.size() && close == std::string::npos; ++i) {
    if (pattern[i] == '{') ++depth;
    if (pattern[i] == ',' && depth == 1) cuts.push_back(i);
    if (pattern[i] == '}' && --depth == 0) close = i;
  }
  if (open == std::string::npos || close == std::string::npos) {
    if (out.size() == kMaxAlternatives) {
      throw InputError(fmt::format("a pattern with more than {} alternatives in braces", kMaxAlternatives));
    }
    out.push_back(pattern);
    return;
  }
  cuts.push_back(close);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    expand_braces(pattern.substr(0, open) + pattern.substr(cuts[i] + 1, cuts[i + 1] - cuts[i] - 1) +
                      pattern.substr(close + 1),
                  out);
  }
}

bool has_wildcard(std::string_view component) {
  return component.find_first_of("*?[") != std::string_view::npos;
}

// True if the set that begins at pattern[at] == '[' holds `c`; moves `at` behind the set. A '[' without ']'
// is itself.
bool set_holds(std::string_view pattern, size_t& at, char c) {
  size_t i = at + 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  const size_t close = pattern.find(']', i + 1);
  if (close == std::string_view::npos) return pattern[at++] == c;
  bool found = false;
  for (; i < close; ++i) {
    if (i + 2 < close && pattern[i + 1] == '-') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  at = close + 1;
  return found != negated;
}

// True if the name of a file or folder matches one component of a pattern.
bool matches(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  size_t p = 0, n = 0;
  size_t star = std::string_view::npos, star_name = 0;  // the last '*', and where its stretch ends now
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
      continue;
    }
    size_t next = p;
    bool fits = false;
    if (p < pattern.size()) {
      if (pattern[p] == '[') {
        fits = set_holds(pattern, next, name[n]);
      } else {
        fits = pattern[p] == '?' || pattern[p] == name[n];
        ++next;
      }
    }
    if (fits) {
      p = next;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

class Expander {
 public:
  explicit Expander(const fs::path& base) : base_(base) {}

  // Generic paths, relative to the base unless the pattern is absolute; sorted by their bytes.
  std::set<std::string> expand(const std::string& pattern) {
    found_.clear();
    const fs::path path(pattern);
    components_.clear();
    for (const fs::path& part : path.relative_path()) {
      if (!part.empty()) components_.push_back(part.generic_string());
    }
    if (!components_.empty()) walk(path.root_path(), 0);
    return std::move(found_);
  }

 private:
  fs::path real(const fs::path& path) const { return path.is_absolute() ? path : base_ / path; }

  std::vector<fs::directory_entry> entries(const fs::path& folder) const {
    const fs::path where = folder.empty() ? base_ : real(folder);
    std::vector<fs::directory_entry> list;
    std::error_code error;
    for (fs::directory_iterator it(where, error), end; !error && it != end; it.increment(error))
      list.push_back(*it);
    if (error)
      throw InputError(fmt::format("{}: cannot list it: {}", where.generic_string(), error.message()));
    return list;
  }

  // True if `path` is a file. A link to nothing, and anything that is neither a file nor a folder, must not
  // be left out in silence: InputError.
  bool is_file(const fs::path& path) const {
    std::error_code error, ignored;
    const fs::file_status status = fs::status(real(path), error);
    if (fs::is_regular_file(status) || fs::is_directory(status)) return fs::is_regular_file(status);
    const std::string name = path.generic_string();
    if (fs::exists(status)) throw InputError(fmt::format("{} is not a regular file", name));
    if (!fs::is_symlink(real(path), ignored)) return false;
    throw InputError(fmt::format("{} is a link to {}, which cannot be read: {}", name,
                                 fs::read_symlink(real(path), ignored).string(), error.message()));
  }

  void walk(const fs::path& at, size_t depth) {
    std::error_code ignored;
    const std::string& component = components_[depth];
    const bool last = depth + 1 == components_.size();
    const auto step = [&](const fs::path& next) {
      if (!last) {
        if (fs::is_directory(real(next), ignored)) walk(next, depth + 1);
      } else if (is_file(next)) {
        found_.insert(next.lexically_normal().generic_string());
      }
    };
    if (component == "**") return walk_all(at, depth);
    if (!has_wildcard(component)) return step(at / component);
    for (const fs::directory_entry& entry : entries(at)) {
      const std::string name = entry.path().filename().string();
      if (matches(component, name)) step(at / name);
    }
  }

  // `**`: this folder and all below; symbolic links to folders are not followed, so that there is no way
  // round.
  void walk_all(const fs::path& at, size_t depth) {
    const bool last = depth + 1 == components_.size();
    if (!last) walk(at, depth + 1);
    for (const fs::directory_entry& entry : entries(at)) {
      const std::string name = entry.path().filename().string();
      std::error_code ignored;
      if (name.starts_with('.')) continue;
      if (entry.is_directory(ignored)) {
        if (!entry.is_symlink(ignored)) walk_all(at / name, depth);
      } else if (last && is_file(at / name)) {
        found_.insert((at / name).lexically_normal().generic_string());
      }
    }
  }

  const fs::path& base_;
  std::vector<std::string> components_;
  std::set<std::string> found_;
};

std::string why_nothing_matches(const std::string& pattern, const fs::path& base) {
  std::error_code ignored;
  const bool is_working_folder = base.empty() || base == ".";
  const std::string folder =
      (is_working_folder ? fs::current_path(ignored) : fs::absolute(base, ignored)).generic_string();
  const fs::path whole = base / pattern;  // an absolute pattern stays itself
  if (fs::is_directory(whole, ignored)) {
    return fmt::format("{} is a folder; name its files, as in {}/*.txt", pattern,
                       fs::path(pattern).lexically_normal().generic_string());
  }
  if (fs::exists(whole, ignored)) return fmt::format("{} is not a regular file", pattern);
  if (has_wildcard(pattern) || pattern.find('{') != std::string::npos) {
    return fmt::format("no file matches {} in {}", pattern, folder);
  }
  return fmt::format("{}: there is no such file in {}", pattern, folder);
}

}  // namespace

std::vector<InputFile> expand_patterns(const std::vector<std::string>& patterns, const fs::path& base) {
  const fs::path root = base.empty() ? fs::path(".") : base;
  Expander expander(root);
  std::vector<InputFile> files;
  std::set<std::string> seen;
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    std::set<std::string> names;
    if (fs::is_regular_file(root / pattern, ignored)) {  // also where the name holds wildcard characters
      names.insert(fs::path(pattern).lexically_normal().generic_string());
    } else {
      std::vector<std::string> alternatives;
      expand_braces(pattern, alternatives);
      for (const std::string& alternative : alternatives) names.merge(expander.expand(alternative));
    }
    if (names.empty()) throw InputError(why_nothing_matches(pattern, base));
    for (const std::string& name : names) {
      if (seen.insert(name).second) files.push_back({name, root / name});
    }
  }
  if (files.empty()) throw InputError("no data files are named");
  return files;
}

}  // namespace hydrac::runtime
