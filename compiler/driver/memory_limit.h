// The memory that a program's plan may take.
#pragma once
#include <string>

#include "driver/compile.h"

namespace hydrac::driver {

std::string bytes_text(int64_t bytes);  // "3.57 GiB"

// The memory that a plan may take.
struct MemoryLimit {
  int64_t bytes = 0;   // 0: not known, for a GPU that is given by its architecture only
  std::string source;  // how that was found, for people
  bool allows(int64_t plan) const { return bytes == 0 || plan <= bytes; }
};

// The given limit: the smaller of options.memory_bytes and the spec's memory_limit; 0 if neither is given.
int64_t given_memory(const spec::Spec& spec, const CompileOptions& options);

// given_memory(); else the target's memory, or this machine's (and its container's) on cpu, less a reserve
// for the CUDA context, libraries and the rest of the process.
MemoryLimit memory_limit(const spec::Spec& spec, const CompileOptions& options);

// The same for `key`, which fits the memory: InputError, in its name, where the limit is not known.
MemoryLimit known_memory_limit(const spec::Spec& spec, const CompileOptions& options, const char* key);

}  // namespace hydrac::driver
