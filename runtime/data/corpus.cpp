#include "runtime/data/corpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "runtime/data/epoch_windows.h"
#include "runtime/data/input_files.h"
#include "runtime/data/mapped_file.h"
#include "runtime/data/mixed_loader.h"
#include "runtime/data/read_end_tokens.h"
#include "runtime/data/token_loader.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

std::shared_ptr<const TokenStore> open_tokens(const DataSettings& settings,
                                              const std::vector<std::string>& patterns,
                                              const std::string& fingerprint, int64_t vocab_size) {
  const std::vector<InputFile> files = expand_patterns(patterns, ".");
  if (settings.raw_uint16) return open_raw_tokens(files, vocab_size, settings.cache_dir);
  for (const InputFile& file : files) {
    if (source_kind(file) == SourceKind::tokens) continue;
    throw InputError(fmt::format(
        "{}: this program reads token shards (*.bin) only; to tokenize text, build it with runtime/text",
        file.name));
  }
  return open_token_shards(files, fingerprint, vocab_size, settings.cache_dir);
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

std::vector<std::string> all_paths(const DataSettings& settings) {
  std::vector<std::string> all;
  const auto add = [&](const std::vector<std::string>& paths) {
    all.insert(all.end(), paths.begin(), paths.end());
  };
  add(settings.path);
  for (const DataSource& source : settings.mix) add(source.path);
  add(settings.val_path);
  for (const DataSet& set : settings.val) add(set.path);
  return all;
}

void fill_token_corpus(Corpus& corpus, const DataSettings& settings, const std::string& tokenizer_fingerprint,
                       std::optional<int32_t> end, const LoadTokens& load) {
  const std::shared_ptr<const TokenStore> train = load(settings.path);
  const std::shared_ptr<const TokenStore> val = settings.val_path.empty() ? nullptr
                                                : settings.val_path == settings.path
                                                    ? train
                                                    : load(settings.val_path);
  corpus.identity = {tokenizer_fingerprint, train->content(), std::nullopt};
  if (val) corpus.identity.val = val->content();
  TokenDataset dataset =
      val ? TokenDataset::separate(train, val) : TokenDataset::split(train, settings.val_fraction);
  TokenLoaderOptions options{settings.batch_size, settings.sequence_len, settings.seed, settings.shuffle};
  options.curriculum = settings.curriculum;
  if (settings.document_mask) options.document_end = document_end(settings, end, dataset.train);
  options.warmup = settings.sequence_warmup;
  corpus.loader = std::make_shared<TokenLoader>(std::move(dataset), options);
}

namespace {

constexpr uint64_t kSource = 17;  // the purpose of a source's seed

// The contents of several as those of one.
DataContent together(const std::vector<DataContent>& parts) {
  if (parts.size() == 1) return parts[0];
  DataContent all;
  Hash64 hash;
  for (const DataContent& part : parts) {
    all.size += (all.size.empty() ? "" : " and ") + part.size;
    hash.add(part.hash);
  }
  all.hash = hash.value();
  return all;
}

}  // namespace

void fill_mixed_corpus(Corpus& corpus, const DataSettings& settings, const FillCorpus& fill) {
  if (settings.mix.empty() && settings.val.empty()) return fill(corpus, settings);
  const auto open = [&](const std::string& key, const DataSettings& one) {
    try {
      fill(corpus, one);
    } catch (const InputError& error) {
      throw InputError(key.empty() ? error.what() : fmt::format("{}: {}", key, error.what()));
    }
    return std::dynamic_pointer_cast<const RowLoader>(corpus.loader);
  };
  DataSettings one = settings;  // one.mix and one.val mean nothing to `fill`
  std::vector<DataSource> sources = settings.mix;
  if (sources.empty()) sources.push_back({.name = "", .path = settings.path});
  std::vector<DataSet> sets = settings.val;
  if (!settings.val_path.empty()) sets.push_back({"", settings.val_path});
  if (!sets.empty()) one.val_path.clear(), one.val_fraction = 0;
  std::vector<MixSource> train;
  std::vector<ValidationSet> validation;
  std::vector<DataContent> train_contents, val_contents;
  for (const DataSource& source : sources) {
    one.path = source.path;
    const auto loader = open(source.name.empty() ? "" : "data.mix." + source.name, one);
    train_contents.push_back(corpus.identity.train);
    train.push_back({source.name, source.weight, source.epochs, loader});
    if (loader->eval_batches() > 0) validation.push_back({source.name, loader});
    one.seed = epoch_key(settings.seed, std::ssize(train), kSource);
  }
  for (const DataSet& set : sets) {
    one.path = one.val_path = set.path;  // all of it validates
    validation.push_back({set.name, open(set.name.empty() ? "data.val_path" : "data.val." + set.name, one)});
    val_contents.push_back(*corpus.identity.val);
  }
  corpus.identity.train = together(train_contents);
  corpus.identity.val = std::nullopt;
  if (!sets.empty()) corpus.identity.val = together(val_contents);
  corpus.loader = std::make_shared<MixedLoader>(std::move(train), std::move(validation),
                                                settings.sequence_len, settings.seed);
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
  const LoadTokens load = [&](const std::vector<std::string>& patterns) {
    return open_tokens(settings, patterns, fingerprint, corpus.sizes.vocab_size);
  };
  fill_mixed_corpus(corpus, settings, [&](Corpus& part, const DataSettings& one) {
    fill_token_corpus(part, one, fingerprint, ends.document, load);
  });
  return corpus;
}

}  // namespace hydrac::runtime
