// A compiled program as source code that people check in, build ahead of time and review.
#pragma once
#include <map>
#include <string>

#include "driver/compile.h"

namespace hydrac::emit {

// Text by path relative to the emitted folder.
using Files = std::map<std::string, std::string>;

struct EmitOptions {
  std::string spec_file;  // its name without folders, for the headers
};

// The same program gives the same bytes, wherever and whenever it is emitted.
Files emit(const driver::Compiled& compiled, const EmitOptions& options);

}  // namespace hydrac::emit
