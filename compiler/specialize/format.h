// Lays code out with Clang's own formatter, so that what hydrac writes looks the same whoever printed it.
#pragma once
#include <string>

namespace hydrac::specialize {

// Google's style with lines of 110 columns (a kernel's address arithmetic stays on one line), pointers beside
// their type, and single empty lines, as hydrac's own sources are formatted. String literals are never split,
// since a line of PTX is one instruction. Formatting twice changes nothing.
std::string formatted(const std::string& code);

}  // namespace hydrac::specialize
