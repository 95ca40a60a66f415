// UTF-8, checked, read and written.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// The bytes of the well-formed sequence that `text` begins with; 0 where it begins with none, or is empty.
size_t utf8_length(std::string_view text);

// The byte offset of the first malformed sequence (overlong, surrogate, beyond U+10FFFF, cut short), or
// nothing.
std::optional<size_t> find_malformed_utf8(std::string_view text);

// Reads one code point of well-formed text at `at` and moves `at` behind it.
char32_t next_code_point(std::string_view text, size_t& at);
// The code point that ends right before `at` (at > 0).
char32_t previous_code_point(std::string_view text, size_t at);
void append_utf8(char32_t code_point, std::string& out);

// The number of bytes at the front of `bytes` that are certainly complete: all but a sequence at the end that
// more bytes may complete.
size_t complete_utf8_prefix(std::string_view bytes);
// `bytes` with each malformed sequence replaced by U+FFFD.
std::string replace_malformed_utf8(std::string_view bytes);

}  // namespace hydrac::runtime
