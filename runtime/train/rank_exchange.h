// Exchanges data about a step's replies between ranks, of any length. Without ranks the result is this
// process's own data.
#pragma once
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

// Every rank's text, one behind the other. Every rank calls it, null or not on all.
std::string joined(Ranks* ranks, const std::string& own);

// Likewise numbers, or structures of them.
template <typename T>
std::vector<T> joined(Ranks* ranks, std::span<const T> own) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::string bytes = joined(ranks, {reinterpret_cast<const char*>(own.data()), own.size_bytes()});
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

// The result of rank 0's `find`, on every rank; also a RewardError that it throws.
std::vector<double> found_by_rank_0(Ranks* ranks, const std::function<std::vector<double>()>& find);

}  // namespace hydrac::runtime
