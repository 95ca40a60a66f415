// The lines in which two texts differ, as `diff -u` shows them.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::emit {

struct DiffLine {
  char mark;              // ' ' in both, '-' in the old text only, '+' in the new one only
  std::string_view text;  // with its '\n', which a text's last line may lack
};

// Changes that stand close to each other, with the lines around them.
struct Hunk {
  std::size_t old_begin = 0, new_begin = 0;  // lines before it, in either text
  std::size_t old_lines = 0, new_lines = 0;
  std::vector<DiffLine> lines;
};

// As few removed and added lines as possible (Myers 1986, in linear space). The texts must outlive the
// result. Equal texts have no hunks.
std::vector<Hunk> line_diff(std::string_view old_text, std::string_view new_text, std::size_t context = 3);

// "@@ -3,7 +3,8 @@"
std::string header_of(const Hunk& hunk);

}  // namespace hydrac::emit
