#include "runtime/text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "runtime/base/utf8.h"
#include "runtime/text/unicode.h"

namespace hydrac::runtime {

namespace {

bool is_single_word(std::string_view text, size_t begin, size_t end) {
  size_t at = end;
  return (begin == 0 || !is_word(previous_code_point(text, begin))) &&
         (end == text.size() || !is_word(next_code_point(text, at)));
}

size_t skip_space_left(std::string_view text, size_t at) {
  while (at > 0) {
    const char32_t c = previous_code_point(text, at);
    if (!is_white_space(c)) break;
    at -= c < 0x80 ? 1 : c < 0x800 ? 2 : 3;  // no white space lies beyond U+FFFF
  }
  return at;
}

size_t skip_space_right(std::string_view text, size_t at) {
  for (size_t next = at; next < text.size(); at = next) {
    if (!is_white_space(next_code_point(text, next))) break;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (const AddedToken& token : tokens_) {
    int32_t node = 0;
    for (const char byte : token.content) {
      int32_t next = child(node, byte);
      if (next < 0) {
        next = static_cast<int32_t>(nodes_.size());
        nodes_[static_cast<size_t>(node)].children.emplace_back(byte, next);
        nodes_.emplace_back();
      }
      node = next;
    }
    nodes_[static_cast<size_t>(node)].token = &token;
    begins_[static_cast<unsigned char>(token.content.front())] = true;
  }
}

int32_t AddedTokenMatcher::child(int32_t node, char byte) const {
  const auto& children = nodes_[static_cast<size_t>(node)].children;
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const auto& c) { return c.first == byte; });
  return found == children.end() ? -1 : found->second;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t at) const {
  const AddedToken* longest = nullptr;
  for (int32_t node = 0; at < text.size(); ++at) {
    node = child(node, text[at]);
    if (node < 0) break;
    const AddedToken* token = nodes_[static_cast<size_t>(node)].token;
    if (token != nullptr) longest = token;
  }
  return longest;
}

// Finds the next token from found.next on. Text before `covered` belongs to earlier stretches.
bool AddedTokenMatcher::find(std::string_view text, size_t covered, Found& found) const {
  if (tokens_.empty()) return false;
  for (size_t at = found.next; at < text.size();) {
    const AddedToken* token = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t end = at + token->content.size();
    if (token->single_word && !is_single_word(text, at, end)) {
      at = end;
      continue;
    }
    found.next = end;
    found.begin = token->lstrip ? std::max(skip_space_left(text, at), covered) : at;
    found.end = token->rstrip ? skip_space_right(text, end) : end;
    found.token = token;
    // A token that begins with white space can lie in what an earlier rstrip took.
    found.begin = std::max(found.begin, covered);
    if (found.end <= covered) {
      at = end;
      continue;
    }
    return true;
  }
  return false;
}

}  // namespace hydrac::runtime
