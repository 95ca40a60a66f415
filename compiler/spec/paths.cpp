#include "spec/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "diag/render.h"
#include "runtime/data/input_files.h"
#include "runtime/error.h"
#include "spec/key_table.h"
#include "spec/scalar.h"

namespace hydrac::spec {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return true;
  if (path.find_first_of("*?[{") == std::string::npos) return false;
  try {
    return !runtime::expand_patterns({path}, ".").empty();
  } catch (const runtime::InputError&) {
    return false;
  }
}

// A path below the working folder is relative to it, however the spec was named: it is printed and compared.
std::string from_working_folder(const fs::path& path) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (error || !path.is_absolute()) return path.string();
  const fs::path below = path.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

void resolve_value(Node& value, const Rule& rule, diag::Diagnostics& diagnostics) {
  const bool is_list = value.kind == Node::Kind::list;
  for (Node& item : is_list ? std::span(value.items) : std::span(&value, 1)) {
    if (item.kind != Node::Kind::scalar || !std::holds_alternative<std::string>(scalar_value(item))) continue;
    if (!item.text.empty() && !is_word(rule, item.text))
      item.text = path_from(item.where, item.text, diagnostics);
  }
}

void resolve_section(Node& map, const std::string& section, diag::Diagnostics& diagnostics) {
  for (Entry& entry : map.entries) {
    const std::string path = join_path(section, entry.key);
    if (find_section(path) != nullptr)
      resolve_section(entry.value, path, diagnostics);
    else if (const KeyRow* row = find_key(path); row != nullptr && row->rule.is_path)
      resolve_value(entry.value, row->rule, diagnostics);
  }
}

}  // namespace

std::string path_from(const diag::Location& where, const std::string& path, diag::Diagnostics& diagnostics) {
  const fs::path folder = fs::path(where.file).parent_path();
  if (where.on_command_line() || folder.empty() || fs::path(path).is_absolute()) return path;
  const std::string there = from_working_folder((folder / path).lexically_normal());
  if (there == path || is_there(there) || !is_there(path)) return there;
  diagnostics.report(
      diag::Kind::path_from_working_folder, where,
      fmt::format("{} is not in {}, the folder of this file; the one in the working folder is taken, which "
                  "the next version will not do",
                  diag::printable(path), diag::printable(folder.string())),
      fmt::format("write {}", diag::printable(path_in(from_working_folder(folder), path))));
  return path;
}

void resolve_paths(Node& tree, diag::Diagnostics& diagnostics) {
  resolve_section(tree, "", diagnostics);
}

std::string path_in(const fs::path& folder, const std::string& path) {
  const fs::path place = folder.lexically_normal();
  if (place.empty() || place == "." || fs::path(path).is_absolute()) return path;
  // A way back from a folder above, or from elsewhere, is not known by its name.
  if (place.is_absolute() || *place.begin() == "..") return fs::absolute(path).lexically_normal().string();
  const fs::path normal = fs::path(path).lexically_normal();
  return (normal.has_filename() || normal.empty() ? normal : normal.parent_path())
      .lexically_relative(place.has_filename() ? place : place.parent_path())
      .string();
}

}  // namespace hydrac::spec
