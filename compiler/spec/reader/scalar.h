// Scalars of YAML 1.2's core schema, and replacements for things that only look like numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "spec/reader/tree.h"

namespace hydrac::spec {

struct Null {};

// A whole number that does not fit 64 bits.
struct Overflow {};

// A number that is not 0, but closer to it than any double.
struct Underflow {};

using Scalar = std::variant<Null, bool, int64_t, Overflow, Underflow, double, std::string>;

// The value of a scalar (or null) node. Quoted scalars are strings.
Scalar scalar_value(const Node& node);

// nullopt where it is no number that fits.
std::optional<double> number_of(const Node& node);

// True if `text` begins like a number; when it is none, somebody meant one.
bool looks_like_number(std::string_view text);

// A number to write in place of something that looks like one and is none: "6000" for "6_000", "4000 or 4096"
// for "4k", "0.1" for "10%", "1e-4" for "1e-4x". Empty when there is no telling.
std::string meant_number(std::string_view text);

// The shortest text that reads as `value`, and as a number in YAML 1.1 (PyYAML) as in 1.2: 6.0e-07, not
// 6e-07.
std::string yaml_number(double value);

// A node in words: "a list", "the number 5", "the text \"abc\"", "nothing".
std::string describe(const Node& node);

}  // namespace hydrac::spec
