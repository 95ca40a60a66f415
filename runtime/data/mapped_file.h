// A file's bytes, mapped read-only.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/data/mapping_faults.h"

namespace hydrac::runtime {

class MappedFile {
 public:
  // Throws InputError, calling the file `shown_as`, when it is missing, unreadable or no regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path,
                                                const std::string& shown_as);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Page-aligned; valid as long as this object. Another program that shortens the file meanwhile ends the
  // process, with an error where report_mapping_faults() was called.
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}

  void* data_;
  size_t size_;
  std::optional<KnownMapping> known_;  // of a file that is not empty
};

}  // namespace hydrac::runtime
