// Names of tests that are instantiated for names with dashes.
#pragma once
#include <algorithm>
#include <string>

namespace hydrac::test {

// GoogleTest's names have no dashes: "gpt2_124m" of "gpt2-124m".
inline std::string without_dashes(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace hydrac::test
