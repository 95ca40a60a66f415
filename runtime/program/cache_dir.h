// Where what is costly to find out is remembered: measured choices, compiled code.
#pragma once
#include <filesystem>

namespace hydrac::runtime {

// $HYDRAC_CACHE, else ~/.cache/hydrac, else a folder of the user's in the system's temporary one.
std::filesystem::path cache_dir();

}  // namespace hydrac::runtime
