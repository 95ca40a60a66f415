#include "runtime/cache/recorded_choices.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

void RecordedChoices::set(const std::string& section, const std::string& key, std::string value) {
  sections_[section][key] = std::move(value);
}

bool RecordedChoices::empty() const {
  return sections_.empty();
}

bool RecordedChoices::operator==(const RecordedChoices& other) const {
  return sections_ == other.sections_;
}

void RecordedChoices::add(const RecordedChoices& other) {
  for (const auto& [name, section] : other.sections_) sections_[name] = section;
}

std::optional<std::string> RecordedChoices::find(const std::string& section, const std::string& key) const {
  const auto found = sections_.find(section);
  if (found == sections_.end()) return std::nullopt;
  const auto entry = found->second.find(key);
  return entry == found->second.end() ? std::nullopt : std::optional(entry->second);
}

std::string RecordedChoices::to_json() const {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, section] : sections_) object[name] = section;
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

RecordedChoices RecordedChoices::from_json(std::string_view text, const std::string& label) {
  const nlohmann::json object = parse_json(text, label);
  RecordedChoices choices;
  const auto damaged = [&] {
    return InputError(fmt::format("{}: is no JSON object of sections of text; the file is damaged", label));
  };
  if (!object.is_object()) throw damaged();
  for (const auto& [name, section] : object.items()) {
    if (!section.is_object()) throw damaged();
    choices.sections_[name];
    for (const auto& [key, value] : section.items()) {
      if (!value.is_string()) throw damaged();
      choices.set(name, key, value.get<std::string>());
    }
  }
  return choices;
}

std::vector<std::string> differences(const RecordedChoices& a, const RecordedChoices& b,
                                     std::string_view first, std::string_view second) {
  std::set<std::pair<std::string, std::string>> all;
  for (const RecordedChoices* choices : {&a, &b}) {
    for (const auto& [name, section] : choices->sections()) {
      for (const auto& [key, value] : section) all.emplace(name, key);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [section, key] : all) {
    const auto before = a.find(section, key), after = b.find(section, key);
    if (before == after) continue;
    lines.push_back(fmt::format("{} {}: {} {}, {} {}", section, key, before.value_or("nothing"), first,
                                after.value_or("nothing"), second));
  }
  return lines;
}

}  // namespace hydrac::runtime
