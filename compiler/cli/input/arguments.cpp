#include "cli/input/arguments.h"

#include <fmt/format.h>

#include <charconv>

#include "diag/suggest.h"
#include "runtime/error.h"

namespace hydrac::cli {

std::string long_name(const Option& option) {
  return option.name.substr(0, option.name.find(','));
}

std::optional<std::string> Arguments::value(const std::string& option) const {
  auto found = options.find(option);
  return found == options.end() ? std::nullopt : std::optional(found->second);
}

int64_t Arguments::number(const std::string& option, int64_t fallback) const {
  const std::optional<std::string> text = value(option);
  if (!text) return fallback;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < 0) {
    throw runtime::InputError(fmt::format("{} takes a whole number, not \"{}\"", option, *text));
  }
  return number;
}

int64_t Arguments::count(const std::string& option, int64_t fallback) const {
  const int64_t number = this->number(option, fallback);
  if (number == 0) throw runtime::InputError(fmt::format("{} is 0; it must be 1 or more", option));
  return number;
}

namespace {

const Option* find(const std::vector<Option>& options, const std::string& word) {
  for (const Option& option : options) {
    const size_t comma = option.name.find(',');
    if (word == long_name(option) || (comma != std::string::npos && word == option.name.substr(comma + 1)))
      return &option;
  }
  return nullptr;
}

[[noreturn]] void unknown(const std::string& word, const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(long_name(option));
  const std::string nearest = diag::nearest(word, names);
  throw runtime::InputError(fmt::format("unknown option {}{}", word,
                                        !nearest.empty() ? fmt::format("; did you mean {}?", nearest) : ""));
}

// The value of the switch words[i]: empty, or its one word, behind "=" or as the next of `words`.
std::string switch_value(const Option& option, const std::vector<std::string>& words, size_t& i) {
  const size_t equals = words[i].find('=');
  if (equals == std::string::npos) {
    const bool has_word = !option.word.empty() && i + 1 < words.size() && words[i + 1] == option.word;
    return has_word ? words[++i] : "";
  }
  const std::string name = words[i].substr(0, equals), value = words[i].substr(equals + 1);
  if (option.word.empty()) throw runtime::InputError(name + " takes no value");
  if (value == option.word) return value;
  throw runtime::InputError(fmt::format("{} takes {} or nothing, not \"{}\"", name, option.word, value));
}

// key.path=value, with a key that could be one of the spec's
bool is_override(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 &&
         word.substr(0, equals).find_first_not_of("abcdefghijklmnopqrstuvwxyz_.-0123456789") ==
             std::string::npos;
}

}  // namespace

Arguments parse_arguments(const std::vector<std::string>& words, const std::vector<Option>& options) {
  Arguments arguments;
  bool has_options = true;  // until "--"
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (has_options && word == "--") {
      has_options = false;
      continue;
    }
    if (!has_options || word.size() < 2 || word[0] != '-') {
      (is_override(word) ? arguments.overrides : arguments.positional).push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = find(options, name);
    if (!option) unknown(name, options);
    std::string value;
    if (option->value.empty()) {
      value = switch_value(*option, words, i);
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (++i < words.size()) {
      value = words[i];
    } else {
      throw runtime::InputError(fmt::format("{} needs a value: {}", name, option->value));
    }
    // Texts may be empty; names of files and numbers may not.
    if (value.empty() && !option->value.empty() && option->value != "TEXT")
      throw runtime::InputError(fmt::format("{} needs a value: {}", name, option->value));
    std::string& known = arguments.options[long_name(*option)];
    known = option->repeats && !known.empty() ? known + "," + value : value;
  }
  return arguments;
}

}  // namespace hydrac::cli
