// An expression as C++ text, with the names in it that somebody must declare.
#pragma once
#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "codegen/number_text.h"

namespace hydrac::codegen {

using Names = std::set<std::string, std::less<>>;

// How tightly the outermost operator of an expression binds, the loosest first. A quotient of sizes is exact
// only as a whole; a division of floats counts as a product.
enum class Precedence {
  ternary,
  logical_or,
  logical_and,
  comparison,
  sum,
  quotient,
  product,
  unary,
  primary
};

// The loosest of those that bind more tightly than it.
constexpr Precedence tighter(Precedence precedence) {
  return static_cast<Precedence>(static_cast<int>(precedence) + 1);
}

struct Code {
  Code() = default;
  Code(std::string words) : text(std::move(words)) {}
  Code(std::string_view words) : text(words) {}
  Code(const char* words) : text(words) {}

  bool empty() const { return text.empty(); }
  bool refers_to(std::string_view name) const { return names.contains(name); }

  std::string text;
  Precedence precedence = Precedence::primary;
  // Dimensions, constants, and variables that are declared only where they are referred to.
  Names names;
};

// A name that refers to itself.
Code named(const std::string& name);

namespace internal {

// Code, or what has some: a Size.
template <class T>
concept HasCode = requires(const T& value) {
  value.code.names;
};

template <class T>
concept IsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

template <class T>
decltype(auto) printed(const T& value) {
  if constexpr (std::is_same_v<T, Code>) {
    return (value.text);
  } else if constexpr (HasCode<T>) {
    return (value.code.text);
  } else if constexpr (IsNumber<T>) {
    return number_text(value);
  } else {
    return (value);
  }
}

template <class T>
void note_names(const T& value, Names& names) {
  if constexpr (std::is_same_v<T, Code>) {
    names.insert(value.names.begin(), value.names.end());
  } else if constexpr (HasCode<T>) {
    names.insert(value.code.names.begin(), value.code.names.end());
  }
}

template <class... Printed>
std::string formatted(fmt::string_view format, const Printed&... printed) {
  return fmt::vformat(format, fmt::make_format_args(printed...));
}

}  // namespace internal

template <class... Args>
using CodeFormat =
    fmt::format_string<std::remove_cvref_t<decltype(internal::printed(std::declval<const Args&>()))>...>;

// fmt::format whose result refers to the names that its arguments refer to. A number becomes a literal of its
// type (2.0f is "2.0f"), and its format can only be {}.
template <class... Args>
Code code(CodeFormat<Args...> format, const Args&... args) {
  Code result(internal::formatted(format, internal::printed(args)...));
  (internal::note_names(args, result.names), ...);
  return result;
}
template <class... Args>
Code code(Precedence precedence, CodeFormat<Args...> format, const Args&... args) {
  Code result = code<Args...>(format, args...);
  result.precedence = precedence;
  return result;
}

Code joined(const std::vector<Code>& parts, std::string_view separator);
// "a + b", where b may be empty, or both.
Code sum_of(const Code& a, const Code& b);
// In parentheses where its operator binds less tightly than `least`.
Code within(const Code& code, Precedence least);
// In parentheses unless it is one word: easier to read than the fewest parentheses.
Code parenthesized(const Code& code);

}  // namespace hydrac::codegen
