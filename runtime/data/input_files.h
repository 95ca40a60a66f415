// The files of a corpus.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/source_kind.h"

namespace hydrac::runtime {

struct InputFile {
  std::string name;            // for messages and cache keys: relative to the base folder, with '/'
  std::filesystem::path path;  // to open
};

// Expands patterns relative to `base`: `*` and `?` stay within a path component, `**` crosses folders,
// `{a,b}` is either,
// `[abc]`, `[a-z]` and `[!a]` are sets. Wildcards match no leading dot. Patterns keep their order; the files
// of one pattern are sorted by name, bytewise; a file named twice counts once. Throws InputError for a
// pattern that matches no regular file, and for a link to nothing, a pipe or a device that one matches.
std::vector<InputFile> expand_patterns(const std::vector<std::string>& patterns,
                                       const std::filesystem::path& base);

inline SourceKind source_kind(const InputFile& file) {
  return source_kind(file.path.string());
}
inline Packing packing(const InputFile& file) {
  return packing(file.path.string());
}

}  // namespace hydrac::runtime
