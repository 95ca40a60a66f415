// Decides which code of a template several entries share.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace hydrac::specialize {

// Some declarations that stay together.
struct Candidate {
  std::set<std::string> names;  // that it declares
  std::set<std::string> words;  // of its text as all entries would have it
  int entries = 0;              // that reach it
  bool differs = false;         // has a text for each entry
  bool is_shared = false;
};

// Code that several entries reach is shared, together with the code that it names. Code that differs is not
// shared, nor is code that names differing code.
void decide_sharing(std::vector<Candidate>& candidates);

}  // namespace hydrac::specialize
