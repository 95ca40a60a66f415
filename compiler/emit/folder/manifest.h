// emitted.sum of an emitted program: what hydrac wrote of each file, or would have written where a kernel is
// kept, so that an edit is seen before it would be overwritten, and a kept kernel before it is out of date.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "emit/emit.h"

namespace hydrac::emit {

inline constexpr const char* kManifestFile = "emitted.sum";

// Who wrote it, "hydrac 0.2.0 (commit 1a13e196789a)", and a line for each of `files`: a hash of its text in
// 16 hexadecimal digits, two spaces, its path.
std::string manifest_text(const Files& files, const std::string& writer);

class Manifest {
 public:
  // Reads a program's on disk; it lists nothing where the folder has none. runtime::InputError with the line
  // where it is damaged, as by a merge; with `tolerant` such lines are left out.
  static Manifest read(const std::filesystem::path& folder, bool tolerant);

  // True if the file is listed with the hash of `text`.
  bool lists(const std::string& name, const std::string& text) const;
  const std::string& writer() const { return writer_; }  // empty where it is not said

 private:
  std::string writer_;
  std::map<std::string, uint64_t> hashes_;
};

}  // namespace hydrac::emit
