// A spec's wishes for matmuls by their names (optimizations.own_matmuls, library_matmuls).
#pragma once
#include <span>
#include <string>

#include "passes/passes.h"

namespace hydrac::passes {

enum class Asked { nothing, ours, library };

// `name`: of the matmul's result. A name that both lists match is asked to be ours.
Asked asked_of(const FusedMatmuls& options, const std::string& name);

// True if one of the patterns (* ? []) matches.
bool names_matmul(std::span<const std::string> patterns, const std::string& name);

}  // namespace hydrac::passes
