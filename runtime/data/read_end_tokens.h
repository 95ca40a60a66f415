// End tokens as a tokenizer.json and the files beside it declare them. Internal to those who read tokenizers.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "runtime/data/end_tokens.h"

namespace hydrac::runtime {

// `tokenizer`: a parsed tokenizer.json. Documents end with tokenizer_config.json's eos_token (or
// special_tokens_map.json's), else with the first eos_token_id of generation_config.json or config.json that
// is an added token (text holds the others), and where none is declared, with an added token of a common
// name. A text ends with all of these, and with the turn's end. Ids beyond the vocabulary are passed over:
// nothing draws them. InputError for a declaration of another type, and for an eos_token that the tokenizer
// does not have.
EndTokens end_tokens_of(const nlohmann::json& tokenizer, const EndDeclarations& declared);

}  // namespace hydrac::runtime
