// A program that compiles where every number reads back from its text as the same number of the same type.
#pragma once
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "codegen/number_text.h"

namespace hydrac::test {

template <class T>
std::string number_assertion(const char* type, T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return fmt::format("static_assert(is<{}>({}, {}{{{:#x}u}}));\n", type, codegen::number_text(value),
                     sizeof(T) == 4 ? "unsigned" : "Wide", std::bit_cast<Bits>(value));
}

template <class T>
std::vector<T> awkward_floats() {
  using Limits = std::numeric_limits<T>;
  const T tiny = Limits::denorm_min(), least = Limits::min();
  std::vector<T> values = {0,
                           1,
                           2,
                           10,
                           1000,
                           16777216,
                           T(1e16),
                           T(1e30),
                           T(0.1),
                           T(1) / 3,
                           T(1e-6),
                           tiny,
                           3 * tiny,
                           least,
                           least - tiny,
                           Limits::max(),
                           Limits::infinity(),
                           Limits::quiet_NaN()};
  for (size_t i = 0, count = values.size(); i < count; ++i) values.push_back(-values[i]);
  return values;
}

template <class T>
std::vector<T> awkward_integers() {
  using Limits = std::numeric_limits<T>;
  return {0,
          1,
          255,
          65536,
          Limits::max(),
          Limits::max() - 1,
          Limits::min(),
          Limits::min() + 1,
          static_cast<T>(-7)};
}

inline std::string number_assertions() {
  std::string text =
      "using Wide = unsigned long;\n"
      "template <class T> struct Of { static constexpr bool is_float = false; };\n"
      "template <> struct Of<float> { static constexpr bool is_float = true; };\n"
      "template <> struct Of<double> { static constexpr bool is_float = true; };\n"
      // A small integer of 64 bits is one of 32 to C++, and widens wherever it stands.
      "template <class T, class Number, class Bits> constexpr bool is(Number number, Bits bits) {\n"
      "  if (Of<T>::is_float ? !Of<Number>::is_float || sizeof(T) != sizeof(Number)\n"
      "                      : Of<Number>::is_float || sizeof(Number) > sizeof(T)) return false;\n"
      "  return __builtin_bit_cast(Bits, static_cast<T>(number)) == bits;\n"
      "}\n";
  for (const float value : awkward_floats<float>()) text += number_assertion("float", value);
  for (const double value : awkward_floats<double>()) text += number_assertion("double", value);
  for (const auto value : awkward_integers<std::int32_t>()) text += number_assertion("int", value);
  for (const auto value : awkward_integers<std::uint32_t>()) text += number_assertion("unsigned", value);
  for (const auto value : awkward_integers<std::int64_t>()) text += number_assertion("long", value);
  for (const auto value : awkward_integers<std::uint64_t>()) text += number_assertion("unsigned long", value);
  return text;
}

}  // namespace hydrac::test
