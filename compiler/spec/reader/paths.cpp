#include "spec/reader/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "diag/render.h"
#include "hub/hub.h"
#include "runtime/data/input_files.h"
#include "runtime/error.h"
#include "spec/keys/key_table.h"
#include "spec/reader/scalar.h"

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

// A key's need of a repository on Hugging Face's hub. `section`: the map that has the key.
hub::Wanted wanted_by(const std::string& key, const Node& section) {
  if (key == "data.tokenizer") return hub::Wanted::tokenizer;
  if (key.starts_with("data.")) return hub::Wanted::dataset;
  const bool has_weights = key.ends_with(".from") && section.find("weights") != nullptr;
  return has_weights ? hub::Wanted::config : hub::Wanted::model;
}

bool resolve_value(Node& value, const KeyRow& row, const Node& section, diag::Diagnostics& diagnostics) {
  if (value.kind == Node::Kind::map) {  // sources by name
    bool good = true;
    for (Entry& entry : value.entries) good &= resolve_value(entry.value, row, section, diagnostics);
    return good;
  }
  const bool is_list = value.kind == Node::Kind::list;
  std::vector<Node> paths;
  bool has_names = false, good = true;
  for (Node& item : is_list ? std::span(value.items) : std::span(&value, 1)) {
    const bool is_text =
        item.kind == Node::Kind::scalar && std::holds_alternative<std::string>(scalar_value(item));
    if (is_text && hub::is_name(item.text)) {
      has_names = true;
      try {
        for (std::string& path : hub::paths_of(item.text, wanted_by(row.path, section)))
          paths.push_back({.kind = Node::Kind::scalar, .where = item.where, .text = path, .quoted = true});
        continue;
      } catch (const runtime::InputError& error) {
        good = false;
        diagnostics.report(diag::Kind::hub_name, item.where,
                           fmt::format("{} {}", diag::printable(item.text), error.what()));
        if (row.rule.text == Rule::Text::any) item.text.clear();  // nobody looks for it
      }
    } else if (is_text && !item.text.empty() && !is_word(row.rule, item.text)) {
      item.text = path_from(item.where, item.text, diagnostics);
    }
    paths.push_back(item);
  }
  if (is_list || (has_names && paths.size() > 1)) {
    value.kind = Node::Kind::list;
    value.items = std::move(paths);
  } else {
    value = std::move(paths.front());
  }
  return good;
}

bool resolve_section(Node& map, const std::string& section, diag::Diagnostics& diagnostics) {
  bool good = true;
  for (Entry& entry : map.entries) {
    const std::string path = join_path(section, entry.key);
    if (find_section(path) != nullptr)
      good &= resolve_section(entry.value, path, diagnostics);
    else if (const KeyRow* row = find_key(path); row != nullptr && row->rule.is_path)
      good &= resolve_value(entry.value, *row, map, diagnostics);
  }
  return good;
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

bool resolve_paths(Node& tree, diag::Diagnostics& diagnostics) {
  return resolve_section(tree, "", diagnostics);
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
