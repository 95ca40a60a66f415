#include "specialize/edits.h"

#include <algorithm>
#include <stdexcept>

namespace hydrac::specialize {

namespace {

std::string_view trimmed_line(std::string_view text, std::size_t begin) {
  std::string_view line = text.substr(begin, next_line(text, begin) - begin);
  const std::size_t first = line.find_first_not_of(" \t\n");
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

std::size_t skip_blanks(std::string_view text, std::size_t at, std::string_view blanks) {
  const std::size_t found = text.find_first_not_of(blanks, at);
  return found == std::string_view::npos ? text.size() : found;
}

}  // namespace

std::string edited(std::string_view text, std::size_t begin, std::size_t end, std::vector<Edit> edits) {
  std::erase_if(edits, [&](const Edit& edit) { return edit.end <= begin || edit.begin >= end; });
  // Outer ones first.
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::string result;
  std::size_t at = begin;
  for (const Edit& edit : edits) {
    if (edit.end <= at && edit.begin < at) continue;  // inside the one before
    if (edit.begin < at || edit.end > end)
      throw std::logic_error(
          "two edits overlap in part: \"" + std::string(text.substr(edit.begin, edit.end - edit.begin)) +
          "\" and what ends with \"" +
          std::string(text.substr(begin, at - begin)).substr(at - begin > 80 ? at - begin - 80 : 0) + "\"");
    result.append(text.substr(at, edit.begin - at)).append(edit.text);
    at = edit.end;
  }
  return result.append(text.substr(at, end - at));
}

std::size_t line_begin(std::string_view text, std::size_t at) {
  if (at == 0) return 0;
  const std::size_t newline = text.rfind('\n', at - 1);
  return newline == std::string_view::npos ? 0 : newline + 1;
}

std::size_t next_line(std::string_view text, std::size_t at) {
  const std::size_t newline = text.find('\n', at);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

std::size_t comment_begin(std::string_view text, std::size_t at) {
  std::size_t begin = line_begin(text, at);
  while (begin > 0) {
    const std::size_t above = line_begin(text, begin - 1);
    if (!trimmed_line(text, above).starts_with("//")) break;
    begin = above;
  }
  return begin;
}

std::size_t statement_end(std::string_view text, std::size_t at) {
  std::size_t end = skip_blanks(text, at, " \t\n");
  end = end < text.size() && text[end] == ';' ? end + 1 : at;
  const std::size_t comment = skip_blanks(text, end, " \t");
  if (text.substr(comment).starts_with("//")) end = next_line(text, comment) - 1;
  return end;
}

}  // namespace hydrac::specialize
