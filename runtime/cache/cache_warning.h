// Warnings about the cache, whatever is running: a damaged file, a folder that is not used.
#pragma once
#include <filesystem>
#include <string>

namespace hydrac::runtime {

// Prints "warning: <line>" to stderr, each line once a process. Safe from several threads.
void warn_of_cache(const std::string& line);

// Says that results cannot be kept in `folder`. Only the time of the next run depends on that.
void warn_of_unwritable_cache(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
