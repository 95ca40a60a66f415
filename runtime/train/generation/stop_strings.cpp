#include "runtime/train/generation/stop_strings.h"

#include <algorithm>
#include <cstddef>

namespace hydrac::runtime {

std::string StopStrings::push(std::string_view piece, bool is_shown) {
  if (stopped_) return "";
  held_ += piece;
  is_shown_.resize(held_.size(), is_shown);
  size_t first = std::string::npos;
  for (const std::string& stop : strings_) first = std::min(first, held_.find(stop));
  if (first == std::string::npos) return release(held_.size() - begun());
  stopped_ = true;
  std::string text = release(first);
  held_.clear();
  is_shown_.clear();
  return text;
}

std::string StopStrings::finish() {
  return release(held_.size());
}

bool StopStrings::name(std::string_view token) const {
  return std::ranges::any_of(strings_,
                             [&](const std::string& stop) { return stop.find(token) != std::string::npos; });
}

std::string StopStrings::release(size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    if (is_shown_[i]) text += held_[i];
  }
  held_.erase(0, bytes);
  is_shown_.erase(is_shown_.begin(), is_shown_.begin() + static_cast<ptrdiff_t>(bytes));
  return text;
}

size_t StopStrings::begun() const {
  size_t longest = 0;
  for (const std::string& stop : strings_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

}  // namespace hydrac::runtime
