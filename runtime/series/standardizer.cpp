// Standardizer as JSON.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/series/series_loader.h"

namespace hydrac::runtime {

std::string Standardizer::to_json() const {
  return nlohmann::json{{"columns", columns}, {"mean", mean}, {"std", std}}.dump(1) + "\n";
}

Standardizer Standardizer::parse(std::string_view text, const std::string& shown_as) {
  const nlohmann::json root = parse_json(text, shown_as);
  if (!root.is_object()) throw InputError(fmt::format("{}: it is not a JSON object", shown_as));
  const auto numbers = [&](const char* key) {
    std::vector<double> values;
    for (const nlohmann::json& value : json_container(root, key, nlohmann::json::value_t::array, shown_as)) {
      if (!value.is_number())
        throw InputError(fmt::format("{}: \"{}\" holds something else than numbers", shown_as, key));
      values.push_back(value.get<double>());
    }
    return values;
  };
  Standardizer stats;
  for (const nlohmann::json& name :
       json_container(root, "columns", nlohmann::json::value_t::array, shown_as)) {
    if (!name.is_string())
      throw InputError(fmt::format("{}: \"columns\" holds something else than names", shown_as));
    stats.columns.push_back(name.get<std::string>());
  }
  stats.mean = numbers("mean");
  stats.std = numbers("std");
  if (stats.mean.size() != stats.columns.size() || stats.std.size() != stats.columns.size()) {
    throw InputError(
        fmt::format("{}: \"columns\", \"mean\" and \"std\" are not of the same length", shown_as));
  }
  for (const double std : stats.std) {
    if (!(std > 0))
      throw InputError(fmt::format("{}: a standard deviation of {}; it must be positive", shown_as, std));
  }
  return stats;
}

}  // namespace hydrac::runtime
