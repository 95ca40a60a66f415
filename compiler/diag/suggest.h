// "Did you mean": the nearest of some known words to one that nobody knows.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hydrac::diag {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`. Letters compare
// without case, and `-`, `_` and space are one letter.
size_t edit_distance(std::string_view a, std::string_view b);

// The known word nearest to `word`; ties go to the longest common beginning. "" if none is near enough: a
// word with another digit or first letter is another word.
std::string nearest(std::string_view word, std::span<const std::string> known);

// "a", "a or b", "a, b or c".
std::string one_of(std::span<const std::string> words);

}  // namespace hydrac::diag
