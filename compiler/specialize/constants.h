// Named constants for the values that template parameters were bound to.
#pragma once
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

// A part of a text. A program has one that others may stand behind, and others that do not see each other.
struct TextPart {
  std::string name;  // what its constants can be told apart by: "forward"; may be empty
  std::string text;
};

struct NamedConstants {
  std::string declarations;  // a line each, in the order of first use
  std::string text;          // with names in the place of marks
};

// Gives each marked constant a name that nothing in the parts has yet: kHeadDim; kForwardHeadDim where parts
// have other values for it; else kAttentionConfigHeadDim. Equal names with equal values are one constant,
// declared in the part that uses it, or in the first where several do.
std::vector<NamedConstants> name_constants(const std::vector<TextPart>& parts);

}  // namespace hydrac::specialize
