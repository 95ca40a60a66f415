// Files that gzip compressed.
#pragma once
#include <string>
#include <string_view>

namespace hydrac::runtime {

// Unpacks `bytes`, one or more gzip members. InputError for anything else, and if bytes are missing or
// damaged (gzip has a checksum).
std::string gunzip(std::string_view bytes, const std::string& shown_as);

}  // namespace hydrac::runtime
