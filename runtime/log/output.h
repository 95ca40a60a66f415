// Text for people, where a failing write must not end a training run.
#pragma once
#include <cstdio>
#include <string_view>

namespace hydrac::runtime {

// Writes `text` to `out` and flushes. Never throws.
// - If nobody reads `out` any more (a closed pipe, a terminal that is gone): says so on stderr once, and
//   later output goes to /dev/null. exit_code_of() has made such writes errors instead of signals.
// - Another failure (a full disk) is reported on stderr once and stays in ferror(out), where exit_code_of()
//   finds it.
void print_text(std::FILE* out, std::string_view text);

// Writes `text` to standard error: notes, warnings, the cause of an end. All output to stderr goes through
// here, because fmt::print throws if nothing can be written, and nobody could report that.
void print_error(std::string_view text);

}  // namespace hydrac::runtime
