#include "tune/lock_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "spec/print.h"
#include "spec/reader/yaml.h"

namespace hydrac::tune {

std::string find(const Facts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts, name, &std::pair<std::string, std::string>::first);
  return found == facts.end() ? "" : found->second;
}

bool may_be_locked(std::string_view path) {
  static constexpr auto kKeys = std::to_array<std::string_view>(
      {"train.micro_batch_size", "optimizations.attention", "optimizations.attention_tiles.dkv",
       "optimizations.attention_tiles.dq", "optimizations.attention_tiles.forward",
       "optimizations.fused_matmuls", "optimizations.library_matmuls", "optimizations.loss",
       "optimizations.offload.optimizer_state", "optimizations.own_matmuls", "optimizations.recompute",
       "optimizations.recompute_layers", "optimizations.streams", "optimizations.threads"});
  return std::ranges::find(kKeys, path) != kKeys.end();
}

std::string lock_path(const std::string& spec_path) {
  for (const char* extension : {".yaml", ".yml"}) {
    if (spec_path.ends_with(extension))
      return spec_path.substr(0, spec_path.size() - std::string_view(extension).size()) + ".lock.yaml";
  }
  return spec_path + ".lock.yaml";
}

const LockSection* section_of(const LockFile& lock, const Facts& machine) {
  const auto found = std::ranges::find(lock.sections, machine, &LockSection::machine);
  return found == lock.sections.end() ? nullptr : &*found;
}

const LockSection* section_for(const LockFile& lock, const std::string& target) {
  for (const LockSection& section : lock.sections) {
    if (find(section.machine, "target") == target) return &section;
  }
  return nullptr;
}

void put(LockFile& lock, LockSection section) {
  const auto found = std::ranges::find(lock.sections, section.machine, &LockSection::machine);
  if (found == lock.sections.end())
    lock.sections.push_back(std::move(section));
  else
    *found = std::move(section);
}

spec::Node as_spec(const LockSection& section) {
  spec::Node root{.kind = spec::Node::Kind::map, .where = section.where};
  for (const LockedKey& key : section.keys)
    spec::overlay(root, spec::nested(key.path, key.value.where, key.value));
  return root;
}

LockedKey locked_key(const std::string& path, const std::string& text) {
  diag::Diagnostics diagnostics;
  std::optional<spec::Node> value = spec::parse_yaml(text, {"<tune>", 1, 1}, diagnostics);
  if (!value) throw std::logic_error(fmt::format("{}: {} is no YAML", path, text));
  return {path, text, std::move(*value)};
}

namespace {

std::string change(const std::string& name, const std::string& then, const std::string& now) {
  return fmt::format("{}: {} then, {} now", name, then, now);
}

}  // namespace

std::vector<std::string> changes(const std::map<std::string, std::string>& then,
                                 const std::map<std::string, std::string>& now) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : then) {
    const auto found = now.find(name);
    if (found != now.end() && found->second != value) lines.push_back(change(name, value, found->second));
  }
  return lines;
}

std::vector<std::string> changes(const Facts& then, const Facts& now) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : then) {
    const std::string other = find(now, name);
    if (!other.empty() && other != value) lines.push_back(change(name, value, other));
  }
  return lines;
}

namespace {

template <class Map>
void print_map(std::string& text, const std::string& indent, const std::string& name, const Map& map) {
  text += fmt::format("{}{}:{}\n", indent, spec::yaml_text(name), map.empty() ? " {}" : "");
  for (const auto& [key, value] : map)
    text += fmt::format("{}  {}: {}\n", indent, spec::yaml_text(key), spec::yaml_text(value));
}

}  // namespace

std::string to_yaml(const LockFile& lock, const std::string& spec_name) {
  std::string text = fmt::format(
      "# What `hydrac tune {}` measured, a section for each machine. Written by hydrac: keep it beside the "
      "spec\n"
      "# and check it in. docs/tuning.md says what it does.\n"
      "hydrac_lock: 1\nsections:{}\n",
      spec_name, lock.sections.empty() ? " []" : "");
  for (const LockSection& section : lock.sections) {
    const std::string indent = "    ";
    std::string body;
    print_map(body, indent, "machine", section.machine);
    if (!section.software.empty()) print_map(body, indent, "software", section.software);
    if (!section.measured.empty()) body += indent + "measured:\n";
    for (const auto& [name, number] : section.measured)
      body += fmt::format("{}  {}: {}\n", indent, name, number);
    if (!section.keys.empty()) body += indent + "keys:\n";
    for (const LockedKey& key : section.keys) body += fmt::format("{}  {}: {}\n", indent, key.path, key.text);
    if (!section.choices.empty()) body += indent + "choices:\n";
    for (const auto& [name, entries] : section.choices.sections())
      print_map(body, indent + "  ", name, entries);
    print_map(body, indent, "spec", section.spec);
    body[2] = '-';  // the list's item
    text += body;
  }
  return text;
}

}  // namespace hydrac::tune
