// The data of a run as it is known by: a checkpoint records it, a resumed run and all ranks must have the
// same.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// All that is read of some files. Equal hashes, equal tokens, marks or numbers, in the same order.
struct DataContent {
  std::string size;  // "300 tokens"
  uint64_t hash = 0;
};

struct DataIdentity {
  std::string tokenizer;  // its fingerprint; empty for series
  DataContent train;
  std::optional<DataContent> val;  // of data.val_path

  // As entries of a run's identity: "data", and "data.val_path, the files".
  std::map<std::string, std::string> entries() const;
};

// Hash64 of `bytes`, which are all or a part of the file at `path`. Of at least `large` bytes it is
// remembered in `cache_dir` (empty: nowhere), by the file's name, inode, size and times, so that they are
// read once.
uint64_t hash_of_file(const std::filesystem::path& path, std::string_view bytes,
                      const std::filesystem::path& cache_dir, size_t large = size_t{64} << 20);

}  // namespace hydrac::runtime
