// Tells if a program's plan fits the memory of its target, and which changes of the spec would make it fit.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "driver/memory_limit.h"

namespace hydrac::driver {

// The message for the user if the plan does not fit, with values of keys that were tried and do; nothing if
// it fits or the limit is not known. `options`: those it was compiled with.
std::optional<diag::Diagnostic> memory_problem(const Compiled& compiled, const CompileOptions& options);

// Values of keys with which the program fits, every one of them planned: "it fits with ..., or with ...".
std::string memory_remedies(const Compiled& compiled, const CompileOptions& options,
                            const MemoryLimit& limit);

}  // namespace hydrac::driver
