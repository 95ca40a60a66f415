#include "spec/reader/overrides.h"

#include <fmt/format.h>

#include <optional>
#include <type_traits>
#include <vector>

#include "diag/render.h"
#include "spec/keys/key_table.h"
#include "spec/layers.h"
#include "spec/reader/convert.h"
#include "spec/reader/source.h"
#include "spec/reader/yaml.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

enum class Takes { yaml, text, texts };

// The kind of the key at `path`: text, a list of texts, or something else.
Takes value_of(std::string_view path) {
  Takes takes = Takes::yaml;
  const SpecKeys keys;
  visit_keys(keys, [&](const KeyRow& row, const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if (row.path != path) return;
    if constexpr (std::is_same_v<Field, std::string>) takes = Takes::text;
    if constexpr (std::is_same_v<Field, StringList>) takes = Takes::texts;
  });
  return takes;
}

std::optional<Node> parse_value(std::string_view path, const std::string& text, const diag::Location& where,
                                diag::Diagnostics& diagnostics) {
  const Takes takes = value_of(path);
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const bool listed = takes == Takes::texts && text.starts_with('[');
  // A glob or a prompt is no YAML: `*.txt` would be an alias, `To be: or not` a map.
  if (takes != Takes::yaml && !quoted && !listed)
    return Node{.kind = Node::Kind::scalar, .where = where, .text = text, .quoted = true};
  std::optional<Node> node = parse_yaml(text, where, diagnostics);
  if (node && !node->where.known()) node->where = where;
  return node;
}

void apply(const std::string& text, const diag::Location& where, Node& root, diag::Diagnostics& diagnostics) {
  const size_t equals = text.find('=');
  const std::string path = text.substr(0, equals);
  const bool bad_path = path.empty() || path.starts_with('.') || path.ends_with('.') ||
                        path.find("..") != std::string::npos ||
                        path.find_first_of(" \t:") != std::string::npos;
  if (equals == std::string::npos || bad_path) {
    diagnostics.report(Kind::bad_override, where,
                       fmt::format("{} is no override of the form key=value", diag::printable(text)),
                       "write for example train.max_steps=10");
    return;
  }
  if (path == "extends") {
    diagnostics.report(Kind::bad_override, where, "extends cannot be given on the command line",
                       "write it in the spec, or give the other spec's keys here");
    return;
  }
  diag::Location value_where = where;
  value_where.col += static_cast<int>(equals) + 1;
  std::optional<Node> value = parse_value(path, text.substr(equals + 1), value_where, diagnostics);
  if (value) overlay_spec(root, nested(path, where, std::move(*value)));
}

}  // namespace

void apply_overrides(std::span<const std::string> overrides, Node& root, diag::Diagnostics& diagnostics) {
  std::string line;
  std::vector<diag::Location> starts;
  for (const std::string& text : overrides) {
    if (!line.empty()) line += ' ';
    starts.push_back({diag::kCommandLine, 1, static_cast<int>(line.size()) + 1});
    for (const char c : text)
      line += c == '\n' || c == '\r' ? ' ' : c;  // it stays one line; columns stay right
  }
  diagnostics.add_source(diag::kCommandLine, line);
  if (!is_clean_text(diag::kCommandLine, line, diagnostics)) return;
  for (size_t i = 0; i < overrides.size(); ++i) apply(overrides[i], starts[i], root, diagnostics);
}

std::string option_problem(std::string_view path, const std::string& text, const std::string& name) {
  diag::Diagnostics diagnostics;
  const std::optional<Node> node = parse_value(path, text, {diag::kCommandLine, 1, 1}, diagnostics);
  SpecKeys keys;
  visit_keys(keys, [&](KeyRow row, auto& field) {
    if (row.path != path || !node) return;
    row.path = name;
    convert(*node, row, field, diagnostics);
  });
  if (diagnostics.all().empty()) return "";
  const diag::Diagnostic& first = diagnostics.all().front();
  return first.suggestion.empty() ? first.message : fmt::format("{}: {}", first.message, first.suggestion);
}

}  // namespace hydrac::spec
