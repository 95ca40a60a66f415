// The text of a runtime::CallTable: the inputs and outputs of each call of a program, and the spec's key that
// asked for it. JIT-compiled and emitted programs trace failures to their call with it.
#pragma once
#include <string>

#include "driver/compile.h"

namespace hydrac::targets {

// The place where the user wrote a key of a spec, or one of a section's keys: "model.norm, spec.yaml:12",
// "model.norm on the command line", "model.norm, by default".
std::string place_of(const spec::Spec& spec, const std::string& key);

// How a call's origin is named: by key, file and line; or by key alone, which does not change when lines are
// added to the spec.
enum class SpecPlaces { lines, keys };

std::string call_table(const driver::Compiled& compiled, SpecPlaces places);

}  // namespace hydrac::targets
