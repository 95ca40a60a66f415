#include "runtime/text/text_corpus.h"

#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "runtime/data/hash.h"
#include "runtime/data/item_loader.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/load_items.h"
#include "runtime/text/load_tokens.h"

namespace hydrac::runtime {

namespace {

CorpusOptions corpus_options(const DataSettings& settings, const std::vector<std::string>& patterns,
                             bool quiet) {
  CorpusOptions options;
  options.base = ".";
  options.patterns = patterns;
  options.text_key = settings.text_key;
  options.raw_uint16 = settings.raw_uint16;
  options.enough_tokens = settings.enough_tokens;
  if (options.enough_tokens == 0) options.cache_dir = settings.cache_dir;
  if (!quiet) {
    options.notice = [](const std::string& line) { print_text(stdout, line + "\n"); };
    options.progress = [](const TokenizeProgress& p) {
      print_text(stdout, fmt::format("tokenizing: {} of {}, {} tokens\n", human_bytes(p.bytes_done),
                                     human_bytes(p.bytes_total), human_count(static_cast<double>(p.tokens))));
    };
  }
  return options;
}

DataContent content_of(const ItemStore& items) {
  const std::span<const MarkedToken> tokens = items.tokens();
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return {fmt::format("{} items of {} tokens", items.size(), tokens.size()), Hash64().add(bytes).value()};
}

// Its loader and identity.
void fill_item_corpus(Corpus& corpus, const DataSettings& settings, bool quiet) {
  const ItemFormat format{settings.text_key,           settings.chat_template, settings.replies_only,
                          settings.most_prompt_tokens, settings.template_hint, settings.pairs > 0};
  const auto load = [&](const std::vector<std::string>& patterns) {
    CorpusOptions options = corpus_options(settings, patterns, quiet);
    options.is_cut = &corpus.is_cut;
    return load_items(options, format, *corpus.tokenizer);
  };
  const std::shared_ptr<const ItemStore> train = load(settings.path);
  const std::shared_ptr<const ItemStore> val = settings.val_path.empty()            ? nullptr
                                               : settings.val_path == settings.path ? train
                                                                                    : load(settings.val_path);
  corpus.identity = {corpus.tokenizer->fingerprint(), content_of(*train), std::nullopt};
  if (val) corpus.identity.val = content_of(*val);
  ItemDataset dataset =
      val ? ItemDataset::separate(train, val) : ItemDataset::split(train, settings.val_fraction);
  const auto loader = std::make_shared<ItemLoader>(
      std::move(dataset), ItemLoaderOptions{settings.batch_size, settings.sequence_len, settings.seed,
                                            settings.shuffle, settings.cut_long_items, settings.document_mask,
                                            settings.pairs, settings.curriculum});
  if (!quiet) print_text(stdout, loader->description() + "\n");
  corpus.loader = loader;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const DataSettings& settings) {
  if (settings.tokenizer == "byte") return make_byte_tokenizer();
  if (settings.tokenizer == "char") {
    return make_corpus_char_tokenizer(corpus_options(settings, all_paths(settings), true));
  }
  const bool has_turns = settings.items && settings.chat_template != "none";
  return load_tokenizer(
      settings.tokenizer,
      has_turns ? std::string(ChatTemplate::named(settings.chat_template).reply_end()) : "");
}

Corpus open_text(const DataSettings& settings, bool quiet) {
  Corpus corpus;
  corpus.tokenizer = open_tokenizer(settings);
  corpus.sizes = settings.sizes;
  complete_vocabulary(corpus.sizes, *corpus.tokenizer);
  const LoadTokens load = [&](const std::vector<std::string>& patterns) {
    CorpusOptions options = corpus_options(settings, patterns, quiet);
    options.is_cut = &corpus.is_cut;
    return load_tokens(options, *corpus.tokenizer);
  };
  fill_mixed_corpus(corpus, settings, [&](Corpus& part, const DataSettings& one) {
    if (settings.items) return fill_item_corpus(part, one, quiet);
    fill_token_corpus(part, one, corpus.tokenizer->fingerprint(), corpus.tokenizer->end_of_text(), load);
  });
  const bool is_ours = settings.tokenizer == "byte" || settings.tokenizer == "char";
  corpus.files = tokenizer_files(is_ours ? "" : settings.tokenizer, corpus.tokenizer->to_json(),
                                 corpus.tokenizer->end_tokens());
  return corpus;
}

}  // namespace hydrac::runtime
