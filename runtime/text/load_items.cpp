#include "runtime/text/load_items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <map>
#include <utility>

#include "runtime/error.h"
#include "runtime/log/units.h"
#include "runtime/text/documents.h"
#include "runtime/text/pair_record.h"
#include "runtime/text/tokenizer/cached_tokens.h"

namespace hydrac::runtime {

namespace {

// Conversations that the model's own template renders at once. Meanwhile batches before them become tokens.
constexpr size_t kBatch = 256;

class ItemReader {
 public:
  ItemReader(const std::vector<InputFile>& files, const CorpusOptions& options, ItemEncoder& encoder)
      : files_(files), encoder_(encoder), report_(files, options) {}

  // False if options.enough_tokens ended it.
  bool read() {
    try {
      for_each_record(files_, [&](const Record& record) { add(record); });
      send();
      while (!sent_.empty()) finish();
    } catch (const EnoughTokens&) {
      return false;
    }
    report_.end(packed_.count());
    return true;
  }
  PackedTokens take() { return std::move(packed_); }

  // "1,250 records of messages, 3 of text"
  std::string found() const {
    std::vector<std::string> parts;
    for (const auto& [shape, count] : counts_)
      parts.push_back(fmt::format("{} {} {}", human_count(static_cast<double>(count)),
                                  parts.empty() ? "records of" : "of", to_string(shape)));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

 private:
  struct Batch {
    std::vector<PendingItem> items;
    std::vector<std::pair<std::string, int64_t>> places;  // of each, and its bytes
  };

  void add(const Record& record) {
    for (PendingItem& text : encoder_.prepare(record.value)) {
      newest_.items.push_back(std::move(text));
      newest_.places.emplace_back(place_of(record.file, record.kind, record.line), record.bytes);
    }
    if (newest_.items.size() >= kBatch) send();
  }

  void send() {
    encoder_.send(newest_.items);
    sent_.push_back(std::exchange(newest_, {}));
    while (sent_.size() > encoder_.ahead()) finish();
  }

  void finish() {
    Batch batch = std::move(sent_.front());
    sent_.pop_front();
    encoder_.receive(batch.items);
    for (size_t i = 0; i < batch.items.size(); ++i) {
      const auto& [place, bytes] = batch.places[i];
      item_.clear();
      try {
        encoder_.encode(batch.items[i], item_);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", place, error.what()));
      }
      packed_.append(item_);
      if (batch.items[i].of_pair == kChosen) continue;  // half of an item
      ++counts_[batch.items[i].record.shape];
      bytes_done_ += bytes;
      report_.at(bytes_done_, packed_.count());
    }
  }

  const std::vector<InputFile>& files_;
  ItemEncoder& encoder_;
  TokenizeReport report_;
  PackedTokens packed_{sizeof(MarkedToken)};
  Batch newest_;
  std::deque<Batch> sent_;
  std::vector<MarkedToken> item_;
  int64_t bytes_done_ = 0;
  std::map<ChatRecord::Shape, int64_t> counts_;
};

PackedTokens tokenize(const std::vector<InputFile>& files, const CorpusOptions& options,
                      ItemEncoder& encoder) {
  ItemReader reader(files, options, encoder);
  const bool is_whole = reader.read();
  if (!is_whole && options.is_cut) *options.is_cut = true;
  if (options.notice && is_whole) options.notice(fmt::format("data: {}", reader.found()));
  return reader.take();
}

// All that decides what a record becomes.
std::vector<std::string> parts_of(const ItemFormat& format) {
  std::vector<std::string> parts = {"items 3", format.names.text_key, format.chat_template,
                                    !format.replies_only ? "all"
                                    : format.last_only   ? "last"
                                                         : "replies"};
  for (const auto& [name, other] : format.names.fields) parts.push_back(fmt::format("{}={}", name, other));
  if (format.jinja) {
    for (const std::string& part :
         {format.jinja->source, format.jinja->with_tools, format.plain_format, format.variables, format.date})
      parts.push_back(part);
    for (const auto& [name, text] : format.jinja->tokens) parts.push_back(fmt::format("{}={}", name, text));
  }
  // Tokens that are there say that all prompts were as they must be.
  if (format.most_prompt_tokens > 0) parts.push_back(fmt::format("prompts {}", format.most_prompt_tokens));
  if (format.pairs) parts.emplace_back("pairs");
  return parts;
}

}  // namespace

std::shared_ptr<const ItemStore> load_items(const CorpusOptions& options, const ItemFormat& format,
                                            const Tokenizer& tokenizer) {
  ItemEncoder encoder(tokenizer, format);
  const std::vector<InputFile> files =
      text_files(options, "and data.format: chat reads records: JSONL, JSON arrays or tables");
  const uint64_t key = token_key(options, files, tokenizer, parts_of(format));
  const TokenStore::Segment tokens =
      cached_tokens(options, key, tokenizer, [&] { return tokenize(files, options, encoder); });
  if (tokens.width != sizeof(MarkedToken)) throw InputError("the token cache holds tokens of another kind");
  return std::make_shared<ItemStore>(
      tokens.owner,
      std::span(static_cast<const MarkedToken*>(tokens.data), static_cast<size_t>(tokens.count)),
      tokenizer.rows(), tokens.name);
}

}  // namespace hydrac::runtime
