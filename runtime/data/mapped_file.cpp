#include "runtime/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path,
                                                   const std::string& shown_as) {
  const auto fail = [&] {
    return InputError(fmt::format("{}: cannot read it: {}", shown_as, std::strerror(errno)));
  };
  // O_NONBLOCK: opening a pipe must not wait for a writer; it is refused below.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw fail();
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) throw fail();
  if (!S_ISREG(info.st_mode))
    throw InputError(fmt::format("{}: cannot read it: not a regular file", shown_as));
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) throw fail();
  std::shared_ptr<MappedFile> mapped(new MappedFile(data, size));
  mapped->known_.emplace(data, size, shown_as);
  return mapped;
}

MappedFile::~MappedFile() {
  known_.reset();  // first: the addresses may be another mapping's as soon as they are free
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace hydrac::runtime
