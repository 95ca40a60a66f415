// Identifiers inside text.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace hydrac::ir {

// `text` with every identifier that is a key of `renamed` replaced by what it maps to.
std::string with_words(std::string_view text, const std::map<std::string, std::string, std::less<>>& renamed);

bool has_word(std::string_view text, std::string_view word);

}  // namespace hydrac::ir
