// The functions of <cmath> and <algorithm> that an expression can have, by their names in C++.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "functions/expressions.h"

namespace hydrac::specialize {

struct MathFunction {
  std::string name;  // in std
  int arguments = 0;
  bool is_step = false;  // its derivative is 0 wherever it has one
};

// "exp", "expf", "fmaxf", "max"; nothing where there is no such function.
std::optional<MathFunction> find_math(const std::string& name);

// The lifted call. nullopt if it cannot be lifted with these arguments: a power of two variables.
std::optional<int> lift_math(functions::Expressions& e, const std::string& name,
                             const std::vector<int>& args);

// All of them, for messages: "abs, exp, ...".
std::string math_names();

// True if <cmath> declares it, lifted or not.
bool is_in_cmath(const std::string& name);

}  // namespace hydrac::specialize
