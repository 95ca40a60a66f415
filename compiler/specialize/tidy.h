// Drops from a specialized text what its entry does not use.
#pragma once
#include <set>
#include <string>

#include "specialize/parse.h"

namespace hydrac::specialize {

// Stands before a comment that is about all that follows it up to the next such comment.
constexpr char kHeadMark[] = "//\4\n";
// Stands between the parts of a text; it stays.
constexpr char kPartMark[] = "//\5\n";

// Sources with a common beginning: each is `shared` followed by its own text.
struct Texts {
  std::string shared;
  struct Own {
    std::string text;
    std::set<std::string> roots;  // names of what is used from outside
  };
  std::vector<Own> own;
};

// Removes declarations that the roots do not reach, unnamed local constants and aliases, calls of functions
// that do nothing, unused includes, and comments that head nothing. Code goes only if it is unused for each
// of `processors`, and shared code only if it is unused in each source. `request` is what to parse with; its
// own text and processor do not matter. std::logic_error, with the problems, if the result does not parse.
Texts tidied(Texts texts, ParseRequest request, const std::vector<std::string>& processors);

}  // namespace hydrac::specialize
