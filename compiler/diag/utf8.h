// Just enough UTF-8 to show text and to tell text from binary.
#pragma once
#include <cstddef>
#include <string_view>

namespace hydrac::diag {

// Bytes of the well-formed character that `text` begins with; 0 when it begins with none (or is empty).
size_t utf8_length(std::string_view text);

// The offset of the first byte that is not part of a well-formed character, or npos.
size_t utf8_error(std::string_view text);

}  // namespace hydrac::diag
