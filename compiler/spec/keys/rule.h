// The facts of keys.def about a key beside its type: its default's origin, and the values it takes.
#pragma once
#include <array>
#include <limits>
#include <string>
#include <string_view>

namespace hydrac::spec {

// The user must write the key (in the spec, a base of it, a config.json, or on the command line).
struct Required {};

// The default is computed from other keys; `how` is the rule in words.
struct Derived {
  std::string_view how;
};

// The default column of a row, for a key of type T. `value` is what struct Spec starts with.
template <class T>
struct Default {
  T value{};
  bool required = false;
  std::string_view derived;  // empty: `value` is the default

  Default(Required) : required(true) {}
  Default(Derived d) : derived(d.how) {}
  template <class V>
  Default(V v) : value(v) {}
};

// Values that a key takes: numbers (each element of a list of numbers) between two bounds, text of a certain
// form.
struct Rule {
  enum class Text { any, not_empty, identifier };
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // low itself is not allowed
  bool high_open = false;  // high itself is not allowed
  Text text = Text::any;   // identifier: letters, digits, . _ -, not starting with a dot or dash
  bool is_path =
      false;  // text that names files to read, as spec/reader/paths.h says where they are looked for
  std::array<std::string_view, 2> words = {};  // of a path: what is a word instead
  std::string_view ending = {};                // of a path: any text that ends otherwise is a word

  bool bounded() const { return low != -std::numeric_limits<double>::infinity(); }
  bool allows(double number) const {
    return number >= low && number <= high && !(low_open && number == low) && !(high_open && number == high);
  }
};

// True for a text that is no path, though the key takes paths.
constexpr bool is_word(const Rule& rule, std::string_view text) {
  return !text.empty() && (text == rule.words[0] || text == rule.words[1] || !text.ends_with(rule.ending));
}

constexpr Rule any() {
  return {};
}
constexpr Rule range(double low, double high) {
  return {.low = low, .high = high};
}
constexpr Rule range_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}
constexpr Rule range_above(double low, double high) {
  return {.low = low, .high = high, .low_open = true};
}
constexpr Rule not_empty() {
  return {.text = Rule::Text::not_empty};
}
constexpr Rule identifier() {
  return {.text = Rule::Text::identifier};
}

constexpr Rule path() {
  return {.is_path = true};
}
constexpr Rule path_or(std::string_view word, std::string_view another = "") {
  return {.text = Rule::Text::not_empty, .is_path = true, .words = {word, another}};
}

constexpr Rule path_ending(std::string_view ending) {
  return {.is_path = true, .ending = ending};
}

}  // namespace hydrac::spec
