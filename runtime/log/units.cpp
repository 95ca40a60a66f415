#include "runtime/log/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace hydrac::runtime {

namespace {

// Three digits; with `trim` without trailing zeros after the point. The caller has scaled the value below
// 1000.
std::string three_digits(double value, bool trim) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (!trim || decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string human_count(double count) {
  if (!std::isfinite(count)) return "?";
  if (count < 0) return fmt::format("-{}", human_count(-count));
  constexpr std::array<const char*, 6> units{"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  // 999.5 and more would print as 1000.
  while (count >= 999.5 && unit + 1 < units.size()) {
    count /= 1000;
    ++unit;
  }
  return three_digits(count, true) + units[unit];
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<const char*, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1023.5) {
    value /= 1024;
    ++unit;
  }
  return three_digits(value, false) + " " + units[unit];
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60, rest = whole % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace hydrac::runtime
