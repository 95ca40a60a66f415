// Sources of data by name, {NAME: PATHS, NAME: {path: PATHS, weight: W, epochs: E}}.
#include <fmt/format.h>

#include "diag/render.h"
#include "diag/suggest.h"
#include "spec/reader/convert.h"

namespace hydrac::spec {

using diag::Kind;

namespace {

constexpr std::string_view kForm = "{NAME: PATHS, NAME: {path: PATHS}}";

// The key of a part of the value.
KeyRow part_of(const KeyRow& key, const std::string& name, const Rule& rule) {
  KeyRow row = key;
  row.path = fmt::format("{}.{}", key.path, name);
  row.rule = rule;
  return row;
}

bool good_name(const Entry& entry, const KeyRow& key, diag::Diagnostics& diagnostics) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (!entry.key.empty() && entry.key.size() <= 64 && std::ranges::all_of(entry.key, good)) return true;
  diagnostics.report(Kind::bad_name, entry.where,
                     fmt::format("{}: the name {} must be made of A-Z a-z 0-9 _ - (at most 64)", key.path,
                                 diag::printable(entry.key, 80)));
  return false;
}

bool convert_source(const Node& node, const KeyRow& key, bool weighted, Source& out,
                    diag::Diagnostics& diagnostics) {
  const Rule paths = path_or("");
  if (node.kind != Node::Kind::map)
    return convert(node, part_of(key, out.name, paths), out.path, diagnostics);
  std::vector<std::string> known = {"path"};
  if (weighted) known.insert(known.end(), {"weight", "epochs"});
  const KeyRow source = part_of(key, out.name, {});
  bool good = true;
  for (const Entry& entry : node.entries) {
    if (std::ranges::find(known, entry.key) != known.end() || entry.key.starts_with("x-")) continue;
    const std::string meant = diag::nearest(entry.key, known);
    diagnostics.report(Kind::unknown_key, entry.where,
                       fmt::format("there is no key {} in {}", diag::printable(entry.key), source.path),
                       meant.empty() ? "" : fmt::format("did you mean {}?", meant));
    good = false;
  }
  const auto member = [&](const char* name, const Rule& rule, auto& value) {
    const Entry* entry = node.find(name);
    if (entry) good &= convert(entry->value, part_of(source, name, rule), value, diagnostics);
    return entry != nullptr;
  };
  if (!member("path", paths, out.path)) {
    diagnostics.report(Kind::missing_key, node.where, source.path + ".path is missing",
                       fmt::format("write {}", kForm));
    good = false;
  }
  if (weighted) {
    member("weight", range_above(0, 1e6), out.weight);
    member("epochs", range(0, 1e6), out.epochs);
  }
  return good;
}

}  // namespace

bool convert(const Node& node, const KeyRow& key, Sources& out, diag::Diagnostics& diagnostics) {
  if (node.kind != Node::Kind::map) {
    diagnostics.report(Kind::wrong_type, node.where,
                       fmt::format("{} takes a map of names, not {}", key.path, describe(node)),
                       fmt::format("write {}", kForm));
    return false;
  }
  if (node.entries.empty()) {
    diagnostics.report(Kind::empty_value, node.where, key.path + " is empty", fmt::format("write {}", kForm));
    return false;
  }
  Sources sources;
  bool good = true;
  for (const Entry& entry : node.entries) {
    if (entry.key.starts_with("x-")) continue;
    good &= good_name(entry, key, diagnostics);
    Source& source = sources.emplace_back(Source{.name = entry.key});
    good &= convert_source(entry.value, key, key.name == "mix", source, diagnostics);
  }
  if (good) out = std::move(sources);
  return good;
}

}  // namespace hydrac::spec
