// Words of people who come from another tool: other_names.def as data.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace hydrac::spec {

// A key of another tool.
struct OtherName {
  std::string_view theirs, ours, note;
};
std::span<const OtherName> other_names();

// A value of another tool's for the key `key`.
struct OtherWord {
  std::string_view key, theirs, note;
};
std::span<const OtherWord> other_words();

// Advice for such a key or value; "" where it is not known.
std::string instead_of_name(std::string_view theirs);
std::string instead_of_word(std::string_view key, std::string_view theirs);

// Advice for a target that does not exist; never empty.
std::string instead_of_target(std::string_view name);

}  // namespace hydrac::spec
