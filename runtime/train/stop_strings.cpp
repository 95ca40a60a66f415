#include "runtime/train/stop_strings.h"

#include <algorithm>
#include <utility>

namespace hydrac::runtime {

std::string StopStrings::push(const std::string& piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : strings_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, "").substr(0, first);
  }
  const size_t certain = held_.size() - begun();
  std::string text = held_.substr(0, certain);
  held_.erase(0, certain);
  return text;
}

std::string StopStrings::finish() {
  return std::exchange(held_, "");
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
