// What a user should know of the cache, whatever is running: a damaged file, a folder that is not used.
#pragma once
#include <filesystem>
#include <string>

namespace hydrac::runtime {

// Prints "warning: <line>" to stderr, each line once a process. Safe from several threads.
void warn_of_cache(const std::string& line);

// What was found out cannot be kept in `folder`. Nothing depends on that but the time of the next run.
void warn_of_unwritable_cache(const std::filesystem::path& folder);

}  // namespace hydrac::runtime
