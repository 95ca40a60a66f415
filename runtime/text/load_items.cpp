#include "runtime/text/load_items.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/text/cached_tokens.h"
#include "runtime/text/documents.h"

namespace hydrac::runtime {

namespace {

PackedTokens tokenize(const std::vector<InputFile>& files, const CorpusOptions& options,
                      const ItemEncoder& encoder) {
  PackedTokens packed(sizeof(MarkedToken));
  TokenizeReport report(files, options);
  std::vector<MarkedToken> item;
  int64_t bytes_done = 0;
  const auto add = [&](const Record& record) {
    item.clear();
    try {
      encoder.encode(record.value, item);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", place_of(record.file, record.kind, record.line), error.what()));
    }
    packed.append(item);
    bytes_done += record.bytes;
    report.at(bytes_done, packed.count());
  };
  try {
    for_each_record(files, add);
  } catch (const EnoughTokens&) {
    if (options.is_cut) *options.is_cut = true;
  }
  report.end(packed.count());
  return packed;
}

}  // namespace

std::shared_ptr<const ItemStore> load_items(const CorpusOptions& options, const ItemFormat& format,
                                            const Tokenizer& tokenizer) {
  const ItemEncoder encoder(tokenizer, format);
  const std::vector<InputFile> files =
      text_files(options, "and data.format: chat reads records: JSONL, JSON arrays or tables");
  std::vector<std::string> parts = {"items 2", format.text_key, format.chat_template,
                                    format.replies_only ? "replies" : "all"};
  // Tokens that are there say that all prompts were as they must be.
  if (format.most_prompt_tokens > 0) parts.push_back(fmt::format("prompts {}", format.most_prompt_tokens));
  if (format.pairs) parts.emplace_back("pairs");
  const uint64_t key = token_key(options, files, tokenizer, parts);
  const TokenStore::Segment tokens =
      cached_tokens(options, key, tokenizer, [&] { return tokenize(files, options, encoder); });
  if (tokens.width != sizeof(MarkedToken)) throw InputError("the token cache holds tokens of another kind");
  return std::make_shared<ItemStore>(
      tokens.owner,
      std::span(static_cast<const MarkedToken*>(tokens.data), static_cast<size_t>(tokens.count)),
      tokenizer.rows(), tokens.name);
}

}  // namespace hydrac::runtime
