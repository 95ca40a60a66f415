#include "oracle/job/json_reader.h"

#include <fmt/format.h>

#include "oracle/job/error.h"

namespace hydrac::oracle {

using nlohmann::json;

JsonReader::JsonReader(const json& object, std::string where) : json_(object), where_(std::move(where)) {
  if (!json_.is_object())
    throw JobError(fmt::format("{} must be an object", where_.empty() ? "the file" : where_));
}

std::string JsonReader::place(const std::string& key) const {
  return where_.empty() ? key : where_ + "." + key;
}

bool JsonReader::has(const std::string& key) {
  asked_.insert(key);
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

const json& JsonReader::member(const std::string& key) {
  asked_.insert(key);
  const auto found = json_.find(key);
  if (found == json_.end()) throw JobError(fmt::format("{} is missing", place(key)));
  return *found;
}

const json& JsonReader::array(const std::string& key) {
  const json& value = member(key);
  if (!value.is_array()) throw JobError(fmt::format("{} must be an array", place(key)));
  return value;
}

JsonReader JsonReader::object(const std::string& key) {
  return JsonReader(member(key), place(key));
}

std::string JsonReader::text(const std::string& key) {
  const json& value = member(key);
  if (!value.is_string()) throw JobError(fmt::format("{} must be a string", place(key)));
  return value.get<std::string>();
}

double JsonReader::number(const std::string& key) {
  const json& value = member(key);
  if (!value.is_number()) throw JobError(fmt::format("{} must be a number", place(key)));
  return value.get<double>();
}

double JsonReader::number(const std::string& key, double fallback) {
  return has(key) ? number(key) : fallback;
}

std::int64_t JsonReader::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  const json& value = member(key);
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX}
                                               : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    throw JobError(fmt::format("{} must be an integer from {} to {}", place(key), low, high));
  return value.get<std::int64_t>();
}

std::int64_t JsonReader::integer(const std::string& key, std::int64_t low, std::int64_t high,
                                 std::int64_t fallback) {
  return has(key) ? integer(key, low, high) : fallback;
}

void JsonReader::expect_no_more() const {
  for (const auto& [key, value] : json_.items())
    if (!asked_.count(key))
      throw JobError(fmt::format("{} is not a member that the oracle knows", place(key)));
}

}  // namespace hydrac::oracle
