// The spec's enumerations as C++ types, with their spellings: to_string(Norm::rmsnorm) == "rmsnorm".
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace hydrac::spec {

#define ENUM(type) enum class type {
#define VALUE(name, spelling, doc) name,
#define END_ENUM \
  }              \
  ;
#include "spec/keys/enums.def"
#undef ENUM
#undef VALUE
#undef END_ENUM

// One word an enum key takes, in declaration order; its index is the enumerator's value.
struct EnumValue {
  std::string_view spelling;
  std::string_view doc;
};

// All words of an enum, in declaration order: enum_values(Norm{}).
#define ENUM(type)                              \
  std::span<const EnumValue> enum_values(type); \
  std::string_view to_string(type value);       \
  inline std::string_view enum_name(type) {     \
    return #type;                               \
  }
#define VALUE(name, spelling, doc)
#define END_ENUM
#include "spec/keys/enums.def"
#undef ENUM
#undef VALUE
#undef END_ENUM

// How many words an enum has.
#define ENUM(type)                    \
  constexpr size_t enum_count(type) { \
    return 0
#define VALUE(name, spelling, doc) +1
#define END_ENUM \
  ;              \
  }
#include "spec/keys/enums.def"
#undef ENUM
#undef VALUE
#undef END_ENUM

// True if a table, whose rows begin with a word called `name`, has one row for each word, in their order.
template <class Table>
constexpr bool has_a_row_for_each_word(const Table& table) {
  using E = std::remove_cvref_t<decltype(table[0].name)>;
  if (table.size() != enum_count(E{})) return false;
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name != static_cast<E>(i)) return false;
  return true;
}

// The enumerator spelled `text`, if there is one.
template <class E>
std::optional<E> enum_from(std::string_view text) {
  const auto values = enum_values(E{});
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].spelling == text) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace hydrac::spec
