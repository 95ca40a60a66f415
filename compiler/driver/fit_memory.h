// Whether a program's plan fits the memory of its target, which changes of the spec would make it fit, and
// `optimizations.recompute: auto`, which is answered by planning.
#pragma once
#include <optional>
#include <string>

#include "diag/diagnostic.h"
#include "driver/compile.h"

namespace hydrac::driver {

// What a plan may take.
struct MemoryLimit {
  int64_t bytes = 0;   // 0: not known, for a GPU that is given by its architecture only
  std::string source;  // how that was found, for people
  bool allows(int64_t plan) const { return bytes == 0 || plan <= bytes; }
};

// What was given: the smaller of options.memory_bytes and the spec's memory_limit; 0 where neither was.
int64_t given_memory(const spec::Spec& spec, const CompileOptions& options);

// given_memory(); else the target's memory, or this machine's (and its container's) on cpu, less a reserve
// for the CUDA context, libraries and the rest of the process.
MemoryLimit memory_limit(const spec::Spec& spec, const CompileOptions& options);

// Compiles with the choice that computes least again among those that fit the limit. Where none fits: with
// the one that needs least memory. InputError where the limit is not known. The decisions begin with what was
// tried.
Compiled compile_to_fit(const spec::Spec& spec, const CompileOptions& options);

// What to tell the user where the plan does not fit, with values of keys that were tried and do; nothing
// where it fits or the limit is not known. `options`: those it was compiled with.
std::optional<diag::Diagnostic> memory_problem(const Compiled& compiled, const CompileOptions& options);

}  // namespace hydrac::driver
