// Where this checkout lies. A function, not a macro on every command line, so that a compiler cache serves
// checkouts elsewhere.
#pragma once
#include <string>

namespace hydrac::test {

std::string source_dir();

}  // namespace hydrac::test
