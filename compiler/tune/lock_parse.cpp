// A lock file's text, with the suspicion that a spec gets.
#include <fmt/format.h>

#include <algorithm>

#include "diag/render.h"
#include "spec/print.h"
#include "spec/reader/scalar.h"
#include "spec/reader/source.h"
#include "tune/lock_file.h"

namespace hydrac::tune {

namespace {

using diag::Kind;
using spec::Entry;
using spec::Node;

constexpr std::string_view kVersion = "1";
constexpr const char* kAgain = "`hydrac tune` writes lock files; write this one anew";

class LockParser {
 public:
  explicit LockParser(diag::Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  std::optional<LockFile> file(const Node& root) {
    const size_t before = diagnostics_.errors();
    LockFile lock;
    if (!version(root)) return std::nullopt;
    for (const Entry& entry : root.entries) {
      if (entry.key == "sections")
        sections(entry.value, lock);
      else if (entry.key != "hydrac_lock")
        unknown(entry, "a lock file");
    }
    if (root.find("sections") == nullptr) missing(root, "sections");
    return diagnostics_.errors() == before ? std::optional(std::move(lock)) : std::nullopt;
  }

 private:
  bool version(const Node& root) {
    const Entry* entry = root.find("hydrac_lock");
    if (entry == nullptr) return missing(root, "hydrac_lock"), false;
    if (entry->value.kind == Node::Kind::scalar && entry->value.text == kVersion) return true;
    diagnostics_.report(
        Kind::unknown_value, entry->value.where,
        fmt::format("hydrac_lock is {}, and this hydrac reads version {}", describe(entry->value), kVersion),
        kAgain);
    return false;
  }

  void sections(const Node& list, LockFile& lock) {
    if (list.kind != Node::Kind::list) return wrong(list, "sections", "a list");
    for (const Node& item : list.items) {
      if (item.kind != Node::Kind::map) {
        wrong(item, "a section", "a map");
        continue;
      }
      LockSection section = this->section(item);
      if (const LockSection* first = section_of(lock, section.machine))
        diagnostics_.report(Kind::duplicate_key, item.where,
                            fmt::format("two sections are for the same machine; the first begins in line {}",
                                        first->where.line),
                            "remove one of the two");
      lock.sections.push_back(std::move(section));
    }
  }

  LockSection section(const Node& map) {
    LockSection section;
    section.where = map.where;
    for (const Entry& entry : map.entries) {
      if (entry.key == "machine")
        section.machine = facts(entry);
      else if (entry.key == "software")
        section.software = facts(entry);
      else if (entry.key == "measured")
        section.measured = numbers(entry);
      else if (entry.key == "keys")
        section.keys = keys(entry);
      else if (entry.key == "choices")
        section.choices = choices(entry);
      else if (entry.key == "spec")
        for (auto& [name, value] : facts(entry)) section.spec[name] = value;
      else
        unknown(entry, "a section");
    }
    for (const char* name : {"machine", "spec"})
      if (map.find(name) == nullptr) missing(map, name);
    if (map.find("machine") != nullptr && find(section.machine, "target").empty())
      missing(map.find("machine")->value, "target");
    return section;
  }

  Facts facts(const Entry& map) {
    Facts facts;
    if (map.value.kind != Node::Kind::map) return wrong(map.value, map.key, "a map"), facts;
    for (const Entry& entry : map.value.entries) {
      if (entry.value.kind == Node::Kind::scalar)
        facts.emplace_back(entry.key, entry.value.text);
      else
        wrong(entry.value, entry.key, "text");
    }
    return facts;
  }

  Facts numbers(const Entry& map) {
    const size_t before = diagnostics_.errors();
    Facts all = facts(map);
    if (diagnostics_.errors() != before) return all;
    for (const Entry& entry : map.value.entries) {
      const spec::Scalar value = scalar_value(entry.value);
      if (!std::holds_alternative<int64_t>(value) && !std::holds_alternative<double>(value))
        wrong(entry.value, entry.key, "a number");
    }
    return all;
  }

  std::vector<LockedKey> keys(const Entry& map) {
    std::vector<LockedKey> keys;
    if (map.value.kind != Node::Kind::map) return wrong(map.value, "keys", "a map"), keys;
    for (const Entry& entry : map.value.entries) {
      if (!may_be_locked(entry.key)) {
        diagnostics_.report(Kind::unknown_key, entry.where,
                            fmt::format("a lock file cannot set {}", diag::printable(entry.key)),
                            "it sets what changes speed and memory alone; write other keys into the spec");
        continue;
      }
      if (is_value_or_list(entry.value))
        keys.push_back({entry.key, text_of(entry.value), entry.value});
      else
        wrong(entry.value, entry.key, "a value or a list of values");
    }
    return keys;
  }

  // A value as it is printed again; what a key takes is checked where it is laid over a spec.
  static std::string text_of(const Node& node) {
    if (node.kind != Node::Kind::list) return node.quoted ? spec::yaml_text(node.text) : node.text;
    std::string text;
    for (const Node& item : node.items) text += (text.empty() ? "" : ", ") + spec::yaml_text(item.text);
    return "[" + text + "]";
  }

  static bool is_value_or_list(const Node& node) {
    const auto is_scalar = [](const Node& n) { return n.kind == Node::Kind::scalar; };
    return is_scalar(node) || (node.kind == Node::Kind::list && std::ranges::all_of(node.items, is_scalar));
  }

  runtime::RecordedChoices choices(const Entry& map) {
    runtime::RecordedChoices choices;
    if (map.value.kind != Node::Kind::map) return wrong(map.value, "choices", "a map"), choices;
    for (const Entry& entry : map.value.entries) {
      for (auto& [name, value] : facts(entry)) choices.set(entry.key, name, value);
    }
    return choices;
  }

  void unknown(const Entry& entry, const char* in) {
    diagnostics_.report(Kind::unknown_key, entry.where,
                        fmt::format("there is no key {} in {}", diag::printable(entry.key), in), kAgain);
  }
  void missing(const Node& map, const std::string& name) {
    diagnostics_.report(Kind::missing_key, map.where, fmt::format("{} is missing", name), kAgain);
  }
  void wrong(const Node& node, const std::string& name, const char* wanted) {
    diagnostics_.report(Kind::wrong_type, node.where,
                        fmt::format("{} takes {}, not {}", diag::printable(name), wanted, describe(node)),
                        kAgain);
  }

  diag::Diagnostics& diagnostics_;
};

}  // namespace

std::optional<LockFile> parse_lock(const std::string& path, const std::string& text,
                                   diag::Diagnostics& diagnostics) {
  const size_t before = diagnostics.errors();
  const std::optional<Node> root = spec::parse_map(path, text, diagnostics);
  if (!root || diagnostics.errors() != before) return std::nullopt;
  return LockParser(diagnostics).file(*root);
}

std::optional<LockFile> read_lock(const std::string& path, diag::Diagnostics& diagnostics) {
  const std::optional<std::string> text = spec::read_source(path, {path, 0, 0}, diagnostics);
  return text ? parse_lock(path, *text, diagnostics) : std::nullopt;
}

}  // namespace hydrac::tune
