#include "runtime/base/written_folder.h"

#include <fmt/core.h>

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

bool is_checkpoint(const fs::path& dir) {
  std::error_code ignored;
  return dir.filename().string().starts_with("checkpoint-") && fs::exists(dir / "manifest.json", ignored);
}

}  // namespace

std::string why_not_written(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(folder), error);
  if (error) return fmt::format("cannot be used: {}", error.message());
  fs::path above;
  for (const fs::path& part : real) {
    above /= part;
    if (is_checkpoint(above)) return fmt::format("lies in the checkpoint {}", part.string());
    if (part == ".git" || part == ".hg" || part == ".svn")
      return fmt::format("is a part of {}, which belongs to version control", part.string());
  }
  return "";
}

}  // namespace hydrac::runtime
