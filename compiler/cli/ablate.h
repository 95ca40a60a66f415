// `hydrac bench SPEC --ablate`: a table with a row for each of the spec's optimizations.
#pragma once
#include "cli/input/arguments.h"

namespace hydrac::cli {

// Markdown, or JSON with --json. The exit code.
int ablate(const Arguments& arguments);

}  // namespace hydrac::cli
