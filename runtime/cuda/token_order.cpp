#include "runtime/cuda/token_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "runtime/error.h"

namespace hydrac::runtime::cuda {

TokenOrder::TokenOrder(std::int64_t vocabulary) : next_(static_cast<std::size_t>(vocabulary)) {}

void TokenOrder::sort(std::span<const std::int32_t> ids, std::span<std::int32_t> order) {
  assert(ids.size() == order.size());
  std::fill(next_.begin(), next_.end(), 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // A negative id is a large one here.
    if (static_cast<std::uint32_t>(ids[i]) >= next_.size())
      throw RunError(
          fmt::format("token {} of the batch is {}, outside the vocabulary of {}", i, ids[i], next_.size()));
    ++next_[static_cast<std::size_t>(ids[i])];
  }
  std::int32_t before = 0;
  for (std::int32_t& next : next_) {
    const std::int32_t count = next;
    next = before;
    before += count;
  }
  for (std::size_t i = 0; i < ids.size(); ++i)
    order[static_cast<std::size_t>(next_[static_cast<std::size_t>(ids[i])]++)] = static_cast<std::int32_t>(i);
}

}  // namespace hydrac::runtime::cuda
