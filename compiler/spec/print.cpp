#include "spec/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <vector>

#include "runtime/base/quote.h"
#include "spec/keys/key_table.h"
#include "spec/reader/paths.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {
namespace {

using Json = nlohmann::ordered_json;

// Applied already, so that what they brought in is printed instead; or not known before the data is.
bool is_left_out(const KeyRow& row, const Spec& spec) {
  if (row.path == "extends" || row.path == "model.from") return true;
  const bool of_items =
      row.path == "data.train_on" || row.path.starts_with("data.chat_") || row.path == "data.too_long";
  if (of_items) return spec.data.format != DataFormat::chat;
  if (row.path == "model.weights") return !begins_with_weights(spec);
  if (row.path == "objective.embed_layer") return spec.objective.embed != "model";
  // A program is the same whatever the tuner may try.
  if (row.section == "tune") return spec.tune == Tune{};
  if (row.section == "profile") return spec.profile == Profile{};
  if (row.path == "data.path") return !spec.data.mix.empty();
  if (row.path == "data.fields") return spec.data.fields.empty();
  if (row.path == "data.mix") return spec.data.mix.empty();
  if (row.path == "data.val") return spec.data.val.empty();
  if (row.section == "data.curriculum") return spec.data.curriculum.steps == 0;
  if (row.path == "optimizations.fit") return !waits_for_fit(spec);
  if (row.path == "train.epochs") return !waits_for_data(spec);
  if (row.path == "train.max_steps") return waits_for_data(spec);
  // A batch is printed as the two keys that it is made of; before they are chosen, as the one that says its
  // size.
  if (row.path == "train.global_batch_tokens") return true;
  if (row.path == "train.global_batch_size") return !waits_for_plan(spec);
  if (row.path == "train.gradient_accumulation_steps") return waits_for_plan(spec);
  return row.path == "train.lr_scheduler.decay_steps" && waits_for_data(spec) && !spec.is_set(row.path);
}

// Text that every YAML reader takes for text without quotes.
bool is_plain(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto inner = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
  };
  if (text.empty() || !letter(text[0]) || !std::all_of(text.begin(), text.end(), inner)) return false;
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  constexpr auto kWords =
      std::to_array<std::string_view>({"true", "false", "null", "yes", "no", "on", "off", "y", "n"});
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

// A JSON string is one of YAML too.
std::string yaml(const std::string& text) {
  return is_plain(text) ? text : runtime::in_quotes(text, text.size());
}

std::string yaml(bool value) {
  return value ? "true" : "false";
}
std::string yaml(int64_t value) {
  return fmt::format("{}", value);
}
std::string yaml(const BatchSize& size) {
  return size.automatic() ? "auto" : yaml(size.value);
}
std::string yaml(double value) {
  return yaml_number(value);
}
std::string yaml(const LearningRate& rate) {
  return rate.automatic ? "auto" : yaml_number(rate.value);
}
std::string yaml(const Share& share) {
  return to_string(share);
}
// [0-3, 8]: neighbours as a range, in the order of the list.
std::string yaml(const CoreList& cores) {
  if (cores.numbers.empty()) return "none";
  std::vector<std::string> parts;
  for (size_t first = 0, next = 0; first < cores.numbers.size(); first = next) {
    next = first + 1;
    while (next < cores.numbers.size() && cores.numbers[next] == cores.numbers[next - 1] + 1) ++next;
    parts.push_back(next == first + 1 ? fmt::format("{}", cores.numbers[first])
                                      : fmt::format("{}-{}", cores.numbers[first], cores.numbers[next - 1]));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}
std::string yaml(const Betas& betas) {
  return fmt::format("[{}, {}]", yaml_number(betas[0]), yaml_number(betas[1]));
}

std::string yaml(const Numbers& numbers) {
  std::vector<std::string> items;
  for (const double number : numbers) items.push_back(yaml_number(number));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// Weight and epochs, unless they are the usual ones.
std::string shares_text(const Source& source) {
  std::string text;
  if (source.weight != 1) text += ", weight: " + yaml_number(source.weight);
  if (source.epochs != 0) text += ", epochs: " + yaml_number(source.epochs);
  return text;
}

std::string yaml(const StringList& list) {
  std::vector<std::string> items;
  for (const std::string& item : list) items.push_back(yaml(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string yaml(const Sources& sources) {
  std::vector<std::string> items;
  for (const Source& source : sources)
    items.push_back(
        fmt::format("{}: {{path: {}{}}}", yaml(source.name), yaml(source.path), shares_text(source)));
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

// JSON is YAML too.
std::string yaml(const NamedValues& values) {
  std::vector<std::string> items;
  for (const NamedValue& value : values) items.push_back(fmt::format("{}: {}", yaml(value.name), value.json));
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

std::vector<std::string> parts_of(const Recompute& value) {
  std::vector<std::string> parts;
  if (value.norm) parts.emplace_back("norm");
  if (value.act) parts.emplace_back("act");
  if (value.attn) parts.emplace_back("attn");
  if (value.mlp) parts.emplace_back("mlp");
  if (value.qk_norm) parts.emplace_back("qk_norm");
  return parts;
}

std::string_view mode_word(Recompute::Mode mode) {
  return mode == Recompute::Mode::none ? "none" : mode == Recompute::Mode::block ? "block" : "auto";
}

std::string yaml(const Recompute& value) {
  if (value.mode == Recompute::Mode::list) return yaml(parts_of(value));
  return std::string(mode_word(value.mode));
}

template <class E>
requires std::is_enum_v<E> std::string yaml(E value) {
  return std::string(to_string(value));
}

std::string yaml(const CppFunction& f) {
  return fmt::format("{{cpp: {}, function: {}, text: {}}}", yaml(f.cpp), yaml(f.function), yaml(f.text));
}

template <class E>
std::string yaml(const WordOrFunction<E>& value) {
  return value.function ? yaml(*value.function) : yaml(value.word);
}

Json json(const CppFunction& f) {
  return {{"cpp", f.cpp}, {"function", f.function}, {"text", f.text}};
}

Json json(const BatchSize& size) {
  return size.automatic() ? Json("auto") : Json(size.value);
}

Json json(const LearningRate& rate) {
  return rate.automatic ? Json("auto") : Json(rate.value);
}

Json json(const Share& share) {
  return share == 0 || share == 1 ? Json(share == 1) : Json(share.value);
}

Json json(const Sources& sources) {
  Json all = Json::object();
  for (const Source& source : sources)
    all[source.name] = {{"path", source.path}, {"weight", source.weight}, {"epochs", source.epochs}};
  return all;
}

Json json(const NamedValues& values) {
  Json all = Json::object();
  for (const NamedValue& value : values) all[value.name] = Json::parse(value.json);
  return all;
}

Json json(const CoreList& cores) {
  return cores.numbers.empty() ? Json("none") : Json(cores.numbers);
}

template <class T>
Json json(const T& value) {
  if constexpr (is_word_or_function<T>)
    return value.function ? json(*value.function) : json(value.word);
  else if constexpr (std::is_enum_v<T>)
    return to_string(value);
  else if constexpr (!std::is_same_v<T, Recompute>)
    return value;
  else if (value.mode == Recompute::Mode::list)
    return parts_of(value);
  else
    return mode_word(value.mode);
}

size_t depth_of(const std::string& section) {
  return section.empty() ? 0 : 1 + static_cast<size_t>(std::count(section.begin(), section.end(), '.'));
}

// Paths become what a spec in `folder` says.
template <class T>
void move_paths(T& field, const Rule& rule, const std::filesystem::path& folder) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (rule.is_path && !field.empty() && !is_word(rule, field)) field = path_in(folder, field);
  } else if constexpr (std::is_same_v<T, StringList>) {
    for (std::string& item : field) move_paths(item, rule, folder);
  } else if constexpr (std::is_same_v<T, Sources>) {
    for (Source& source : field) move_paths(source.path, rule, folder);
  }
}

}  // namespace

std::string yaml_text(const std::string& text) {
  return yaml(text);
}

std::string to_string(const Share& share) {
  return share == 0 || share == 1 ? yaml(share == 1) : yaml_number(share.value);
}

std::string to_yaml(const Spec& spec, const std::filesystem::path& folder) {
  std::string text;
  std::set<std::string> opened = {""};
  visit_keys(spec, [&](const KeyRow& row, auto field) {
    if (is_left_out(row, spec)) return;
    move_paths(field, row.rule, folder);
    const size_t depth = depth_of(row.section);
    if (opened.insert(row.section).second)
      text += fmt::format("{}{}:\n", std::string(2 * (depth - 1), ' '), find_section(row.section)->name);
    text += fmt::format("{}{}: {}\n", std::string(2 * depth, ' '), row.name, yaml(field));
  });
  return text;
}

std::string to_json(const Spec& spec) {
  Json root = Json::object();
  visit_keys(spec, [&](const KeyRow& row, const auto& field) {
    if (is_left_out(row, spec)) return;
    std::string pointer = "/" + row.path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    root[Json::json_pointer(pointer)] = json(field);
  });
  return root.dump(2) + "\n";
}

std::string key_json(const Spec& spec, std::string_view path) {
  std::string text;
  visit_keys(spec, [&](const KeyRow& row, const auto& field) {
    if (row.path == path) text = json(field).dump();
  });
  return text;
}

}  // namespace hydrac::spec
