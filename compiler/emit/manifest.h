// emitted.sum of an emitted program: what each file was when hydrac wrote it, so that an edit is seen before
// it would be overwritten.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "emit/emit.h"

namespace hydrac::emit {

inline constexpr const char* kManifestFile = "emitted.sum";

// A line for each of `files`: a hash of its text in 16 hexadecimal digits, two spaces, its path.
std::string manifest_text(const Files& files);

class Manifest {
 public:
  // Of a program on disk; knows no file where the folder has no manifest. runtime::InputError with the line
  // where it is damaged, as by a merge.
  static Manifest read(const std::filesystem::path& folder);

  // Whether hydrac wrote the file with another text than `text`. False for a file that it does not know.
  bool is_edited(const std::string& name, const std::string& text) const;

 private:
  std::map<std::string, uint64_t> hashes_;
};

}  // namespace hydrac::emit
