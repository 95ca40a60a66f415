// Identifiers inside text.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace hydrac::ir {

// `text` with every identifier that is a key of `renamed` replaced by what it maps to.
std::string with_words(std::string_view text, const std::map<std::string, std::string, std::less<>>& renamed);

bool has_word(std::string_view text, std::string_view word);

// Calls `visit` with the text between identifiers and with each identifier, in order; these are parts of
// `text`.
void split_words(std::string_view text,
                 const std::function<void(std::string_view part, bool is_word)>& visit);

}  // namespace hydrac::ir
