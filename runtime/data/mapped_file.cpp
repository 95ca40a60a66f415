#include "runtime/data/mapped_file.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/regular_file.h"
#include "runtime/error.h"

namespace hydrac::runtime {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path,
                                                   const std::string& shown_as) {
  const RegularFile file(path);
  const size_t size = file.size();
  void* data = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0) : nullptr;
  const std::string problem = data == MAP_FAILED ? std::strerror(errno) : file.problem();
  if (!problem.empty()) throw InputError(fmt::format("{}: cannot read it: {}", shown_as, problem));
  std::shared_ptr<MappedFile> mapped(new MappedFile(data, size));
  if (size > 0) mapped->known_.emplace(data, size, shown_as);
  return mapped;
}

MappedFile::~MappedFile() {
  known_.reset();  // first: the addresses may be another mapping's as soon as they are free
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace hydrac::runtime
