#include "runtime/text/pair_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/json/json_fields.h"

namespace hydrac::runtime {

namespace {

using Json = nlohmann::ordered_json;

void check_completions(const Json& record, const std::string& prompt) {
  for (const char* key : {kChosen, kRejected}) {
    const auto text = record.find(key);
    if (text == record.end())
      throw InputError(
          fmt::format("objective.name wants pairs, and there is no \"{}\" but {}", key, json_keys(record)));
    if (!text->is_string() && !text->is_array())
      throw InputError(
          fmt::format("\"{}\" is neither a string nor a list of messages but {}", key, text->type_name()));
    if (says_nothing(*text)) throw InputError(fmt::format("\"{}\" is empty", key));
    if (text->type() != record[kChosen].type() ||
        (record.contains(prompt) && record[prompt].type() != text->type()))
      throw InputError("of prompt, chosen and rejected some are strings and others lists of messages");
  }
}

}  // namespace

PairRecords read_pair(const Json& record, const RecordNames& names) {
  if (!record.is_object()) throw InputError(fmt::format("this is {}, not a JSON object", record.type_name()));
  const std::string prompt = names.column("prompt"), completion = names.column("completion");
  check_completions(record, prompt);
  Json both = record, chosen = record[kChosen], rejected = record[kRejected];
  both.erase(kChosen);
  both.erase(kRejected);
  if (chosen.is_array() && !record.contains(prompt)) {
    const auto count = std::ranges::mismatch(chosen, rejected).in1 - chosen.begin();
    both[prompt] = Json(Json::array_t(chosen.begin(), chosen.begin() + count));
    chosen = Json(Json::array_t(chosen.begin() + count, chosen.end()));
    rejected = Json(Json::array_t(rejected.begin() + count, rejected.end()));
  }
  PairRecords pair{both, std::move(both)};
  pair.chosen[completion] = std::move(chosen);
  pair.rejected[completion] = std::move(rejected);
  return pair;
}

}  // namespace hydrac::runtime
