// The C++ functions that a spec names: their files are read, and what they compute is lifted from them.
#pragma once
#include "spec/reader/draft.h"

namespace hydrac::spec {

// Reads the text of every function that a key holds and lifts it; what is wrong in a C++ file is reported at
// its place there. A key whose function cannot be had becomes broken. After bind, before resolve.
void lift_functions(Draft& draft);

}  // namespace hydrac::spec
