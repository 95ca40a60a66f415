#include "runtime/text/tokenizer/cached_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "runtime/base/written_folder.h"
#include "runtime/data/hash.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/text_bytes.h"
#include "runtime/data/token_shard.h"
#include "runtime/error.h"
#include "runtime/text/tokenizer/token_cache.h"

namespace hydrac::runtime {

namespace {

uint64_t fingerprint_of(const Tokenizer& tokenizer) {
  const std::string hex = tokenizer.fingerprint();
  uint64_t bits = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  return bits;
}

TokenStore::Segment in_memory(PackedTokens packed) {
  const int width = packed.width();
  const int64_t count = packed.count();
  const uint64_t hash = Hash64().add(packed.bytes()).value();
  const auto owner = std::make_shared<const std::string>(packed.release());
  return {owner, owner->data(), width, count, "the corpus", hash};
}

}  // namespace

TokenizeReport::TokenizeReport(const std::vector<InputFile>& files, const CorpusOptions& options)
    : options_(options) {
  for (const InputFile& file : files) total_ += static_cast<int64_t>(std::filesystem::file_size(file.path));
  step_ = std::max(int64_t{1} << 20, total_ / 20);
}

void TokenizeReport::at(int64_t bytes_done, int64_t tokens) {
  if (options_.enough_tokens > 0 && tokens >= options_.enough_tokens) throw EnoughTokens{};
  if (!options_.progress || bytes_done - reported_ < step_) return;
  reported_ = bytes_done;
  options_.progress({std::min(bytes_done, total_), total_, tokens});
}

void TokenizeReport::end(int64_t tokens) {
  if (options_.progress && reported_ < total_) options_.progress({total_, total_, tokens});
}

std::vector<InputFile> text_files(const CorpusOptions& options, const char* why_no_shards) {
  std::vector<InputFile> files = expand_patterns(options.patterns, options.base);
  for (const InputFile& file : files) {
    const SourceKind kind = source_kind(file);
    if (kind == SourceKind::tokens || options.raw_uint16)
      throw InputError(fmt::format("{} is a token shard, {}", file.name, why_no_shards));
    if (kind == SourceKind::csv)
      throw InputError(fmt::format("{}: a CSV file holds series, not text", file.name));
  }
  return files;
}

uint64_t token_key(const CorpusOptions& options, const std::vector<InputFile>& files,
                   const Tokenizer& tokenizer, const std::vector<std::string>& decides) {
  if (options.cache_dir.empty()) return 0;
  Hash64 hash;
  hash.add("token cache 1").add(tokenizer.fingerprint());
  if (tokenizer.rows() < tokenizer.vocab_size()) hash.add(static_cast<uint64_t>(tokenizer.rows()));
  if (const auto end = tokenizer.end_of_text()) hash.add(static_cast<uint64_t>(*end));
  for (const std::string& word : decides) hash.add(word);
  for (const InputFile& file : files) {
    const auto mapped = MappedFile::open(file.path, file.name);
    // A large file that is no text is refused before all of it is read.
    if (packing(file) == Packing::none && source_kind(file) != SourceKind::table)
      require_text(mapped->bytes().substr(0, 1 << 16), file.name, "UTF-8 text");
    hash.add(file.name).add(mapped->bytes());
  }
  return hash.value();
}

TokenStore::Segment cached_tokens(const CorpusOptions& options, uint64_t key, const Tokenizer& tokenizer,
                                  const std::function<PackedTokens()>& make) {
  if (options.cache_dir.empty()) return in_memory(make());
  if (const std::string reason = why_not_written(options.cache_dir); !reason.empty())
    throw InputError(fmt::format("{} {}; set data.cache_dir to another folder",
                                 options.cache_dir.generic_string(), reason));
  TokenCache cache(options.cache_dir, key, fingerprint_of(tokenizer), options.notice);
  std::optional<TokenShard> shard = cache.find();
  if (!shard) {
    const auto lock = cache.lock();
    shard = cache.find();  // another process may have made it meanwhile
    if (!shard) {
      PackedTokens packed = make();
      shard = cache.store(packed.bytes(), packed.width(), lock != nullptr);
      if (!shard) return in_memory(std::move(packed));
    }
  }
  return segment_of(*shard, "the token cache");
}

}  // namespace hydrac::runtime
