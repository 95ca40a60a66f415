#include "runtime/text/text_corpus.h"

#include <fmt/format.h>

#include <cstdio>

#include "runtime/log/output.h"
#include "runtime/log/units.h"
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
  options.cache_dir = settings.cache_dir;
  if (!quiet) {
    options.notice = [](const std::string& line) { print_text(stdout, line + "\n"); };
    options.progress = [](const TokenizeProgress& p) {
      print_text(stdout, fmt::format("tokenizing: {} of {}, {} tokens\n", human_bytes(p.bytes_done),
                                     human_bytes(p.bytes_total), human_count(static_cast<double>(p.tokens))));
    };
  }
  return options;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const DataSettings& settings) {
  if (settings.tokenizer == "byte") return make_byte_tokenizer();
  if (settings.tokenizer == "char") {
    CorpusOptions options = corpus_options(settings, settings.path, true);
    options.patterns.insert(options.patterns.end(), settings.val_path.begin(), settings.val_path.end());
    return make_corpus_char_tokenizer(options);
  }
  return load_tokenizer(settings.tokenizer);
}

Corpus open_text(const DataSettings& settings, bool quiet) {
  Corpus corpus;
  corpus.tokenizer = open_tokenizer(settings);
  corpus.sizes = settings.sizes;
  complete_vocabulary(corpus.sizes, *corpus.tokenizer);
  fill_token_corpus(corpus, settings, corpus.tokenizer->fingerprint(),
                    [&](const std::vector<std::string>& patterns) {
                      return load_tokens(corpus_options(settings, patterns, quiet), *corpus.tokenizer);
                    });
  if (settings.tokenizer != "byte" && settings.tokenizer != "char")
    corpus.files = files_beside_tokenizer(settings.tokenizer);
  corpus.files.merge(tokenizer_files(corpus.tokenizer->to_json(), corpus.tokenizer->end_of_text()));
  return corpus;
}

}  // namespace hydrac::runtime
