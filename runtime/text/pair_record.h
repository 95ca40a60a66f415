// Records of pairs: a prompt with two completions, of which people chose one.
#pragma once
#include <nlohmann/json.hpp>

#include "runtime/text/chat_record.h"

namespace hydrac::runtime {

inline constexpr const char* kChosen = "chosen";
inline constexpr const char* kRejected = "rejected";

// The two texts of a pair, as records with prompt and completion.
struct PairRecords {
  nlohmann::ordered_json chosen, rejected;
};

// A record has prompt, chosen and rejected, which are texts or lists of messages. Lists may lack the prompt:
// then it is what both begin with. All other fields, such as tools, belong to both texts. InputError, without
// the record's place, where a completion is missing or empty, or of another type than the rest.
PairRecords read_pair(const nlohmann::ordered_json& record, const RecordNames& names);

}  // namespace hydrac::runtime
