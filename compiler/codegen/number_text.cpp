#include "codegen/number_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace hydrac::codegen {

namespace {

// The fewest digits that are read back as the value. A whole number gets a point or an exponent too, because
// "2f" is no literal and "2" an integer.
template <class T>
std::string float_text(T value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// A literal's sign is an operator on its magnitude, which the type does not hold.
template <class T>
std::string signed_text(T value) {
  if (value == std::numeric_limits<T>::min()) return fmt::format("({} - 1)", value + 1);
  return fmt::format("{}", value);
}

}  // namespace

// The builtin is NVRTC's too, which knows neither <limits> nor GCC's builtins for these.
std::string number_text(float value) {
  if (!std::isfinite(value))
    return fmt::format("__builtin_bit_cast(float, {:#x}u)", std::bit_cast<std::uint32_t>(value));
  return float_text(value) + "f";
}

std::string number_text(double value) {
  if (!std::isfinite(value))
    return fmt::format("__builtin_bit_cast(double, {:#x}u)", std::bit_cast<std::uint64_t>(value));
  return float_text(value);
}

std::string number_text(std::int32_t value) {
  return signed_text(value);
}

std::string number_text(std::int64_t value) {
  return signed_text(value);
}

std::string number_text(std::uint32_t value) {
  return fmt::format("{}u", value);
}

std::string number_text(std::uint64_t value) {
  const bool is_signed_too = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return fmt::format("{}{}", value, is_signed_too ? "" : "u");
}

}  // namespace hydrac::codegen
