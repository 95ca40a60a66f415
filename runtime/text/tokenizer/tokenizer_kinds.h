// The kinds that parse_tokenizer() chooses from. Internal to this folder.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {

// `characters`: the vocabulary in order of ids, as UTF-8. Throws InputError for one that is not strictly
// ascending.
std::unique_ptr<Tokenizer> make_char_tokenizer_of(std::string_view characters, const std::string& shown_as);

// `root`: a tokenizer.json with a model of type WordLevel. InputError unless a char tokenizer's to_json()
// wrote it.
std::unique_ptr<Tokenizer> make_char_tokenizer_of_words(const nlohmann::json& root,
                                                        const std::string& shown_as);

// `root`: the parsed tokenizer.json whose text is `text`.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const nlohmann::json& root, std::string_view text,
                                              const EndDeclarations& declared, const std::string& shown_as);

}  // namespace hydrac::runtime
