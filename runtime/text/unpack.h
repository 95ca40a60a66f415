// Files that gzip or zstd compressed.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/data/source_kind.h"

namespace hydrac::runtime {

// Half of this machine's memory: more text than that is not unpacked into it.
size_t most_unpacked_bytes();

// The contents of `bytes`, one or more gzip members or zstd frames; `packing` is not none. InputError for
// anything else, for bytes that are missing or damaged, and for more than `most` bytes of contents.
std::string unpacked(Packing packing, std::string_view bytes, const std::string& shown_as,
                     size_t most = most_unpacked_bytes());

}  // namespace hydrac::runtime
