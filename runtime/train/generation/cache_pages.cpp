#include "runtime/train/generation/cache_pages.h"

#include <algorithm>

namespace hydrac::runtime {

CachePages::CachePages(const CacheShape& cache)
    : cache_(cache),
      table_(static_cast<size_t>(cache.sequences * cache.pages_of_sequence), -1),
      held_(static_cast<size_t>(std::max<int64_t>(cache.sequences, 1)), 0) {
  for (int64_t page = cache.pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

int64_t CachePages::pages_of(int64_t tokens) const {
  if (cache_.pages == 0) return 0;
  return std::min((tokens + cache_.page_tokens - 1) / cache_.page_tokens, cache_.pages_of_sequence);
}

bool CachePages::grow(size_t sequence, int64_t tokens) {
  const int64_t wanted = pages_of(tokens);
  if (wanted - held_[sequence] > std::ssize(free_)) return false;
  for (int64_t& held = held_[sequence]; held < wanted; ++held) {
    table_[sequence * static_cast<size_t>(cache_.pages_of_sequence) + static_cast<size_t>(held)] =
        free_.back();
    free_.pop_back();
  }
  most_used_ = std::max(most_used_, cache_.pages - std::ssize(free_));
  return true;
}

void CachePages::release(size_t sequence) {
  const auto first = table_.begin() + static_cast<std::ptrdiff_t>(sequence) * cache_.pages_of_sequence;
  for (int64_t& held = held_[sequence]; held > 0; --held) {
    int32_t& page = first[held - 1];
    free_.push_back(page);
    page = -1;
  }
}

}  // namespace hydrac::runtime
