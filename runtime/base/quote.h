// Makes text from files, arguments and other programs safe for a terminal. Harmful are control characters
// (C0, DEL, C1), characters that change direction or break a line (U+2028, U+202A to U+202E, U+2066 to
// U+2069), and bytes that are no UTF-8.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// The bytes of the harmless character that `text` begins with; 0 where it begins with none, or is empty.
size_t harmless_length(std::string_view text);

// In double quotes on one line, as a JSON string: harmful characters are escaped ("\u001b[2J"), and text
// longer than `longest` characters is cut with "...".
std::string in_quotes(std::string_view text, size_t longest = 120);

// The same without quotes, for names that a message shows bare.
std::string escaped(std::string_view text, size_t longest = 120);

// Text of several lines: line ends and tabs stay, what is harmful becomes U+FFFD.
std::string printable(std::string_view text);

// printable(), with each line cut after 4,000 characters: for every message to the user, whatever text it
// contains.
std::string safe_message(std::string_view message);

// One word of a shell command to paste: in single quotes unless no character has a meaning in the shell.
// Control characters, which no line can show, become ?.
std::string shell_quoted(std::string_view word);

// A JSON string literal of all of `text`, as serde and Python (ensure_ascii off) write it. `text` must be
// UTF-8.
std::string json_string(std::string_view text);

}  // namespace hydrac::runtime
