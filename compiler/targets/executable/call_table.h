// Text that runtime::CallTable reads: for each call of a program, its inputs and outputs, and the key of the
// spec that asked for it. A program traces a failure to its call with it, whether JIT-compiled or emitted.
#pragma once
#include <string>

#include "driver/compile.h"

namespace hydrac::targets {

// Where in what the user wrote a key of a spec, or one of a section's keys, stands:
// "model.norm, spec.yaml:12", "model.norm on the command line", "model.norm, by default".
std::string place_of(const spec::Spec& spec, const std::string& key);

// How a call's origin is named: by key, file and line, or by key alone, which stays the same when lines are
// added to the spec.
enum class SpecPlaces { lines, keys };

std::string call_table(const driver::Compiled& compiled, SpecPlaces places);

}  // namespace hydrac::targets
