// The allocator of a cache whose keys and values are one pool of pages: which text has which page.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program/step_program.h"

namespace hydrac::runtime {

class CachePages {
 public:
  // A cache in pages starts with all of them free; any other cache has room for its sequences.
  explicit CachePages(const CacheShape& cache);

  // Gives the sequence pages until it has those of `tokens` tokens, at most a context. Returns false, and
  // gives none, if too few are free.
  bool grow(size_t sequence, int64_t tokens);
  // All pages of the sequence are free again.
  void release(size_t sequence);

  // The table for NextLogits::set_page_table(); empty for a cache without pages.
  std::span<const int32_t> table() const { return table_; }
  int64_t most_used() const { return most_used_; }  // pages, at once

 private:
  int64_t pages_of(int64_t tokens) const;

  const CacheShape cache_;
  std::vector<int32_t> table_;  // [sequences, pages_of_sequence], -1 where there is none
  std::vector<int64_t> held_;   // by sequence: pages
  std::vector<int32_t> free_;   // the last one is given next
  int64_t most_used_ = 0;
};

}  // namespace hydrac::runtime
