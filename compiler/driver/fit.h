// Keys that planning chooses: `optimizations.fit`, `train.micro_batch_size: auto` and
// `optimizations.recompute: auto`. All three are the same search (driver/fit_search.h) with more or fewer
// open keys.
#pragma once
#include <optional>

#include "diag/diagnostic.h"
#include "driver/compile.h"
#include "driver/fit_search.h"

namespace hydrac::driver {

// The keys of a spec that may be chosen.
FitSpace fit_space(const spec::Spec& spec);

struct ChosenKeys {
  passes::Log decisions;                    // of optimizations.fit: what was taken, its cost, the second best
  std::optional<diag::Diagnostic> problem;  // where nothing fits, with the least memory that would
};

// Gives the spec's open keys (spec/fit_keys.h) the values of the fastest combination that fits the memory
// limit (driver/memory_limit.h). If only the micro-batch is open, it becomes the largest divisor of the
// global batch that fits. On cpu only micro-batches of at most 4096 tokens are tried, because larger ones
// leave the caches. If nothing fits, the values are those that need the least memory; without `fit` there is
// then no problem here, and memory_problem() reports it. The result is the same on every machine of the
// spec's target. InputError if the limit is not known.
ChosenKeys choose_open_keys(spec::Spec& spec, const CompileOptions& options,
                            const FitProgress& progress = {});

// `recompute: auto`: compiles with the fastest choice that fits the limit. If none fits, with the choice that
// needs the least memory. InputError if the limit is not known. The log begins with the choices that were
// tried.
Compiled compile_to_fit(const spec::Spec& spec, const CompileOptions& options);

}  // namespace hydrac::driver
