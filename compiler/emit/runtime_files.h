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

// What a program of these files needs of runtime/ and templates/, as it carries them along: headers that
// includes reach, the sources that define what these declare, and how they are built. Each says in its first
// line that hydrac wrote it.
Files carried_runtime(const Files& program);

}  // namespace hydrac::emit
