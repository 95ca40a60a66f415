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

// The part of runtime/ and templates/ that a program of these files carries along: headers that its includes
// reach, the sources that define what these declare, and how they are built. Each says in its first
// line that hydrac wrote it.
Files carried_runtime(const Files& program);

}  // namespace hydrac::emit
