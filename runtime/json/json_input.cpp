#include "runtime/json/json_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr int kMaxDepth = 64;

// Position of byte `at`: "column 14" for text on one line, else "line 3, column 14".
std::string position(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, std::min(at, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const std::string column = fmt::format("column {}", before.size() - line_begin + 1);
  return text.find('\n') == std::string_view::npos ? column : fmt::format("line {}, {}", line, column);
}

// Before parsing, because a value nested a million deep costs its memory while it is built.
void check_depth(std::string_view text, const std::string& shown_as) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) {
        throw InputError(fmt::format("{}: JSON nested deeper than {} levels at {}", shown_as, kMaxDepth,
                                     position(text, i)));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Takes all values and keeps none, to learn where a text stops being JSON.
class FirstError : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override {
    is_number = dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr;
    at = position - std::min(position, is_number ? token.size() : 1);
    return false;
  }

  size_t at = 0;           // byte
  bool is_number = false;  // one too large for 64-bit floating point
};

template <class Json>
Json parse_as(std::string_view text, const std::string& shown_as) {
  check_depth(text, shown_as);
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_discarded()) return value;
  FirstError error;
  nlohmann::json::sax_parse(text, &error);
  if (error.is_number)
    throw InputError(fmt::format("{}: the number at {} is too large", shown_as, position(text, error.at)));
  if (error.at >= text.size())
    throw InputError(fmt::format("{}: not valid JSON: it ends too early", shown_as));
  throw InputError(fmt::format("{}: not valid JSON at {}", shown_as, position(text, error.at)));
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& shown_as) {
  return parse_as<nlohmann::json>(text, shown_as);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& shown_as) {
  return parse_as<nlohmann::ordered_json>(text, shown_as);
}

}  // namespace hydrac::runtime
