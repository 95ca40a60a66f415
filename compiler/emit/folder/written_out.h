// Lines of code that say the same, though one of them names a value that the other writes out.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace hydrac::emit {

// Names and what they stand for, the later of which may name the earlier ones.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

// True where `other` is `line` with some of the values written out, in parentheses where they are needed and
// perhaps where they are not. Takes time that grows with the values times the lengths, however they are
// nested.
bool is_written_out(const std::string& line, const std::string& other, const NamedValues& values);

}  // namespace hydrac::emit
