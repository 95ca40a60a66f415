// Texts from easy to hard: the order by a difficulty, and how rare the tokens of a text are among all those
// that are trained on.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <utility>
#include <vector>

namespace hydrac::runtime {

// Sorts by difficulty(item), a double; equal ones stay in the order that they have.
template <class Item, class Difficulty>
void sort_from_easy(std::vector<Item>& items, Difficulty difficulty) {
  std::vector<std::pair<double, size_t>> keys;  // and where the item is
  keys.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) keys.emplace_back(difficulty(items[i]), i);
  std::ranges::sort(keys);
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (const size_t i : keys | std::views::values) sorted.push_back(items[i]);
  items = std::move(sorted);
}

// First count() for every text, then mean() of any of them. Sums are of whole units of 2^-20 nats, so that an
// order by them depends neither on the last bits of a logarithm nor on the order of summing.
class TokenRarity {
 public:
  // Token ids, each at least 0.
  template <std::ranges::input_range Ids>
  void count(const Ids& ids) {
    for (const int32_t id : ids) {
      if (static_cast<size_t>(id) >= counts_.size()) counts_.resize(static_cast<size_t>(id) + 1);
      ++counts_[static_cast<size_t>(id)];
      ++total_;
    }
    units_.clear();
  }

  // The mean of -log(frequency) over these tokens, all of them counted; in units of 2^-20 nats. 0 of none.
  template <std::ranges::input_range Ids>
  double mean(const Ids& ids) {
    if (units_.empty()) measure();
    int64_t sum = 0, size = 0;
    for (const int32_t id : ids) {
      sum += units_[static_cast<size_t>(id)];
      ++size;
    }
    return size == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(size);
  }

 private:
  void measure() {
    constexpr double kUnitsPerNat = 1 << 20;
    units_.reserve(counts_.size());
    for (const int64_t count : counts_) {
      const double frequency = static_cast<double>(count) / static_cast<double>(total_);
      units_.push_back(count == 0 ? 0 : std::llround(-std::log(frequency) * kUnitsPerNat));
    }
  }

  std::vector<int64_t> counts_, units_;  // of each id
  int64_t total_ = 0;
};

}  // namespace hydrac::runtime
