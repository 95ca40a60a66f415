#include "runtime/text/load_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/data/hash.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/token_shard.h"
#include "runtime/error.h"
#include "runtime/text/documents.h"
#include "runtime/text/token_cache.h"

namespace hydrac::runtime {

namespace {

uint64_t fingerprint_of(const Tokenizer& tokenizer) {
  const std::string hex = tokenizer.fingerprint();
  uint64_t bits = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  return bits;
}

// Tokens on their way to a cache: as wide as the vocabulary needs.
class PackedTokens {
 public:
  explicit PackedTokens(int64_t vocab_size) : width_(vocab_size <= 65536 ? 2 : 4) {}

  void append(const std::vector<int32_t>& ids) {
    const size_t old = bytes_.size();
    const auto width = static_cast<size_t>(width_);
    bytes_.resize(old + ids.size() * width);
    char* to = bytes_.data() + old;
    for (const int32_t id : ids) {
      std::memcpy(to, &id, width);  // little-endian: the low bytes come first
      to += width;
    }
  }
  int width() const { return width_; }
  std::string_view bytes() const { return bytes_; }
  int64_t count() const { return static_cast<int64_t>(bytes_.size()) / width_; }
  std::string release() { return std::move(bytes_); }

 private:
  int width_;
  std::string bytes_;
};

std::string place_of(const Document& document) {
  switch (document.kind) {
    case SourceKind::jsonl:
      return fmt::format("{}:{}", document.file, document.line);
    case SourceKind::json:
      return fmt::format("{}: element {}", document.file, document.line);
    default:
      return document.file;
  }
}

PackedTokens tokenize(const std::vector<InputFile>& files, const CorpusOptions& options,
                      const Tokenizer& tokenizer) {
  TokenizeProgress progress{0, 0, 0};
  for (const InputFile& file : files)
    progress.bytes_total += static_cast<int64_t>(std::filesystem::file_size(file.path));
  PackedTokens packed(tokenizer.vocab_size());
  std::vector<int32_t> ids;
  int64_t reported = 0;
  const int64_t step = std::max(int64_t{1} << 20, progress.bytes_total / 20);
  const auto report = [&](int64_t bytes_done, int64_t tokens) {
    if (!options.progress || bytes_done - reported < step) return;
    reported = bytes_done;
    options.progress({std::min(bytes_done, progress.bytes_total), progress.bytes_total, tokens});
  };
  bool first = true;
  for_each_document(files, options.text_key, [&](const Document& document) {
    ids.clear();
    if (!first && tokenizer.end_of_text()) ids.push_back(*tokenizer.end_of_text());
    first = false;
    try {
      tokenizer.encode_to(document.text, ids, [&](size_t bytes) {
        report(progress.bytes_done + static_cast<int64_t>(bytes),
               packed.count() + static_cast<int64_t>(ids.size()));
      });
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", place_of(document), error.what()));
    }
    packed.append(ids);
    progress.bytes_done += static_cast<int64_t>(document.text.size());
    report(progress.bytes_done, packed.count());
  });
  if (options.progress && reported < progress.bytes_total)
    options.progress({progress.bytes_total, progress.bytes_total, packed.count()});
  return packed;
}

// Equal keys, equal tokens.
uint64_t cache_key(const std::vector<InputFile>& files, const CorpusOptions& options,
                   const Tokenizer& tokenizer) {
  Hash64 hash;
  hash.add("token cache 1").add(tokenizer.fingerprint()).add(options.text_key);
  for (const InputFile& file : files)
    hash.add(file.name).add(MappedFile::open(file.path, file.name)->bytes());
  return hash.value();
}

std::shared_ptr<const TokenStore> in_memory(PackedTokens packed, const Tokenizer& tokenizer) {
  const int width = packed.width();
  const int64_t count = packed.count();
  const auto owner = std::make_shared<const std::string>(packed.release());
  std::vector<TokenStore::Segment> segments = {{owner, owner->data(), width, count, "the corpus"}};
  return std::make_shared<TokenStore>(std::move(segments), tokenizer.vocab_size());
}

// `why_no_shards`: what to say where one of them is a token shard.
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

}  // namespace

std::shared_ptr<const TokenStore> load_tokens(const CorpusOptions& options, const Tokenizer& tokenizer) {
  const std::vector<InputFile> all = expand_patterns(options.patterns, options.base);
  if (options.raw_uint16) return open_raw_tokens(all, tokenizer.vocab_size());
  const auto is_shard = [](const InputFile& file) { return source_kind(file) == SourceKind::tokens; };
  if (std::all_of(all.begin(), all.end(), is_shard))
    return open_token_shards(all, tokenizer.fingerprint(), tokenizer.vocab_size());
  const std::vector<InputFile> files = text_files(options, "and other files are text: give one kind");
  if (options.cache_dir.empty()) return in_memory(tokenize(files, options, tokenizer), tokenizer);

  const uint64_t key = cache_key(files, options, tokenizer);
  TokenCache cache(options.cache_dir, key, fingerprint_of(tokenizer), options.notice);
  std::optional<TokenShard> shard = cache.find();
  if (!shard) {
    const auto lock = cache.lock();
    shard = cache.find();  // another process may have made it meanwhile
    if (!shard) {
      PackedTokens packed = tokenize(files, options, tokenizer);
      shard = cache.store(packed.bytes(), packed.width(), lock != nullptr);
      if (!shard) return in_memory(std::move(packed), tokenizer);
    }
  }
  std::vector<TokenStore::Segment> segments = {segment_of(*shard, "the token cache")};
  return std::make_shared<TokenStore>(std::move(segments), tokenizer.vocab_size());
}

std::unique_ptr<Tokenizer> make_corpus_char_tokenizer(const CorpusOptions& options) {
  const std::vector<InputFile> files =
      text_files(options,
                 "and data.tokenizer: char makes its vocabulary from text: write the "
                 "tokenizer that the shard was made with, or give text");
  return make_char_tokenizer([&](const TextVisitor& visit) {
    for_each_document(files, options.text_key, [&](const Document& document) {
      try {
        visit(document.text);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", place_of(document), error.what()));
      }
    });
  });
}

}  // namespace hydrac::runtime
