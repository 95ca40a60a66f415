// A corpus of text, JSONL or token shards, with its tokenizer.
#pragma once
#include <memory>

#include "runtime/data/corpus.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {

// The prompts that the chat template of the settings makes of what users say, each with the beginning of a
// reply. InputError where there is no template, or it refuses one.
std::vector<std::string> chat_prompts(const DataSettings& settings, const std::vector<std::string>& said);

// settings.tokenizer; builds a character vocabulary from the corpus when it has to.
std::unique_ptr<Tokenizer> open_tokenizer(const DataSettings& settings);

// An OpenCorpus.
Corpus open_text(const DataSettings& settings, bool quiet);

}  // namespace hydrac::runtime
