// Untrusted JSON: parsed with a depth limit, and every surprise an InputError that names the source.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// Throws InputError "SHOWN_AS: not valid JSON: ..." naming line and column, or for nesting deeper than 64.
nlohmann::json parse_json(std::string_view text, const std::string& shown_as);
// The same with the fields of objects in the order in which they are written.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& shown_as);

}  // namespace hydrac::runtime
