#include "runtime/program/cache_dir.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace hydrac::runtime {

std::filesystem::path cache_dir() {
  if (const char* dir = std::getenv("HYDRAC_CACHE"); dir && *dir) return dir;
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".cache" / "hydrac";
  return std::filesystem::temp_directory_path() / ("hydrac-" + std::to_string(getuid()));
}

}  // namespace hydrac::runtime
