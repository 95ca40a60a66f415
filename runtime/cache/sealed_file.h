// Files of a cache that several threads and processes share. A damaged or incomplete file counts as missing.
// A sealed file ends with a line that holds its size and a checksum, which also covers its name:
//   hydrac-seal 1 BYTES HASH
// The checksum detects damage, not forgery: the folder's owner and mode must prevent that (cache_dir.h).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// `content` as a sealed file, written as write_whole() does.
bool write_sealed(const std::filesystem::path& path, std::string_view content);

// The content of a sealed file. nullopt if there is none; one that cannot be read or is damaged counts as
// none, after a warning.
std::optional<std::string> read_sealed(const std::filesystem::path& path);

// The warning about a file: "<path>: <reason>; it is made anew".
void warn_of_damage(const std::filesystem::path& path, std::string_view reason);

// Written to a temporary file, fsynced unless `durable` is false, and renamed into place, so that a reader
// never sees half a file; makes the folder. False if that fails.
bool write_whole(const std::filesystem::path& path, std::string_view content, bool durable = true);

// nullopt when there is no such file. One that cannot be read counts as none, after a warning.
std::optional<std::string> read_whole(const std::filesystem::path& path);

// Removes what write_whole() left in `dir` when its process was killed, once that is an hour old.
void remove_old_temporaries(const std::filesystem::path& dir);

}  // namespace hydrac::runtime
