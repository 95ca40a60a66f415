// Text for people on standard output, where a failing write must not end a training run.
#pragma once
#include <cstdio>
#include <string_view>

namespace hydrac::runtime {

// Writes `text` to `out` and flushes. Never throws.
// - Nobody reads `out` any more (a closed pipe, a terminal that is gone): says so on stderr once, and all
// that
//   follows goes to /dev/null. For a caller that has called ignore_write_signals().
// - Another failure (a full disk) is said on stderr once and stays in ferror(out), where exit_code_of() finds
//   it.
void print_text(std::FILE* out, std::string_view text);

}  // namespace hydrac::runtime
