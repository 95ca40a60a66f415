#include "runtime/data/corpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "runtime/data/hash.h"
#include "runtime/data/input_files.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/token_loader.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

// Size and some of the tokens: enough to notice that a corpus is another one.
std::string token_fingerprint(const TokenStore& store) {
  constexpr int64_t most = 1 << 20;
  std::vector<int32_t> ids(static_cast<size_t>(std::min(store.size(), most)));
  store.read(0, ids);
  Hash64 hash;
  auto add_ids = [&] { hash.add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]}); };
  add_ids();
  store.read(store.size() - static_cast<int64_t>(ids.size()), ids);
  add_ids();
  return fmt::format("{} tokens, {:016x}", store.size(), hash.value());
}

std::shared_ptr<const TokenStore> open_tokens(const DataSettings& settings,
                                              const std::vector<std::string>& patterns,
                                              const std::string& fingerprint, int64_t vocab_size) {
  const std::vector<InputFile> files = expand_patterns(patterns, ".");
  if (settings.raw_uint16) return open_raw_tokens(files, vocab_size);
  for (const InputFile& file : files) {
    if (source_kind(file) == SourceKind::tokens) continue;
    throw InputError(fmt::format(
        "{}: this program reads token shards (*.bin) only; to tokenize text, build it with runtime/text",
        file.name));
  }
  return open_token_shards(files, fingerprint, vocab_size);
}

bool contains(const TokenRange& range, int32_t token) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<int32_t> ids;
  for (int64_t begin = range.begin; begin < range.end; begin += kPiece) {
    ids.resize(static_cast<size_t>(std::min(kPiece, range.end - begin)));
    range.store->read(begin, ids);
    if (std::ranges::find(ids, token) != ids.end()) return true;
  }
  return false;
}

// The token that ends a document. InputError where the data does not say where its documents end.
int32_t document_end(const DataSettings& settings, std::optional<int32_t> end, const TokenRange& train) {
  if (!end)
    throw InputError(
        fmt::format("{}: the tokenizer has no token that ends a text, so that documents cannot be "
                    "told apart: write data.document_mask: false",
                    settings.tokenizer));
  // Data that no sequence fits into is refused by the loader, whatever its documents.
  if (train.size() > settings.sequence_len && !contains(train, *end))
    throw InputError(
        fmt::format("data.path: the {} tokens to train on are of one document, for none of them is {}, which "
                    "ends a text: give more documents, or write data.document_mask: false",
                    train.size(), *end));
  return *end;
}

}  // namespace

void fill_token_corpus(Corpus& corpus, const DataSettings& settings, const std::string& tokenizer_fingerprint,
                       std::optional<int32_t> end, const LoadTokens& load) {
  const std::shared_ptr<const TokenStore> train = load(settings.path);
  corpus.fingerprint = tokenizer_fingerprint + ", " + token_fingerprint(*train);
  TokenDataset dataset = settings.val_path.empty() ? TokenDataset::split(train, settings.val_fraction)
                                                   : TokenDataset::separate(train, load(settings.val_path));
  TokenLoaderOptions options{settings.batch_size, settings.sequence_len, settings.seed, settings.shuffle};
  options.curriculum = settings.curriculum;
  if (settings.document_mask) options.document_end = document_end(settings, end, dataset.train);
  options.warmup = settings.sequence_warmup;
  corpus.loader = std::make_shared<TokenLoader>(std::move(dataset), options);
}

void complete_vocabulary(DataSizes& sizes, Tokenizer& tokenizer) {
  if (sizes.vocab_size == 0) sizes.vocab_size = tokenizer.vocab_size();
  if (sizes.vocab_size >= tokenizer.vocab_size()) return;
  if (!sizes.has_weights)
    throw InputError(fmt::format(
        "model.vocab_size is {}, but the tokenizer has {} tokens: leave vocab_size out, or make it larger",
        sizes.vocab_size, tokenizer.vocab_size()));
  tokenizer.limit_to(sizes.vocab_size);
}

Corpus open_shards(const DataSettings& settings, bool) {
  Corpus corpus;
  corpus.sizes = settings.sizes;
  std::string fingerprint;
  EndTokens ends;
  if (settings.tokenizer == "byte") {
    corpus.tokenizer = make_byte_tokenizer();
    complete_vocabulary(corpus.sizes, *corpus.tokenizer);
    fingerprint = corpus.tokenizer->fingerprint();
    ends = corpus.tokenizer->end_tokens();
    corpus.files = tokenizer_files("", corpus.tokenizer->to_json(), ends);
  } else if (settings.tokenizer == "char") {
    throw InputError("data.tokenizer: char makes its vocabulary from text, and token shards have none");
  } else {
    const std::string json(MappedFile::open(settings.tokenizer, settings.tokenizer)->bytes());
    fingerprint = bpe_fingerprint(json);
    ends = end_tokens_of(parse_json(json, settings.tokenizer), end_declarations(settings.tokenizer));
    corpus.files = tokenizer_files(settings.tokenizer, json, ends);
  }
  if (corpus.sizes.vocab_size == 0)
    throw InputError("model.vocab_size: token shards do not say it, so it must be given");
  fill_token_corpus(corpus, settings, fingerprint, ends.document,
                    [&](const std::vector<std::string>& patterns) {
                      return open_tokens(settings, patterns, fingerprint, corpus.sizes.vocab_size);
                    });
  return corpus;
}

}  // namespace hydrac::runtime
