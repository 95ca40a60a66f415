// A file that lives as long as the object: what is too large for memory on its way through.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/mapped_file.h"

namespace hydrac::prepare {

class ScratchFile {
 public:
  // Creates `path`. RunError where it cannot, here and in append().
  explicit ScratchFile(std::filesystem::path path);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void append(std::string_view bytes);
  uint64_t size() const { return size_; }  // bytes given to append()
  // All of it, mapped; nothing may be appended afterwards. The mapping may outlive this object.
  std::shared_ptr<const runtime::MappedFile> map();

 private:
  void flush();

  std::filesystem::path path_;
  int fd_ = -1;
  std::string buffer_;
  uint64_t size_ = 0;
};

}  // namespace hydrac::prepare
