#include "runtime/text/load_tokens.h"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/text/documents.h"
#include "runtime/text/tokenizer/cached_tokens.h"

namespace hydrac::runtime {

namespace {

PackedTokens tokenize(const std::vector<InputFile>& files, const CorpusOptions& options,
                      const Tokenizer& tokenizer) {
  PackedTokens packed(tokenizer.vocab_size() <= 65536 ? 2 : 4);
  TokenizeReport report(files, options);
  std::vector<int32_t> ids;
  int64_t bytes_done = 0;
  bool first = true;
  const auto add = [&](const Document& document) {
    if (!first && tokenizer.end_of_text()) ids.push_back(*tokenizer.end_of_text());
    first = false;
    try {
      tokenizer.require_rows(ids);
      tokenizer.encode_to(document.text, ids, [&](size_t bytes) {
        report.at(bytes_done + static_cast<int64_t>(bytes),
                  packed.count() + static_cast<int64_t>(ids.size()));
      });
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("{}: {}", place_of(document.file, document.kind, document.line), error.what()));
    }
    packed.append(ids);
    ids.clear();
    bytes_done += static_cast<int64_t>(document.text.size());
    report.at(bytes_done, packed.count());
  };
  try {
    for_each_document(files, options.text_key, add);
  } catch (const EnoughTokens&) {
    packed.append(ids);  // the beginning of a long document
    if (options.is_cut) *options.is_cut = true;
  }
  report.end(packed.count());
  return packed;
}

}  // namespace

std::shared_ptr<const TokenStore> load_tokens(const CorpusOptions& options, const Tokenizer& tokenizer) {
  const std::vector<InputFile> all = expand_patterns(options.patterns, options.base);
  if (options.raw_uint16) return open_raw_tokens(all, tokenizer.rows(), options.cache_dir);
  const auto is_shard = [](const InputFile& file) { return source_kind(file) == SourceKind::tokens; };
  if (std::all_of(all.begin(), all.end(), is_shard))
    return open_token_shards(all, tokenizer.fingerprint(), tokenizer.rows(), options.cache_dir);
  const std::vector<InputFile> files = text_files(options, "and other files are text: give one kind");
  const uint64_t key = token_key(options, files, tokenizer, {options.text_key});
  std::vector<TokenStore::Segment> segments = {
      cached_tokens(options, key, tokenizer, [&] { return tokenize(files, options, tokenizer); })};
  return std::make_shared<TokenStore>(std::move(segments), tokenizer.rows());
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
        throw InputError(
            fmt::format("{}: {}", place_of(document.file, document.kind, document.line), error.what()));
      }
    });
  });
}

}  // namespace hydrac::runtime
