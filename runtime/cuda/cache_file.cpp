#include "runtime/cuda/cache_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>

namespace hydrac::runtime::cuda {

namespace fs = std::filesystem;

bool write_whole(const fs::path& path, std::string_view content) {
  static std::atomic<unsigned> counter = 0;  // two threads of one process write two files
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  const fs::path temporary = fmt::format("{}.{}-{}", path.string(), getpid(), counter++);
  std::ofstream out(temporary, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (out) {
    fs::rename(temporary, path, error);
    if (!error) return true;
  }
  fs::remove(temporary, error);
  return false;
}

std::optional<std::string> read_whole(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string content(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return std::nullopt;
  return content;
}

}  // namespace hydrac::runtime::cuda
