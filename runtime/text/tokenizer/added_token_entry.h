// An entry of "added_tokens" of a Hugging Face tokenizer.json, whatever its model is.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/text/tokenizer/added_tokens.h"

namespace hydrac::runtime {

// `checked_id` makes an id of a field, for the token written so. InputError, which begins with `shown_as`,
// where the entry is no added token.
template <typename CheckedId>
AddedToken added_token_of(const nlohmann::json& entry, const std::string& shown_as,
                          const CheckedId& checked_id) {
  if (!entry.is_object()) throw InputError(shown_as + ": an entry of \"added_tokens\" is not an object");
  AddedToken token;
  token.content = json_string(entry, "content", "", shown_as);
  if (token.content.empty()) throw InputError(shown_as + ": an added token has no \"content\"");
  token.id = checked_id(json_field(entry, "id"), token.content);
  token.special = json_bool(entry, "special", false, shown_as);
  token.normalized = json_bool(entry, "normalized", !token.special, shown_as);
  token.single_word = json_bool(entry, "single_word", false, shown_as);
  token.lstrip = json_bool(entry, "lstrip", false, shown_as);
  token.rstrip = json_bool(entry, "rstrip", false, shown_as);
  return token;
}

}  // namespace hydrac::runtime
