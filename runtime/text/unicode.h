// The few Unicode properties that tokenizers need.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::runtime {

bool is_white_space(char32_t c);  // Unicode's White_Space
bool is_word(char32_t c);         // letters, marks, decimal digits, connectors, joiners: UTS 18's \w
bool is_control(char32_t c);      // control and format characters, and those of private use
bool is_punctuation(char32_t c);  // Unicode's general category P
bool is_nonspacing_mark(char32_t c);
char32_t to_lower(char32_t c);

// Canonical composition (NFC) and decomposition (NFD) of well-formed text.
std::string to_nfc(std::string_view text);
std::string to_nfd(std::string_view text);

}  // namespace hydrac::runtime
