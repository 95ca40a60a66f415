// The runtime's sources, as they were when hydrac was built: what emitted programs are checked against, and
// may carry along.
#pragma once
#include <string>
#include <vector>

#include "emit/emit.h"

namespace hydrac::emit {

struct RuntimeFile {
  const char* path;  // relative to runtime/
  const char* text;
};
const std::vector<RuntimeFile>& runtime_files();

// runtime/ and templates/, as an emitted program carries them along; each says in its first line that hydrac
// wrote it.
Files carried_runtime();

}  // namespace hydrac::emit
