// Tokens that are found in text before any splitting or merging: <|endoftext|> and the like.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrac::runtime {

struct AddedToken {
  std::string content;  // UTF-8, not empty
  int32_t id = 0;
  bool special = false;
  bool normalized = false;   // looked for in normalized text rather than in the text as it came
  bool single_word = false;  // only between characters that are no word's
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
};

// Finds the longest token at each place, from left to right.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  AddedTokenMatcher(AddedTokenMatcher&&) = default;  // not copied: nodes point into tokens_
  AddedTokenMatcher& operator=(AddedTokenMatcher&&) = default;

  bool empty() const { return tokens_.empty(); }
  // Calls visit(std::string_view stretch, const AddedToken* token) for the stretches of well-formed `text` in
  // order; token is null for those that are no added token. Stretches without token are not empty.
  template <typename Visit>
  void for_each_stretch(std::string_view text, Visit&& visit) const {
    size_t covered = 0;
    for (Found found{0, 0, 0, nullptr}; find(text, covered, found);) {
      if (covered < found.begin) visit(text.substr(covered, found.begin - covered), nullptr);
      visit(text.substr(found.begin, found.end - found.begin), found.token);
      covered = found.end;
    }
    if (covered < text.size()) visit(text.substr(covered), nullptr);
  }

 private:
  struct Found {
    size_t next;  // where the search goes on
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  struct Node {
    std::vector<std::pair<char, int32_t>> children;  // byte, node
    const AddedToken* token = nullptr;               // that ends here
  };
  bool find(std::string_view text, size_t covered, Found& found) const;
  const AddedToken* longest_at(std::string_view text, size_t at) const;
  int32_t child(int32_t node, char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;         // a trie; node 0 is its root
  std::array<bool, 256> begins_{};  // bytes that begin some token
};

}  // namespace hydrac::runtime
