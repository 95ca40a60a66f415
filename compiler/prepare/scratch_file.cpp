#include "prepare/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "runtime/checkpoint/file_writer.h"

namespace hydrac::prepare {

ScratchFile::ScratchFile(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) runtime::throw_run_error("create", path_, errno);
}

ScratchFile::~ScratchFile() {
  ::close(fd_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void ScratchFile::append(std::string_view bytes) {
  constexpr size_t kBuffer = size_t{1} << 20;
  buffer_ += bytes;
  size_ += bytes.size();
  if (buffer_.size() >= kBuffer) flush();
}

void ScratchFile::flush() {
  runtime::write_all(fd_, std::as_bytes(std::span(buffer_.data(), buffer_.size())), path_);
  buffer_.clear();
}

std::shared_ptr<const runtime::MappedFile> ScratchFile::map() {
  flush();
  return runtime::MappedFile::open(path_, path_.generic_string());
}

}  // namespace hydrac::prepare
