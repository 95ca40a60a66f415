// The only way to open files for reading. Pipes, devices, sockets and folders are refused before they are
// opened: a pipe waits for a writer, a device may never end or may act on being opened.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace hydrac::runtime {

enum class LastLink { follow, refuse };  // where the name itself is a symbolic link

class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path, LastLink link = LastLink::follow);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  // "" where it is open; else why not: the system's reason, or "it is a pipe, no regular file".
  const std::string& problem() const { return problem_; }
  bool is_missing() const { return is_missing_; }
  int fd() const { return fd_; }
  uint64_t size() const { return size_; }

  // All of it from where it stands, at most `most` bytes; false, and errno, where that fails.
  bool read_all(std::string& contents, size_t most = SIZE_MAX) const;

 private:
  std::string problem_;
  bool is_missing_ = false;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace hydrac::runtime
