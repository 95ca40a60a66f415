// Tests if a file's bytes are text at all.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::runtime {

// InputError for bytes that begin as a compressed file or UTF-16 does, or hold a NUL, saying which. `wanted`:
// what they should be ("UTF-8 text").
void require_text(std::string_view bytes, const std::string& shown_as, std::string_view wanted);

// True if they begin as files of that program do.
bool looks_gzipped(std::string_view bytes);
bool looks_zstd(std::string_view bytes);

}  // namespace hydrac::runtime
