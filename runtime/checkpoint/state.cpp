#include "runtime/checkpoint/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

using nlohmann::json;

void RunState::set(const std::string& key, int64_t value) {
  if (value < 0) {
    values_[key] = value;
  } else {
    values_[key] = static_cast<uint64_t>(value);
  }
}

void RunState::set(const std::string& key, double value) {
  if (!std::isfinite(value))
    throw std::logic_error(fmt::format("state {} is {}, which JSON cannot hold", key, value));
  values_[key] = value;
}

const RunState::Value& RunState::at(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    throw InputError(fmt::format("{}: {} is missing; the checkpoint was written by another version", label_,
                                 in_quotes(key)));
  }
  return found->second;
}

void RunState::wrong(const std::string& key, const char* wanted) const {
  throw InputError(fmt::format("{}: {} is not {}", label_, in_quotes(key), wanted));
}

bool RunState::boolean(const std::string& key) const {
  if (const bool* value = std::get_if<bool>(&at(key))) return *value;
  wrong(key, "true or false");
}

int64_t RunState::integer(const std::string& key) const {
  const Value& value = at(key);
  if (const int64_t* negative = std::get_if<int64_t>(&value)) return *negative;
  const uint64_t* whole = std::get_if<uint64_t>(&value);
  if (!whole || *whole > static_cast<uint64_t>(INT64_MAX)) wrong(key, "a signed 64-bit number");
  return static_cast<int64_t>(*whole);
}

uint64_t RunState::counter(const std::string& key) const {
  if (const uint64_t* value = std::get_if<uint64_t>(&at(key))) return *value;
  wrong(key, "an unsigned 64-bit number");
}

double RunState::number(const std::string& key) const {
  if (const double* value = std::get_if<double>(&at(key))) return *value;
  wrong(key, "a number with a fraction");
}

const std::string& RunState::text(const std::string& key) const {
  if (const std::string* value = std::get_if<std::string>(&at(key))) return *value;
  wrong(key, "text");
}

const std::vector<uint64_t>& RunState::counters(const std::string& key) const {
  if (const auto* value = std::get_if<std::vector<uint64_t>>(&at(key))) return *value;
  wrong(key, "a list of unsigned 64-bit numbers");
}

std::string RunState::to_json() const {
  json object = json::object();
  for (const auto& [key, value] : values_) {
    std::visit([&, &key = key](const auto& held) { object[key] = held; }, value);
  }
  return object.dump(2) + "\n";
}

RunState RunState::from_json(std::string_view text, std::string label) {
  RunState state;
  state.label_ = std::move(label);
  const json object = parse_json(text, state.label_);
  if (!object.is_object())
    throw InputError(fmt::format("{}: is no JSON object; the file is damaged", state.label_));
  for (const auto& [key, value] : object.items()) {
    if (value.is_boolean()) {
      state.set(key, value.get<bool>());
    } else if (value.is_number_unsigned()) {
      state.set(key, value.get<uint64_t>());
    } else if (value.is_number_integer()) {
      state.set(key, value.get<int64_t>());
    } else if (value.is_number_float()) {
      state.set(key, value.get<double>());
    } else if (value.is_string()) {
      state.set(key, value.get<std::string>());
    } else {
      const auto unsigned_number = [](const json& item) { return item.is_number_unsigned(); };
      if (!value.is_array() || !std::all_of(value.begin(), value.end(), unsigned_number)) {
        state.wrong(key, "a value that a state holds");
      }
      state.set(key, value.get<std::vector<uint64_t>>());
    }
  }
  return state;
}

}  // namespace hydrac::runtime
