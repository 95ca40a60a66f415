#include "runtime/data/data_identity.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "runtime/base/regular_file.h"
#include "runtime/base/written_folder.h"
#include "runtime/data/hash.h"

namespace hydrac::runtime {

namespace fs = std::filesystem;

namespace {

constexpr time_t kSettled = 2;  // seconds; a change right after another may have the same times

std::string text_of(const std::string& tokenizer, const DataContent& content) {
  const std::string text = fmt::format("{}, {:016x}", content.size, content.hash);
  return tokenizer.empty() ? text : tokenizer + ", " + text;
}

// Properties that change with a file's contents.
struct FileState {
  uint64_t key = 0;  // 0: the file is gone
  time_t changed = 0;

  explicit FileState(const fs::path& path, size_t bytes) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return;
    Hash64 hash;
    hash.add(fs::absolute(path).lexically_normal().string());
    for (const auto number : {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
                              static_cast<uint64_t>(info.st_size), static_cast<uint64_t>(bytes)})
      hash.add(number);
    for (const timespec& time : {info.st_mtim, info.st_ctim})
      hash.add(static_cast<uint64_t>(time.tv_sec)).add(static_cast<uint64_t>(time.tv_nsec));
    key = hash.value();
    changed = std::max(info.st_mtim.tv_sec, info.st_ctim.tv_sec);
  }
};

// The hash, and one of it and the key, by which damage is seen.
std::string line_of(uint64_t key, uint64_t hash) {
  return fmt::format("{:016x} {:016x}\n", hash, Hash64().add(key).add(hash).value());
}

std::optional<uint64_t> remembered(const fs::path& file, uint64_t key) {
  const RegularFile opened(file, LastLink::refuse);
  std::string line;
  unsigned long long hash = 0;
  if (!opened.problem().empty() || !opened.read_all(line, 64)) return std::nullopt;
  if (std::sscanf(line.c_str(), "%16llx", &hash) != 1 || line != line_of(key, hash)) return std::nullopt;
  return hash;
}

// A folder that cannot be written, or must not be, costs reading the data again.
void remember(const fs::path& file, const std::string& line) {
  if (!why_not_written(file.parent_path()).empty()) return;
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const fs::path temporary = fmt::format("{}.tmp-{}", file.string(), ::getpid());
  fs::remove(temporary, ignored);
  std::ofstream(temporary) << line;
  fs::rename(temporary, file, ignored);
}

}  // namespace

std::map<std::string, std::string> DataIdentity::entries() const {
  std::map<std::string, std::string> all = {{"data", text_of(tokenizer, train)}};
  if (val) all.emplace("data.val_path, the files", text_of(tokenizer, *val));
  return all;
}

uint64_t hash_of_file(const fs::path& path, std::string_view bytes, const fs::path& cache_dir, size_t large) {
  if (cache_dir.empty() || bytes.size() < large) return Hash64().add(bytes).value();
  const FileState state(path, bytes.size());
  const fs::path file = cache_dir / fmt::format("hash-{:016x}", state.key);
  if (const auto hash = remembered(file, state.key)) return *hash;
  const uint64_t hash = Hash64().add(bytes).value();
  const bool settled = std::time(nullptr) - state.changed > kSettled;
  if (state.key != 0 && settled && FileState(path, bytes.size()).key == state.key)
    remember(file, line_of(state.key, hash));
  return hash;
}

}  // namespace hydrac::runtime
