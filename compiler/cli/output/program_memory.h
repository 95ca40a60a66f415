// The memory that a program may take: `--memory`, and the refusal of one that does not fit.
#pragma once
#include <optional>

#include "cli/input/arguments.h"
#include "diag/diagnostic.h"
#include "ir/type.h"
#include "spec/spec.h"

namespace hydrac::cli {

// --memory GIB in bytes, 0 where it is not given; runtime::InputError for anything but a positive number.
int64_t memory_option(const Arguments& arguments);

// Prints the problem, if there is one, and throws Reported.
void require_fit(const std::optional<diag::Diagnostic>& problem);

// Prints that no machine's memory holds the spec's program, and throws Reported.
[[noreturn]] void refuse_sizes(const spec::Spec& spec);

// compile(), which refuses sizes that exceed 64 bits like programs that do not fit.
template <class Compile>
auto with_countable_sizes(const spec::Spec& spec, Compile compile) {
  try {
    return compile();
  } catch (const ir::SizeOverflow&) {
    refuse_sizes(spec);
  }
}

}  // namespace hydrac::cli
