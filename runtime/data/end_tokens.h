// The tokens that end a text, as the files of a model's folder declare them. Whatever separates documents,
// ends a completion or stops a generation asks here.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hydrac::runtime {

struct EndTokens {
  std::optional<int32_t> document;  // stands between documents and behind completions
  std::string document_text;        // as its tokenizer.json writes it
  std::vector<int32_t> all;         // each ends what a model generates; `document` is among them

  bool contains(int32_t id) const;
  void add(int32_t id);  // to `all`, once
};

// Where end tokens are declared beside tokenizer.json.
struct EndDeclarations {
  std::string folder;                        // for messages
  std::map<std::string, std::string> files;  // tokenizer_config.json, generation_config.json, ...: contents
  std::string turn_end;                      // the token that ends a turn of the chat template in use
};

// Reads the files beside the tokenizer.json at `path` that may declare end tokens. InputError for one that
// cannot be read or is no text.
EndDeclarations end_declarations(const std::string& path, const std::string& turn_end = "");

// `tokenizer`: a parsed tokenizer.json. Documents end with tokenizer_config.json's eos_token (or
// special_tokens_map.json's), else with the first eos_token_id of generation_config.json or config.json that
// is an added token (text holds the others), and where none is declared, with an added token of a common
// name. A text ends with all of these, and with the turn's end. Ids beyond the vocabulary are passed over:
// nothing draws them. InputError for a declaration of another type, and for an eos_token that the tokenizer
// does not have.
EndTokens end_tokens_of(const nlohmann::json& tokenizer, const EndDeclarations& declared);

// generation_config.json with all of `ends` as its eos_token_id; `text` is what it was, empty where there is
// none. As it was where it says the same.
std::string generation_config(const std::string& text, const EndTokens& ends, const std::string& shown_as);

}  // namespace hydrac::runtime
