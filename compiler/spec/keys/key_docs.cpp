#include <fmt/format.h>
#include <fmt/ranges.h>

#include <type_traits>

#include "spec/keys/key_table.h"
#include "spec/keys/schema.h"
#include "spec/reader/convert.h"
#include "spec/reader/scalar.h"

namespace hydrac::spec {
namespace {

template <class T>
std::string takes(const KeyRow& row) {
  const auto bounded = [&](const char* what) {
    return row.rule.bounded() ? fmt::format("{}, {}", what, range_text(row.rule)) : std::string(what);
  };
  if constexpr (std::is_same_v<T, bool>) return "true, false";
  if constexpr (std::is_same_v<T, int64_t>) return bounded("whole number");
  if constexpr (std::is_same_v<T, BatchSize>) return "auto, or " + bounded("whole number");
  if constexpr (std::is_same_v<T, double>) return bounded("number");
  if constexpr (std::is_same_v<T, LearningRate>) return "auto, or " + bounded("number");
  if constexpr (std::is_same_v<T, Share>) return "true, false, or " + bounded("number");
  if constexpr (std::is_same_v<T, std::string>) return "text";
  if constexpr (std::is_same_v<T, StringList>) return "text or list of texts";
  if constexpr (std::is_same_v<T, Sources>)
    return std::string("map of names to paths, or to {path: PATHS") +
           (row.name == "mix" ? ", weight: W, epochs: E}" : "}");
  if constexpr (std::is_same_v<T, NamedValues>) return "map of names to values";
  if constexpr (std::is_same_v<T, CoreList>)
    return "none, cores such as 3 or 0-3, each " + range_text(row.rule) + ", or a list of them";
  if constexpr (std::is_same_v<T, Betas>) return bounded("two numbers");
  if constexpr (std::is_same_v<T, Numbers>) return "list of numbers, each " + range_text(row.rule);
  if constexpr (std::is_same_v<T, Recompute>) return "none, block, auto, or list of norm, act, attn, mlp";
  if constexpr (std::is_enum_v<T>) return fmt::format("{}", fmt::join(spellings(enum_values(T{})), ", "));
  if constexpr (is_word_or_function<T>)
    return fmt::format("{}, or a function: {{cpp: FILE, function: NAME}}",
                       fmt::join(spellings(enum_values(typename T::Word{})), ", "));
}

std::string shown(bool value) {
  return value ? "true" : "false";
}
std::string shown(int64_t value) {
  return fmt::format("{}", value);
}
std::string shown(double value) {
  return yaml_number(value);
}
std::string shown(const std::string& value) {
  return value.empty() ? "none" : value;
}
std::string shown(const StringList& value) {
  return value.empty() ? "none" : fmt::format("{}", fmt::join(value, ", "));
}
std::string shown(const Betas& value) {
  return fmt::format("[{}, {}]", yaml_number(value[0]), yaml_number(value[1]));
}
std::string shown(const Numbers& value) {
  return value.empty() ? "none" : fmt::format("{}", fmt::join(value, ", "));
}
std::string shown(const BatchSize&) {
  return "auto";
}
std::string shown(const LearningRate& rate) {
  return yaml_number(rate.value);
}
std::string shown(const Share& share) {
  return shown(share.any());
}
std::string shown(const Sources&) {
  return "none";
}
std::string shown(const NamedValues&) {
  return "none";
}
std::string shown(const CoreList&) {
  return "none";
}
std::string shown(const Recompute&) {
  return "none";
}
template <class E>
requires std::is_enum_v<E> std::string shown(E value) {
  return std::string(to_string(value));
}

template <class E>
std::string shown(const WordOrFunction<E>& value) {
  return shown(value.word);
}

template <class T>
std::string default_text(const KeyRow& row, const T& value) {
  if (row.required) return "required";
  return row.derived.empty() ? shown(value) : std::string(row.derived);
}

std::string section_markdown(const std::string& section) {
  std::string text = "| key | takes | default | |\n| --- | --- | --- | --- |\n";
  const SpecKeys defaults;
  visit_keys(defaults, [&](const KeyRow& row, const auto& field) {
    if (row.section != section) return;
    using T = std::decay_t<decltype(field)>;
    text +=
        fmt::format("| `{}` | {} | {} | {} |\n", row.name, takes<T>(row), default_text(row, field), row.doc);
  });
  return text;
}

std::string enum_markdown(std::string_view type, std::span<const EnumValue> values) {
  std::string text = fmt::format("\n{}:\n\n", type);
  for (const EnumValue& value : values) text += fmt::format("- `{}`: {}\n", value.spelling, value.doc);
  return text;
}

std::string words_help(std::span<const EnumValue> values) {
  std::string text;
  for (const EnumValue& value : values) text += fmt::format("    {}: {}\n", value.spelling, value.doc);
  return text;
}

}  // namespace

std::string keys_markdown() {
  std::string text =
      "# The keys of a spec\n\nGenerated from compiler/spec/keys/keys.def. Keys that begin with `x-` are "
      "your "
      "own, "
      "anywhere.\nWhere a key takes a function, it is one of your own in C++: see "
      "[functions.md](functions.md).\n\n";
  text +=
      "A key that you write and that changes nothing, given the others, is a warning, because a base that "
      "several specs "
      "extend may hold keys that only some of them use. A key that asks for what the target or another key "
      "makes "
      "impossible is an error: nothing else runs in its place.\n\n"
      "Files and folders to read, and patterns of them, are relative to the folder of the file that names "
      "them; on the command line, to the "
      "working folder. `output.dir` and `data.cache_dir`, which are written, are always relative to the "
      "working folder.\n\n"
      "Numbers are YAML 1.2's (`6e-4`); resolved specs write them so that YAML 1.1 reads them alike "
      "(`6.0e-04`).\n\n";
  text += section_markdown("");
  for (const SectionRow& section : section_rows())
    text += fmt::format("\n## {}\n\n{}\n\n{}", section.path, section.doc, section_markdown(section.path));
  text += "\n## Words\n";
  const SpecKeys defaults;
  visit_keys(defaults, [&](const KeyRow& row, const auto& field) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_enum_v<T>) text += enum_markdown(fmt::format("`{}`", row.path), enum_values(field));
    if constexpr (is_word_or_function<T>)
      text += enum_markdown(fmt::format("`{}`", row.path), enum_values(field.word));
  });
  return text;
}

std::string key_help(std::string_view name) {
  const auto is_asked = [&](const std::string& path, const std::string& last) {
    return path == name || last == name;
  };
  std::string text;
  const SpecKeys defaults;
  visit_keys(defaults, [&](const KeyRow& row, const auto& field) {
    using T = std::decay_t<decltype(field)>;
    const SectionRow* section = find_section(row.section);
    if (!is_asked(row.path, row.name) && !(section != nullptr && is_asked(section->path, section->name)))
      return;
    text += fmt::format("{}\n  {}\n  takes: {}\n  {}{}\n", row.path, row.doc, takes<T>(row),
                        row.required ? "" : "default: ", default_text(row, field));
    if constexpr (std::is_enum_v<T>) text += words_help(enum_values(field));
    if constexpr (is_word_or_function<T>) text += words_help(enum_values(field.word));
  });
  return text;
}

}  // namespace hydrac::spec
