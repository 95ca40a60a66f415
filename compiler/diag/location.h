// A place in something the user wrote: a file, or the command line's overrides.
#pragma once
#include <string>

namespace hydrac::diag {

// The file name given to text that stands on the command line (`train.max_steps=10`).
inline constexpr const char* kCommandLine = "<command line>";

// Lines and columns count from 1; a column counts bytes. A default-made Location is "nowhere" (a default
// value).
struct Location {
  std::string file;
  int line = 0;
  int col = 0;

  bool known() const { return line > 0; }
  bool on_command_line() const { return file == kCommandLine; }
  bool operator==(const Location&) const = default;
};

}  // namespace hydrac::diag
