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

// `roots` names what is used from outside. Declarations that they do not reach, local constants and aliases
// that nothing names, calls of functions that do nothing, includes that nothing is used of and comments at
// heads of nothing go. A thing goes when it is unused for each of `processors`. `request` is what to parse
// with; its own text and processor do not matter. std::logic_error, with the problems, when the result does
// not parse.
std::string tidied(std::string text, ParseRequest request, const std::vector<std::string>& processors,
                   const std::set<std::string>& roots);

}  // namespace hydrac::specialize
