#include "spec/reader/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>

#include "diag/render.h"

namespace hydrac::spec {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

size_t skip_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

size_t skip_sign(std::string_view text, size_t at) {
  return at < text.size() && (text[at] == '+' || text[at] == '-') ? at + 1 : at;
}

// How much of `text` is a decimal number by the core schema; 0 = none. Sets `whole` for one without . and e.
size_t decimal_length(std::string_view text, bool& whole) {
  const size_t start = skip_sign(text, 0);
  size_t end = skip_digits(text, start);
  size_t digits = end - start;
  whole = true;
  if (end < text.size() && text[end] == '.') {
    const size_t fraction = skip_digits(text, end + 1);
    digits += fraction - end - 1;
    end = fraction;
    whole = false;
  }
  if (digits == 0) return 0;
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const size_t exponent = skip_sign(text, end + 1);
    if (const size_t exponent_end = skip_digits(text, exponent); exponent_end > exponent) {
      end = exponent_end;
      whole = false;
    }
  }
  return end;
}

Scalar parse_int(std::string_view digits, int base) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error == std::errc::result_out_of_range) return Overflow{};
  return value;
}

Scalar parse_double(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc::result_out_of_range) return value;
  // from_chars does not say which end of the range it was.
  if (std::abs(std::strtod(std::string(text).c_str(), nullptr)) < 1) return Underflow{};
  const double infinity = std::numeric_limits<double>::infinity();
  return text.starts_with('-') ? -infinity : infinity;
}

// 0o17 and 0x1f.
std::optional<Scalar> parse_based(std::string_view text) {
  if (text.size() < 3 || text[0] != '0' || (text[1] != 'o' && text[1] != 'x')) return std::nullopt;
  const std::string_view digits = text.substr(2);
  const std::string_view allowed = text[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
  if (digits.find_first_not_of(allowed) != std::string_view::npos) return std::nullopt;
  return parse_int(digits, text[1] == 'o' ? 8 : 16);
}

bool any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string number_text(double value) {
  return std::abs(value) < 1e15 && value == static_cast<double>(static_cast<int64_t>(value))
             ? fmt::format("{}", static_cast<int64_t>(value))
             : fmt::format("{}", value);
}

}  // namespace

Scalar scalar_value(const Node& node) {
  const std::string& text = node.text;
  if (node.kind == Node::Kind::null) return Null{};
  if (node.quoted) return text;
  if (any_of(text, {"", "~", "null", "Null", "NULL"})) return Null{};
  if (any_of(text, {"true", "True", "TRUE"})) return true;
  if (any_of(text, {"false", "False", "FALSE"})) return false;
  if (any_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"}))
    return std::numeric_limits<double>::infinity();
  if (any_of(text, {"-.inf", "-.Inf", "-.INF"})) return -std::numeric_limits<double>::infinity();
  if (any_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  if (const auto based = parse_based(text)) return *based;
  bool whole = false;
  if (const size_t length = decimal_length(text, whole); length == 0 || length != text.size()) return text;
  return whole ? parse_int(text, 10) : parse_double(text);
}

std::optional<double> number_of(const Node& node) {
  const Scalar value = scalar_value(node);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  const auto* whole = std::get_if<int64_t>(&value);
  return whole != nullptr ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

bool looks_like_number(std::string_view text) {
  size_t at = skip_sign(text, 0);
  if (at < text.size() && text[at] == '.') ++at;
  return at < text.size() && is_digit(text[at]);
}

std::string meant_number(std::string_view text) {
  std::string joined;
  for (const char c : text)
    if (c != '_' && c != ',' && c != '\'' && c != ' ') joined += c;
  bool whole = false;
  const size_t length = decimal_length(joined, whole);
  if (length == 0) return "";
  if (length == joined.size()) return joined;
  const Scalar number = parse_double(std::string_view(joined).substr(0, length));
  const double value = std::holds_alternative<double>(number) ? std::get<double>(number) : 0;
  const std::string_view unit = std::string_view(joined).substr(length);
  if (any_of(unit, {"k", "K"})) return number_text(value * 1000) + " or " + number_text(value * 1024);
  if (any_of(unit, {"m", "M"})) return number_text(value * 1e6);
  if (any_of(unit, {"b", "B", "g", "G"})) return number_text(value * 1e9);
  if (any_of(unit, {"GiB", "GB", "gib", "gb"})) return number_text(value);  // sizes are keys in GiB
  if (unit == "%") return number_text(value / 100);
  // One stray character is a slip; more of them mean something that we do not know.
  const bool slip = unit.size() == 1 && unit != "e" && unit != "E" && joined != "0x" && joined != "0o";
  return slip ? joined.substr(0, length) : "";
}

std::string yaml_number(double value) {
  std::string text = fmt::format("{}", value);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map of keys";
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::scalar:
      break;
  }
  const Scalar value = scalar_value(node);
  const std::string shown = diag::printable(node.text, 40);
  if (std::holds_alternative<Null>(value)) return "nothing";
  if (std::holds_alternative<std::string>(value)) return fmt::format("the text \"{}\"", shown);
  return std::holds_alternative<bool>(value) ? shown : "the number " + shown;
}

}  // namespace hydrac::spec
