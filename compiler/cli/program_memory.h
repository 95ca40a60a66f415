// The memory that a program may take: `--memory`, and the refusal of one that does not fit.
#pragma once
#include <optional>

#include "cli/arguments.h"
#include "diag/diagnostic.h"

namespace hydrac::cli {

// --memory GIB in bytes, 0 where it is not given; runtime::InputError for anything but a positive number.
int64_t memory_option(const Arguments& arguments);

// Where there is a problem, prints it and throws Reported.
void require_fit(const std::optional<diag::Diagnostic>& problem);

}  // namespace hydrac::cli
