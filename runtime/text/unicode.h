// The few Unicode properties that tokenizers need.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::runtime {

bool is_white_space(char32_t c);  // Unicode's White_Space
bool is_word(char32_t c);         // letters, marks, decimal digits, connectors, joiners: UTS 18's \w

// Canonical composition (NFC) of well-formed text.
std::string to_nfc(std::string_view text);

}  // namespace hydrac::runtime
