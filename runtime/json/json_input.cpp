#include "runtime/json/json_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr int kMaxDepth = 64;

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
        throw InputError(fmt::format("{}: JSON nested deeper than {} levels", shown_as, kMaxDepth));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// "line 3, column 14" of byte `at`.
std::string position(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, std::min(at, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", line, before.size() - line_begin + 1);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& shown_as) {
  check_depth(text, shown_as);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const size_t at = error.byte == 0 ? 0 : error.byte - 1;
    if (at >= text.size()) throw InputError(fmt::format("{}: not valid JSON: it ends too early", shown_as));
    throw InputError(fmt::format("{}: not valid JSON at {}", shown_as, position(text, at)));
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    throw InputError(fmt::format("{}: not valid JSON: {}", shown_as, error.what()));
  }
}

}  // namespace hydrac::runtime
