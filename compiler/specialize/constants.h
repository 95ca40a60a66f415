// Named constants for the values that template parameters were bound to.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hydrac::specialize {

// A value that code calls by a name: `constexpr int kHeadDim = 64;`.
struct Constant {
  std::string source;  // what it was called: head_dim
  std::string
      owner;  // whose it was: AttentionConfig; makes the name unique where two values want the same one
  std::string type;
  std::string value;
  std::string comment;  // "// tokens", or nothing
};

// Stands in a text for a constant until all names are known.
std::string mark_of(const Constant& constant);

// The words of code outside of // comments and marks.
std::set<std::string> words_of(const std::string& text);

struct NamedConstants {
  struct Declared {
    std::string name, value;
    std::string line;  // its declaration
  };
  std::vector<Declared> declared;  // in the order of first use
  std::string text;                // with names in the place of marks

  std::string declarations() const;
};

// Gives each marked constant a name that is new in `text` and `before` and not one of `taken`: kHeadDim, else
// kAttentionConfigHeadDim. Equal names with equal values are one constant, also if `before`, the text that
// precedes this one, has declared it.
NamedConstants name_constants(const std::string& text, const NamedConstants& before = {},
                              std::set<std::string> taken = {});

}  // namespace hydrac::specialize
