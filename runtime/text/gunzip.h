// Files that gzip compressed.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::runtime {

// What `bytes`, one or more gzip members, unpack to. InputError for anything else, and where bytes are
// missing or damaged (gzip has a checksum).
std::string gunzip(std::string_view bytes, const std::string& shown_as);

}  // namespace hydrac::runtime
