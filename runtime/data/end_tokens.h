// The tokens that end a text, as the files of a model's folder declare them. Whatever separates documents,
// ends a completion or stops a generation asks here.
#pragma once
#include <cstdint>
#include <map>
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

// Files beside tokenizer.json that declare end tokens.
struct EndDeclarations {
  std::string folder;                        // for messages
  std::map<std::string, std::string> files;  // tokenizer_config.json, generation_config.json, ...: contents
  std::string turn_end;                      // the token that ends a turn of the chat template in use
};

// Reads the files beside the tokenizer.json at `path` that may declare end tokens. InputError for one that
// cannot be read or is no text.
EndDeclarations end_declarations(const std::string& path, const std::string& turn_end = "");

// generation_config.json with all of `ends` as its eos_token_id; `text` is what it was, empty where there is
// none. As it was where it says the same.
std::string generation_config(const std::string& text, const EndTokens& ends, const std::string& shown_as);

}  // namespace hydrac::runtime
