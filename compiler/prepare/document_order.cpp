#include "prepare/document_order.h"

#include <cstring>

#include "runtime/data/difficulty.h"

namespace hydrac::prepare {

// A stretch with add_end is cut off before its document's end.
uint64_t DocumentTokens::count(const Stretch& document) const {
  return document.end - document.begin - (has_end_of_text_ && !document.add_end);
}

std::vector<int32_t> DocumentTokens::ids(const Stretch& document) const {
  const auto width = static_cast<size_t>(corpus_.width);
  std::vector<int32_t> ids(count(document));
  const char* from = corpus_.file->bytes().data() + document.begin * width;
  for (int32_t& id : ids) {
    id = 0;
    std::memcpy(&id, from, width);  // the project's targets are little-endian
    from += width;
  }
  return ids;
}

void sort_by_length(const DocumentTokens& tokens, std::vector<Stretch>& documents) {
  runtime::sort_from_easy(
      documents, [&](const Stretch& document) { return static_cast<double>(tokens.count(document)); });
}

void sort_by_rarity(const DocumentTokens& tokens, std::vector<Stretch>& documents) {
  runtime::TokenRarity rarity;
  for (const Stretch& document : documents) rarity.count(tokens.ids(document));
  runtime::sort_from_easy(documents,
                          [&](const Stretch& document) { return rarity.mean(tokens.ids(document)); });
}

}  // namespace hydrac::prepare
