// Symbolic links in a folder that is copied from or written to: none may make hydrac read or write outside of
// the folder.
#pragma once
#include <filesystem>

namespace hydrac::runtime {

// InputError if `path`, with links followed, leads out of `folder`. A snapshot of Hugging Face's cache
// (models--NAME/snapshots/REVISION) consists of links to ../../blobs/HASH; these blobs belong to it.
void require_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

// The same of all that lies directly in `folder`.
void require_own_files(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
