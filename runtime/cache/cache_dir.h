// The folder of the cache: measured choices and compiled code, which are costly to find out again.
#pragma once
#include <filesystem>
#include <string>

namespace hydrac::runtime {

// $HYDRAC_CACHE, else $XDG_CACHE_HOME/hydrac, else ~/.cache/hydrac; made, with mode 0700, where it is
// missing. Code is loaded from it, so it is used only if nobody but this user and root can change its
// contents. Otherwise (with a warning), or without a home folder, it is a private temporary folder, which is
// removed when the process ends. Symbolic links are resolved, so the folder that was checked is the one that
// is used.
std::filesystem::path cache_dir();

// The private temporary folder, made at the first call. RunError where it cannot be made.
const std::filesystem::path& temporary_cache();

// Why code from `dir`, which exists, must not be trusted: "it belongs to another user (uid 1000)"; "" if it
// can be.
std::string distrust(const std::filesystem::path& dir);

}  // namespace hydrac::runtime
