// A user's C++ function as an expression: parsed by Clang, its helpers inlined, its branches turned into
// choices. docs/functions.md says what C++ can be lifted. Includes no header of Clang.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "functions/function.h"

namespace hydrac::specialize {

// A key's requirements for its function.
struct WantedFunction {
  // The ways to write it: "float f(float x)", "float f(float gate, float up)". Their parameters are counted.
  std::vector<std::string> signatures;
  bool may_be_double = false;  // everything in it is then
  int differentiated = 0;      // by the first so many of its parameters, or by all that it has
};

// Something about a function, at a place in its file.
struct FunctionProblem {
  int line = 0, column = 0;  // count from 1; 0 where it is about the whole file
  std::string message;
  std::string suggestion;  // may be empty
  bool operator==(const FunctionProblem&) const = default;
};

struct LiftedFunction {
  std::optional<functions::Function> function;  // where there are no errors
  std::vector<FunctionProblem> errors;          // in the order of the file
  std::vector<FunctionProblem> warnings;
};

// The function `name` (a C identifier) of the file `text`; messages name it `path`.
LiftedFunction lift_function(const std::string& path, const std::string& text, const std::string& name,
                             const WantedFunction& wanted);

}  // namespace hydrac::specialize
