// Files of a cache that several threads and processes share: whole and as they were written, or as good as
// not there. A sealed file ends with a line that holds its size and a checksum, which covers its name too:
//   hydrac-seal 1 BYTES HASH
// The checksum finds damage, not forgery: that is for the folder's owner and mode to prevent (cache_dir.h).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// `content` as a sealed file, written as write_whole() does.
bool write_sealed(const std::filesystem::path& path, std::string_view content);

// The content of a sealed file. nullopt when there is none; one that cannot be read or is not what was
// written counts as none, after a warning.
std::optional<std::string> read_sealed(const std::filesystem::path& path);

// The warning about a file: "<path>: <reason>; it is made anew".
void warn_of_damage(const std::filesystem::path& path, std::string_view reason);

// Written beside, fsynced unless `durable` is false, and renamed into place, so that a reader never sees half
// a file; makes the folder. False when that fails.
bool write_whole(const std::filesystem::path& path, std::string_view content, bool durable = true);

// nullopt when there is no such file. One that cannot be read counts as none, after a warning.
std::optional<std::string> read_whole(const std::filesystem::path& path);

// Removes what write_whole() left in `dir` when its process was killed, once that is an hour old.
void remove_old_temporaries(const std::filesystem::path& dir);

}  // namespace hydrac::runtime
