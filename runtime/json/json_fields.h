// Typed access to fields of parsed JSON; every surprise is an InputError that names the field.
// Internal to the .cpp files that read JSON.
#pragma once
#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/base/quote.h"
#include "runtime/error.h"

namespace hydrac::runtime {

// The field, or null where it is missing.
inline const nlohmann::json& json_field(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// The field as text, `fallback` where it is missing or null.
inline std::string json_string(const nlohmann::json& object, const char* key, const std::string& fallback,
                               const std::string& shown_as) {
  const nlohmann::json& field = json_field(object, key);
  if (field.is_null()) return fallback;
  if (!field.is_string()) {
    throw InputError(fmt::format("{}: \"{}\" is not a string but {}", shown_as, key, field.type_name()));
  }
  return field.get<std::string>();
}

// The field as a truth value, `fallback` where it is missing or null.
inline bool json_bool(const nlohmann::json& object, const char* key, bool fallback,
                      const std::string& shown_as) {
  const nlohmann::json& field = json_field(object, key);
  if (field.is_null()) return fallback;
  if (!field.is_boolean()) {
    throw InputError(
        fmt::format("{}: \"{}\" is neither true nor false but {}", shown_as, key, field.type_name()));
  }
  return field.get<bool>();
}

// The field, which must be an array or object of the kind `type`.
inline const nlohmann::json& json_container(const nlohmann::json& object, const char* key,
                                            nlohmann::json::value_t type, const std::string& shown_as) {
  const nlohmann::json& field = json_field(object, key);
  const char* wanted = type == nlohmann::json::value_t::array ? "an array" : "an object";
  if (field.is_null())
    throw InputError(fmt::format("{}: \"{}\" is missing; it must be {}", shown_as, key, wanted));
  if (field.type() != type)
    throw InputError(fmt::format("{}: \"{}\" is not {} but {}", shown_as, key, wanted, field.type_name()));
  return field;
}

// The names of an object's fields, for a message: the first few.
template <class Json>
std::string json_keys(const Json& object) {
  constexpr size_t kMost = 8;
  std::string keys;
  size_t count = 0;
  for (const auto& [key, value] : object.items()) {
    if (++count > kMost) return keys + ", ...";
    keys += (keys.empty() ? "" : ", ") + in_quotes(key, 60);
  }
  return keys.empty() ? "nothing" : keys;
}

}  // namespace hydrac::runtime
