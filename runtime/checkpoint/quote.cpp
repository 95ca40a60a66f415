#include "runtime/checkpoint/quote.h"

#include <nlohmann/json.hpp>

namespace hydrac::runtime {

using nlohmann::json;

std::string in_quotes(std::string_view name) {
  constexpr size_t longest = 120;
  const bool cut = name.size() > longest;
  // A cut through a character, like any other invalid UTF-8, shows as a replacement character.
  std::string text = json(name.substr(0, longest)).dump(-1, ' ', true, json::error_handler_t::replace);
  if (cut) text.insert(text.size() - 1, "...");
  return text;
}

std::string json_string(std::string_view text) {
  return json(text).dump();
}

}  // namespace hydrac::runtime
