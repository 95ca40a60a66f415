// A corpus of text, JSONL or token shards, with its tokenizer.
#pragma once
#include <memory>

#include "runtime/data/corpus.h"
#include "runtime/text/tokenizers.h"

namespace hydrac::runtime {

// settings.tokenizer; builds a character vocabulary from the corpus when it has to.
std::unique_ptr<Tokenizer> open_tokenizer(const DataSettings& settings);

// An OpenCorpus.
Corpus open_text(const DataSettings& settings, bool quiet);

}  // namespace hydrac::runtime
