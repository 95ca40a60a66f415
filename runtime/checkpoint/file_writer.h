// Durable file writing: a buffered descriptor writer that checks every write, fsync and close, counts the
// bytes and their CRC-32C, and the small durable-file operations that checkpoints need.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"

namespace hydrac::runtime {

// A failed operation on a file: the operation, the file, the system's reason, and advice. what() is for a
// run, whose files are in output.dir.
struct FileError : RunError {
  FileError(const std::string& problem, int error);
  // The same for whoever gave the file's name otherwise.
  std::string elsewhere;
};

// A file that is being written from its beginning. Every failure is a RunError with the path and the system's
// reason; the half-written file stays where it is, for the caller to remove.
class FileWriter {
 public:
  // Creates `path`, or empties it when it exists; a symbolic link is an error.
  explicit FileWriter(std::filesystem::path path);
  // Closes without checking: a file counts as written only after close_durably().
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  // Writes what is buffered, fsyncs and closes. Nothing may be written afterwards.
  void close_durably();

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }      // bytes given to write() so far
  uint32_t crc32c() const { return crc32c_; }  // of those bytes

 private:
  void flush();

  std::filesystem::path path_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  uint64_t size_ = 0;
  uint32_t crc32c_ = 0;
};

// FileError("cannot <action> <path>: <the system's reason>"), with advice for some reasons. `error` is an
// errno.
[[noreturn]] void throw_run_error(const char* action, const std::filesystem::path& path, int error);

// All of `bytes` to a descriptor, past signals and short writes. RunError that names `path`.
void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

// Replaces `path` by `contents` atomically and durably: a reader, or a run killed at any moment, sees the old
// file or the new one. RunError otherwise, with the old file untouched.
void replace_file(const std::filesystem::path& path, std::string_view contents);
// The file beside it that replace_file() writes first.
std::filesystem::path temporary_of(const std::filesystem::path& path);

// Why nothing can be written into a folder, which may not exist yet: the system's reason; nullopt if it can.
// Tries by making a folder and removing it, because permissions alone do not tell.
std::optional<std::string> obstacle_to_writing(const std::filesystem::path& folder);

// Makes the names inside `folder` durable (created, renamed, removed). RunError.
void sync_folder(const std::filesystem::path& folder);

// The whole of a regular file as a string. InputError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace hydrac::runtime
