#include "runtime/parallel/slurm.h"

#include <charconv>

namespace hydrac::runtime {

namespace {

// The number that `text` begins with, which is taken off it.
std::optional<int> take_count(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string first_slurm_host(std::string_view list) {
  std::string name;
  while (!list.empty() && list[0] != ',') {
    if (list[0] != '[') {
      name += list[0];
      list.remove_prefix(1);
      continue;
    }
    const size_t close = list.find(']');
    if (close == std::string_view::npos) return "";
    const std::string_view numbers = list.substr(1, close - 1);
    name += numbers.substr(0, numbers.find_first_of("-,"));
    list.remove_prefix(close + 1);
  }
  return name;
}

std::optional<int> slurm_count(std::string_view list, int index) {
  for (;;) {
    const std::optional<int> count = take_count(list);
    if (!count) return std::nullopt;
    int times = 1;
    if (take_word(list, "(x")) {
      const std::optional<int> given = take_count(list);
      if (!given || !take_word(list, ")")) return std::nullopt;
      times = *given;
    }
    if (index < times) return *count;
    index -= times;
    if (!take_word(list, ",")) return std::nullopt;
  }
}

}  // namespace hydrac::runtime
