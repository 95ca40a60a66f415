#include "runtime/text/tokenizer/space_marks.h"
#include "runtime/base/quote.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/json/json_fields.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

bool is_of_type(const json& part, const char* type) {
  return part.is_object() && part.value("type", json()) == type;
}

// Sequence [Prepend the mark, Replace " " by it].
bool marks_while_normalizing(const json& normalizer) {
  if (!is_of_type(normalizer, "Sequence")) return false;
  const json& members = json_field(normalizer, "normalizers");
  if (!members.is_array() || members.size() != 2) return false;
  return is_of_type(members[0], "Prepend") && members[0].value("prepend", json()) == kSpaceMark &&
         is_of_type(members[1], "Replace") && json_field(members[1], "pattern") == json{{"String", " "}} &&
         members[1].value("content", json()) == kSpaceMark;
}

SpaceMarks read_metaspace(const json& config, const std::string& shown_as) {
  const auto fail = [&](const std::string& what) { throw InputError(fmt::format("{}: {}", shown_as, what)); };
  if (json_string(config, "replacement", "", shown_as) != kSpaceMark)
    fail("a Metaspace with another replacement than U+2581 is not supported");
  SpaceMarks marks{.splits = json_bool(config, "split", true, shown_as)};
  // Older files say it with a truth value.
  const char* scheme_of_old = json_bool(config, "add_prefix_space", true, shown_as) ? "always" : "never";
  const std::string scheme = json_string(config, "prepend_scheme", scheme_of_old, shown_as);
  if (scheme == "always")
    marks.prefix = SpaceMarks::Prefix::each;
  else if (scheme == "first")
    marks.prefix = SpaceMarks::Prefix::first;
  else if (scheme == "never")
    marks.prefix = SpaceMarks::Prefix::never;
  else
    fail(fmt::format("the prepend_scheme {} of Metaspace is unknown", in_quotes(scheme)));
  return marks;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

SpaceMarks read_space_marks(const json& root, const std::string& shown_as) {
  const json &normalizer = json_field(root, "normalizer"), &pre_tokenizer = json_field(root, "pre_tokenizer");
  if (pre_tokenizer.is_null() && marks_while_normalizing(normalizer)) return {};
  if (normalizer.is_null() && is_of_type(pre_tokenizer, "Metaspace"))
    return read_metaspace(pre_tokenizer, shown_as);
  throw InputError(
      fmt::format("{}: BPE with byte_fallback is supported with a normalizer that marks spaces (Prepend and "
                  "Replace, as of Llama 2), "
                  "or with Metaspace as pre_tokenizer, and this file has neither alone",
                  shown_as));
}

std::string with_space_marks(std::string_view text, SpaceMarks::Prefix prefix, bool is_first) {
  using Prefix = SpaceMarks::Prefix;
  const bool has_mark = text.starts_with(' ') || text.starts_with(kSpaceMark);
  const bool wants_mark = prefix == Prefix::always ||
                          (!has_mark && (prefix == Prefix::each || (prefix == Prefix::first && is_first)));
  std::string marked(wants_mark ? kSpaceMark : "");
  marked.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ')
      marked += kSpaceMark;
    else
      marked += c;
  }
  return marked;
}

std::string without_space_marks(std::string_view token) {
  std::string text;
  while (!token.empty()) {
    const size_t mark = token.find(kSpaceMark);
    text += token.substr(0, mark);
    if (mark == std::string_view::npos) break;
    text += ' ';
    token.remove_prefix(mark + kSpaceMark.size());
  }
  return text;
}

std::optional<unsigned char> byte_named(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(16 * high + low);
}

}  // namespace hydrac::runtime
