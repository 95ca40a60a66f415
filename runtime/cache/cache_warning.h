// What a user should know of the cache, whatever is running: a damaged file, a folder that is not used.
#pragma once
#include <string>

namespace hydrac::runtime {

// Prints "warning: <line>" to stderr, each line once a process. Safe from several threads.
void warn_of_cache(const std::string& line);

}  // namespace hydrac::runtime
