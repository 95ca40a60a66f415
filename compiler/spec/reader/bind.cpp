#include "spec/reader/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "diag/render.h"
#include "diag/suggest.h"
#include "spec/keys/key_table.h"
#include "spec/keys/other_names.h"
#include "spec/layers.h"
#include "spec/reader/convert.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

// The key that is meant where a section has one value instead of keys, as in `optimizer: adamw`.
struct MainKey {
  std::string_view section, key;
};
constexpr auto kMainKeys = std::to_array<MainKey>({
    {"adapter", "type"},
    {"data", "path"},
    {"model", "from"},
    {"model.mod", "capacity"},
    {"model.mor", "recursions"},
    {"model.rope_scaling", "factor"},
    {"objective", "name"},
    {"output", "dir"},
    {"parallel", "data"},
    {"sample", "prompt"},
    {"train.lr_scheduler", "name"},
    {"train.optimizer", "name"},
});

// A file with more errors than this is no spec with slips in it, and guessing what each key means takes long.
constexpr size_t kMostGuesses = 100;

std::string last_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? path : path.substr(dot + 1));
}

std::string parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? "" : path.substr(0, dot));
}

// Names that may stand directly in `section`.
std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  for (const KeyRow& row : key_rows())
    if (row.section == section) names.push_back(row.name);
  for (const SectionRow& row : section_rows())
    if (row.parent == section) names.push_back(row.name);
  return names;
}

std::vector<std::string> names_everywhere() {
  std::vector<std::string> names;
  for (const KeyRow& row : key_rows()) names.push_back(row.name);
  for (const SectionRow& row : section_rows()) names.push_back(row.name);
  return names;
}

// All keys and sections called `name`.
std::vector<std::string> paths_of(std::string_view name) {
  std::vector<std::string> paths;
  for (const KeyRow& row : key_rows())
    if (row.name == name) paths.push_back(row.path);
  for (const SectionRow& row : section_rows())
    if (row.name == name) paths.push_back(row.path);
  return paths;
}

bool is_users_own(std::string_view key) {
  return key.starts_with("x-");
}

std::string as_section(std::string_view section, const Node& value) {
  const auto main = std::ranges::find(kMainKeys, section, &MainKey::section);
  if (value.kind == Node::Kind::scalar && main != kMainKeys.end())
    return fmt::format("write {{{}: {}}}", main->key, diag::printable(value.text, 40));
  return "write its keys indented below it, or remove it";
}

// Refuses keys that do not exist and sections that are no maps.
void check_keys(const Node& map, const std::string& section, Draft& draft) {
  for (const Entry& entry : map.entries) {
    if (is_users_own(entry.key)) continue;
    const std::string path = join_path(section, entry.key);
    if (find_section(path) != nullptr) {
      if (entry.value.kind == Node::Kind::map) {
        check_keys(entry.value, path, draft);
        continue;
      }
      draft.diagnostics.report(
          Kind::wrong_type, entry.value.where,
          entry.value.kind == Node::Kind::null
              ? fmt::format("{} takes a map of keys, and there is none", path)
              : fmt::format("{} takes a map of keys, not {}", path, describe(entry.value)),
          as_section(path, entry.value));
      for (const KeyRow& row : key_rows())
        if (row.path.starts_with(path + ".")) draft.broken.insert(row.path);
      continue;
    }
    if (find_key(path) != nullptr) continue;
    const std::string name = diag::printable(entry.key);
    const bool worth_guessing = draft.diagnostics.errors() < kMostGuesses;
    draft.diagnostics.report(Kind::unknown_key, entry.where,
                             section.empty() ? fmt::format("there is no key {}", name)
                                             : fmt::format("there is no key {} in {}", name, section),
                             worth_guessing ? meant_key(path) : "");
  }
}

// The entry at `path`, or nullptr.
const Entry* find_entry(const Node& root, std::string_view path) {
  const Node* map = &root;
  for (;;) {
    const size_t dot = path.find('.');
    const Entry* entry = map->find(path.substr(0, dot));
    if (entry == nullptr || dot == std::string_view::npos) return entry;
    map = &entry->value;
    path.remove_prefix(dot + 1);
  }
}

// `instead`: what may be written in its place.
void report_missing(const Node& root, const KeyRow& row, Draft& draft, std::string_view instead = "") {
  draft.broken.insert(row.path);
  if (!draft.whole) return;
  const Entry* section = row.section.empty() ? nullptr : find_entry(root, row.section);
  draft.diagnostics.report(
      Kind::missing_key, section != nullptr ? section->where : draft.top, row.path + " is missing",
      row.section.empty()
          ? fmt::format("add `{}: ...`. {}", row.name, row.doc)
          : fmt::format("add `{}: ...`{} under {}. {}", row.name, instead, row.section, row.doc));
}

// True if something else may stand in for a required key: epochs for max_steps (check_length), a global batch
// for the micro-batch.
bool has_alternative(const Node& root, const KeyRow& row) {
  if (row.section == kLength.section && row.name == kLength.one) return true;
  const auto written = [&](std::string_view name) {
    return find_entry(root, join_path(kGlobalBatch.section, name)) != nullptr;
  };
  if (row.path == "data.path") return find_entry(root, "data.mix") != nullptr;
  return row.path == "train.micro_batch_size" && (written(kGlobalBatch.one) || written(kGlobalBatch.other));
}

// A run is as long as one of two keys says.
void check_length(const Node& root, Draft& draft) {
  const std::string steps = join_path(kLength.section, kLength.one),
                    epochs = join_path(kLength.section, kLength.other);
  if (!draft.usable({steps, epochs})) {
    draft.broken.insert(steps);
    return;
  }
  if (draft.spec.is_set(steps) && draft.spec.is_set(epochs)) {
    draft.report(Kind::steps_and_epochs, {epochs},
                 fmt::format("{} and {} both say how long the run is", steps, epochs), "remove one of them");
    draft.broken.insert({steps, epochs});
  } else if (!draft.spec.is_set(steps) && !draft.spec.is_set(epochs)) {
    report_missing(root, *find_key(steps), draft, ", or `epochs: ...`");
  }
}

}  // namespace

void bind(const Node& root, Draft& draft) {
  check_keys(root, "", draft);
  visit_keys(draft.spec, [&](const KeyRow& row, auto& field) {
    const Entry* entry = find_entry(root, row.path);
    if (entry == nullptr) {
      if (row.required && !draft.broken.contains(row.path) && !has_alternative(root, row))
        report_missing(root, row, draft);
      return;
    }
    draft.spec.set_where(row.path, entry->value.where);
    if (!convert(entry->value, row, field, draft.diagnostics)) draft.broken.insert(row.path);
  });
  check_length(root, draft);
}

std::string meant_key(std::string_view path) {
  const std::string name = last_part(path);
  const std::string section = parent_of(path);
  const auto did_you_mean = [](std::string_view key) { return fmt::format("did you mean {}?", key); };
  if (section == "train.lr_scheduler" && (name == "cpp" || name == "function"))
    return "a curve of your own is name: {cpp: FILE, function: NAME}";
  if (const std::string known = instead_of_name(name); !known.empty()) return known;
  if (const std::string sibling = diag::nearest(name, names_in(section)); !sibling.empty())
    return did_you_mean(sibling);
  const std::string elsewhere = diag::nearest(name, names_everywhere());
  std::vector<std::string> places = paths_of(elsewhere);
  constexpr size_t kMostPlaces = 4;
  if (!places.empty() && places.size() <= kMostPlaces) return did_you_mean(diag::one_of(places));
  return section.empty() ? "keys of your own begin with x-"
                         : fmt::format("{} has {}; keys of your own begin with x-", section,
                                       fmt::join(names_in(section), ", "));
}

}  // namespace hydrac::spec
