// The spec of `hydrac quickstart`, inside the binary.
#pragma once
#include <string>
#include <vector>

namespace hydrac::cli {

struct QuickstartFile {
  const char* path;
  const char* text;
};
const std::vector<QuickstartFile>& quickstart_files();

}  // namespace hydrac::cli
