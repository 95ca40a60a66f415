#include "runtime/data/token_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

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

TokenStore::Segment segment_of(const TokenShard& shard, const std::string& name) {
  return {shard.file, shard.payload.data(), shard.width, shard.count, name};
}

std::shared_ptr<const TokenStore> open_token_shards(const std::vector<InputFile>& files,
                                                    const std::string& fingerprint, int64_t vocab_size) {
  std::vector<TokenStore::Segment> segments;
  for (const InputFile& file : files) {
    const TokenShard shard = open_token_shard(file.path, file.name);
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

}  // namespace hydrac::runtime
