// Changes to a text by ranges of it, so that all that is not touched, comments and layout, stays as it was.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::specialize {

// A place in a source file, the same whichever parse it was seen in.
struct Place {
  int file = -1;
  std::size_t offset = 0;
  auto operator<=>(const Place&) const = default;
};

// Replaces [begin, end), counted in bytes of the unchanged text.
struct Edit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
  auto operator<=>(const Edit&) const = default;
};

// The part [begin, end) of `text` with the edits inside it. An edit overrides the edits within its range;
// std::logic_error if two overlap in part.
std::string edited(std::string_view text, std::size_t begin, std::size_t end, std::vector<Edit> edits);

// Start of the line of `at`; start of the line behind it.
std::size_t line_begin(std::string_view text, std::size_t at);
std::size_t next_line(std::string_view text, std::size_t at);
// Start of the // lines directly above the line of `at`; the line's own start if there are none.
std::size_t comment_begin(std::string_view text, std::size_t at);
// The end of a statement that ends at `at`: after a semicolon that follows, and a // comment on the same
// line.
std::size_t statement_end(std::string_view text, std::size_t at);

}  // namespace hydrac::specialize
