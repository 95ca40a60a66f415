// Files of token ids. Ours: a header of 64 bytes, then `count` little-endian ids of `width` bytes. All fields
// are little-endian:
//    0  char[8]  "HYDRATOK"
//    8  u32      version, 1
//   12  u32      width, 2 or 4
//   16  u64      count
//   24  u64      the tokenizer's fingerprint; 0 when unknown
//   32  u64      the cache key; 0 for a file that is no cache
//   40  u64      Hash64 of the ids' bytes; 0 when unknown
//   48  u64[2]   0
// llm.c's files, ids behind 256 int32 of header, are read too: GPT-2's (magic 20240520, version 1, uint16)
// and Llama 3's (magic 20240801, version 7, uint32).
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/data/mapped_file.h"

namespace hydrac::runtime {

struct TokenShard {
  std::shared_ptr<const MappedFile> file;
  std::string_view payload;  // within the mapping; aligned to `width`
  int width = 2;
  int64_t count = 0;
  uint64_t fingerprint = 0;
  uint64_t cache_key = 0;
  uint64_t payload_hash = 0;  // Hash64 of `payload`, also where the header does not say it
};

// True if a file begins with one of the headers.
bool has_shard_header(std::string_view bytes);

// Throws InputError for a file with neither header, of another size than its header says, or with ids that do
// not hash to what it says. `cache_dir`: see hash_of_file().
TokenShard open_token_shard(const std::filesystem::path& path, const std::string& shown_as,
                            const std::filesystem::path& cache_dir = {});

// Writes a whole file: to a temporary name beside `path`, flushed to the disk, then renamed. `payload` is
// count ids of `width` bytes. Throws std::system_error when it cannot, with nothing left behind.
void write_token_shard(const std::filesystem::path& path, std::string_view payload, int width,
                       uint64_t fingerprint, uint64_t cache_key);

}  // namespace hydrac::runtime
