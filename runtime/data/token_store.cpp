#include "runtime/data/token_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/data/hash.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// Widens `out.size()` ids from `data`, index `from` on. Returns the index in `out` of the first that is out
// of range, or out.size().
template <typename Id>
size_t widen(const void* data, int64_t from, int64_t vocab_size, std::span<int32_t> out) {
  const Id* ids = static_cast<const Id*>(data) + from;
  const auto limit = static_cast<uint64_t>(vocab_size);
  bool fits = true;
  for (size_t i = 0; i < out.size(); ++i) {
    fits &= ids[i] < limit;
    out[i] = static_cast<int32_t>(ids[i]);
  }
  if (fits) return out.size();
  return static_cast<size_t>(std::find_if(ids, ids + out.size(), [&](Id id) { return id >= limit; }) - ids);
}

}  // namespace

TokenStore::TokenStore(std::vector<Segment> segments, int64_t vocab_size)
    : segments_(std::move(segments)), vocab_size_(vocab_size) {
  for (const Segment& segment : segments_) {
    starts_.push_back(size_);
    size_ += segment.count;
  }
}

void TokenStore::read(int64_t begin, std::span<int32_t> out) const {
  if (begin < 0 || begin + static_cast<int64_t>(out.size()) > size_) {
    throw std::out_of_range("TokenStore::read: beyond the end");
  }
  auto index =
      static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin()) - 1;
  while (!out.empty()) {
    const Segment& segment = segments_[index];
    const int64_t from = begin - starts_[index];
    const size_t count = std::min(out.size(), static_cast<size_t>(segment.count - from));
    const std::span<int32_t> part = out.first(count);
    const size_t good = segment.width == 2 ? widen<uint16_t>(segment.data, from, vocab_size_, part)
                                           : widen<uint32_t>(segment.data, from, vocab_size_, part);
    if (good != count) {
      throw InputError(fmt::format(
          "{}: token {} is {}, but the vocabulary has {}; it was made with another tokenizer", segment.name,
          from + static_cast<int64_t>(good), static_cast<uint32_t>(part[good]), vocab_size_));
    }
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
    ++index;
  }
}

DataContent TokenStore::content() const {
  Hash64 hash;
  for (const Segment& segment : segments_) hash.add(static_cast<uint64_t>(segment.count)).add(segment.hash);
  return {fmt::format("{} tokens", size_), hash.value()};
}

TokenStore::Segment segment_of(const TokenShard& shard, const std::string& name) {
  return {shard.file, shard.payload.data(), shard.width, shard.count, name, shard.payload_hash};
}

std::shared_ptr<const TokenStore> open_token_shards(const std::vector<InputFile>& files,
                                                    const std::string& fingerprint, int64_t vocab_size,
                                                    const std::filesystem::path& cache_dir) {
  std::vector<TokenStore::Segment> segments;
  for (const InputFile& file : files) {
    if (!has_shard_header(MappedFile::open(file.path, file.name)->bytes())) {
      throw InputError(
          fmt::format("{}: not a token file: it begins with neither hydrac's header nor llm.c's; if it is "
                      "nothing but 16-bit "
                      "ids, as nanoGPT writes them, write data.format: uint16",
                      file.name));
    }
    const TokenShard shard = open_token_shard(file.path, file.name, cache_dir);
    if (shard.count == 0) throw InputError(fmt::format("{}: it holds no tokens", file.name));
    const std::string made_with = fmt::format("{:016x}", shard.fingerprint);
    if (shard.fingerprint != 0 && made_with != fingerprint) {
      throw InputError(fmt::format("{}: it was made with the tokenizer {}, but this run's is {}", file.name,
                                   made_with, fingerprint));
    }
    segments.push_back(segment_of(shard, file.name));
  }
  return std::make_shared<TokenStore>(std::move(segments), vocab_size);
}

namespace {

TokenStore::Segment raw_segment(const InputFile& file, int64_t vocab_size,
                                const std::filesystem::path& cache_dir) {
  auto mapped = MappedFile::open(file.path, file.name);
  const std::string_view bytes = mapped->bytes();
  if (bytes.empty()) throw InputError(fmt::format("{}: it holds no tokens", file.name));
  if (has_shard_header(bytes))
    throw InputError(fmt::format("{}: it has a header: remove data.format", file.name));
  if (bytes.size() % sizeof(uint16_t) != 0)
    throw InputError(fmt::format("{}: {} bytes are no whole number of 16-bit ids", file.name, bytes.size()));
  const std::span ids(reinterpret_cast<const uint16_t*>(bytes.data()), bytes.size() / sizeof(uint16_t));
  const auto outside = std::ranges::find_if(ids, [&](uint16_t id) { return id >= vocab_size; });
  if (outside != ids.end()) {
    throw InputError(
        fmt::format("{}: token {} is {}, but the vocabulary has {}: name the tokenizer that made the file in "
                    "data.tokenizer",
                    file.name, outside - ids.begin(), *outside, vocab_size));
  }
  return {mapped,           ids.data(),
          sizeof(uint16_t), static_cast<int64_t>(ids.size()),
          file.name,        hash_of_file(file.path, bytes, cache_dir)};
}

}  // namespace

std::shared_ptr<const TokenStore> open_raw_tokens(const std::vector<InputFile>& files, int64_t vocab_size,
                                                  const std::filesystem::path& cache_dir) {
  std::vector<TokenStore::Segment> segments;
  for (const InputFile& file : files) segments.push_back(raw_segment(file, vocab_size, cache_dir));
  return std::make_shared<TokenStore>(std::move(segments), vocab_size);
}

}  // namespace hydrac::runtime
