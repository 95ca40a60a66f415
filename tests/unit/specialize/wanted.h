// Kinds of functions that specs name.
#pragma once
#include "specialize/lift/lift_function.h"

namespace hydrac::specialize {

inline const WantedFunction kActivation{.signatures = {"float f(float x)", "float f(float gate, float up)"},
                                        .differentiated = 2};
inline const WantedFunction kCurve{.signatures = {"float f(float step, float max_steps)"},
                                   .may_be_double = true};

}  // namespace hydrac::specialize
