#include "runtime/data/items.h"

#include <fmt/core.h>

#include "runtime/error.h"

namespace hydrac::runtime {

ItemStore::ItemStore(std::shared_ptr<const void> owner, std::span<const MarkedToken> tokens,
                     int64_t vocab_size, const std::string& shown_as)
    : owner_(std::move(owner)), tokens_(tokens) {
  if (tokens_.empty() || !tokens_[0].begins())
    throw InputError(fmt::format("{}: it holds no items", shown_as));
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].id() >= vocab_size)
      throw InputError(fmt::format("{}: token {} is {}, and the vocabulary has {}", shown_as, i,
                                   tokens_[i].id(), vocab_size));
    if (tokens_[i].begins()) begins_.push_back(static_cast<int64_t>(i));
  }
  begins_.push_back(static_cast<int64_t>(tokens_.size()));
}

std::span<const MarkedToken> ItemStore::item(int64_t index) const {
  const auto at = static_cast<size_t>(index);
  return tokens_.subspan(static_cast<size_t>(begins_[at]),
                         static_cast<size_t>(begins_[at + 1] - begins_[at]));
}

}  // namespace hydrac::runtime
