// A corpus as one long row of token ids, memory-mapped where it lies in files.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/data_identity.h"
#include "runtime/data/input_files.h"
#include "runtime/data/token_shard.h"

namespace hydrac::runtime {

// One or more segments of little-endian uint16 or uint32 ids, read as one. Immutable; safe from several
// threads.
class TokenStore {
 public:
  struct Segment {
    std::shared_ptr<const void> owner;  // keeps `data` alive: a mapping or a vector
    const void* data;                   // [count] of uint16_t or uint32_t
    int width;                          // bytes an id: 2 or 4
    int64_t count;
    std::string name;   // for messages
    uint64_t hash = 0;  // Hash64 of the data's bytes
  };
  // Ids at or above `vocab_size` are found when they are read.
  TokenStore(std::vector<Segment> segments, int64_t vocab_size);

  int64_t size() const { return size_; }
  DataContent content() const;
  // Writes ids [begin, begin + out.size()). Throws InputError for an id outside the vocabulary, naming file
  // and position.
  void read(int64_t begin, std::span<int32_t> out) const;

 private:
  std::vector<Segment> segments_;
  std::vector<int64_t> starts_;  // of each segment; ascending
  int64_t size_ = 0;
  int64_t vocab_size_;
};

// A shard as a part of a store; `name` is for messages.
TokenStore::Segment segment_of(const TokenShard& shard, const std::string& name);

// The tokens of these shards in order. InputError as open_token_shard(), for one without tokens, and for one
// that says it was made with another tokenizer than `fingerprint` (see Tokenizer::fingerprint()). `cache_dir`
// here and below: see hash_of_file().
std::shared_ptr<const TokenStore> open_token_shards(const std::vector<InputFile>& files,
                                                    const std::string& fingerprint, int64_t vocab_size,
                                                    const std::filesystem::path& cache_dir);

// The tokens of files that are nothing but little-endian uint16 ids, as nanoGPT's prepare.py writes them.
// Nothing in them says what made them, so every id is looked at: InputError for one outside the vocabulary,
// for a file of an odd size, without tokens, or with a header.
std::shared_ptr<const TokenStore> open_raw_tokens(const std::vector<InputFile>& files, int64_t vocab_size,
                                                  const std::filesystem::path& cache_dir);

}  // namespace hydrac::runtime
